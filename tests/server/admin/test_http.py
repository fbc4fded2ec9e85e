"""The admin API over plain HTTP: every call, who is let in, and what is refused."""

import http.client
import json
import os
import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.server.admin.calls import CALLS
from lior.testing.serving import Serving
from tests.server.serving import Admin, get

QUEUE = r".\private$\http"
STRANGER = 65534  # a user who owns nothing


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("lior", timeout=60)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self._path)


def local(path: str, call: str, arguments: dict[str, Any]) -> tuple[int, Any]:
    connection = UnixConnection(path)
    try:
        connection.request("POST", f"/v1/{call}", json.dumps(arguments))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


@contextmanager
def as_stranger() -> Iterator[None]:
    """The kernel tells the peer of a Unix socket who connected; root may be anybody meanwhile."""
    groups = os.getgroups()
    os.setgroups([4711])
    os.setegid(STRANGER)
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def text(body: str) -> dict[str, Any]:
    return {"body": {"text": body}, "delivery_guarantee": 1}


# Calls


def test_a_queue_from_its_creation_to_its_deletion(admin: Admin) -> None:
    made = admin.call("create_queue", path=QUEUE, properties={"label": "l", "quota": 100, "journaling": True})
    assert made["properties"]["label"] == "l"
    admin.call("set_queue", name=QUEUE, changes={"label": "m"})
    assert admin.call("queue", name=QUEUE)["properties"]["label"] == "m"
    assert QUEUE[2:] in [queue["name"] for queue in admin.call("queues")]
    sent = admin.call("send_to", queue=QUEUE, messages=[text("1"), {**text("2"), "label": "zwei"}])
    assert all(identifier.startswith("{") for identifier in sent)
    found = admin.call("browse", queue=QUEUE)
    assert [message["body"] for message in found] == [{"base64": "MQ=="}, {"base64": "Mg=="}]
    after = found[0]["lookup_identifier"]
    assert [message["label"] for message in admin.call("browse", queue=QUEUE, after=after)] == ["zwei"]
    taken = admin.call("receive_from", queue=QUEUE)
    assert (taken["body"], taken["identifier"]) == ({"base64": "MQ=="}, sent[0])
    admin.call("purge_queue", name=QUEUE)
    assert admin.refused("receive_from", queue=QUEUE)["symbol"] == "MQ_ERROR_IO_TIMEOUT"
    admin.call("delete_queue", name=QUEUE)
    error = admin.refused("queue", name=QUEUE)
    assert (error["symbol"], error["status"], error["code"]) == ("MQ_ERROR_QUEUE_NOT_FOUND", 404, 0xC00E0003)
    assert error["where"] == QUEUE
    assert "lior queue list" in error["remedy"]


def test_a_batch_to_a_transactional_queue_is_all_or_nothing(admin: Admin) -> None:
    path = r".\private$\batch"
    admin.call("create_queue", path=path, properties={"transactional": True, "quota": 4})
    admin.refused("send_to", queue=path, messages=[text("x" * 1500), text("y" * 1500), text("z" * 1500)])
    assert admin.call("queue", name=path)["messages"] == 0
    assert len(admin.call("send_to", queue=path, messages=[text("1"), text("2")])) == 2
    assert admin.call("queue", name=path)["messages"] == 2


def test_a_batch_to_a_plain_queue_says_of_each_what_became_of_it(admin: Admin) -> None:
    path = r".\private$\plain-batch"
    admin.call("create_queue", path=path, properties={"quota": 2})
    first, second, third = admin.call(
        "send_to", queue=path, messages=[text("x" * 1000), text("y" * 1000), text("z" * 100)]
    )
    assert first.startswith("{") and third.startswith("{")
    assert second["error"]["symbol"] == "MQ_ERROR_INSUFFICIENT_RESOURCES"


def test_rights_are_read_and_set_in_sddl(admin: Admin) -> None:
    path = r".\private$\rights"
    admin.call("create_queue", path=path)
    admin.call("set_security", name=path, information=4, descriptor="D:(A;;GA;;;WD)")
    assert "D:(A;;" in admin.call("get_security", name=path, information=4)["sddl"]


def test_the_queue_manager_answers_for_itself(admin: Admin, tmp_path: Path) -> None:
    assert admin.call("properties")["state"] == "ready"
    admin.call("set_properties", changes={"default_time_to_reach_queue": 99})
    assert admin.call("properties")["default_time_to_reach_queue"] == 99
    admin.call("set_online", online=False)
    assert admin.call("properties")["connection_active"] is False
    admin.call("set_online", online=True)
    assert admin.call("transactions") == []
    assert admin.call("connections") == []
    admin.call("backup", path=str(tmp_path / "copy.db"))
    assert (tmp_path / "copy.db").stat().st_size > 0
    assert isinstance(admin.call("compact"), int)


def test_outgoing_queues_are_shown_paused_and_resumed(admin: Admin) -> None:
    name = r"DIRECT=TCP:127.254.254.254\private$\far"
    admin.call("send_to", queue=name, messages=[text("1")])
    [queue] = [queue for queue in admin.call("outgoing") if queue["format_name"] == name]
    assert queue["messages"] == 1
    assert queue["transfer"]["eod_no_ack_count"] == 0
    admin.call("pause", name=name)
    assert admin.call("queue", name=name)["state"] == "ONHOLD"
    admin.call("resume", name=name)
    assert admin.call("queue", name=name)["state"] != "ONHOLD"


def test_what_changes_nothing_may_be_got(admin: Admin) -> None:
    admin.call("create_queue", path=r".\private$\123")
    assert admin.get(r"/v1/queue?name=.%5Cprivate%24%5C123")[1]["result"]["name"] == r"private$\123"
    assert admin.get(r"/v1/browse?queue=.%5Cprivate%24%5C123&limit=1") == (200, {"result": []})
    status, answer = admin.get(r"/v1/delete_queue?name=.%5Cprivate%24%5C123")
    assert (status, answer["error"]["symbol"]) == (404, "MQ_ERROR_UNSUPPORTED_OPERATION")
    assert admin.call("queue", name=r".\private$\123")["messages"] == 0


def test_the_list_of_calls_has_every_call_with_its_arguments(admin: Admin) -> None:
    status, answer = admin.get("/v1")
    assert status == 200
    assert set(answer["calls"]) == set(CALLS)
    assert answer["calls"]["delete_queue"]["arguments"] == {"name": "text"}
    assert all(call["about"] for call in answer["calls"].values())


# What is refused


@pytest.mark.parametrize(
    ("call", "arguments", "symbol"),
    [
        ("nothing", {}, "MQ_ERROR_UNSUPPORTED_OPERATION"),
        ("begin", {}, "MQ_ERROR_UNSUPPORTED_OPERATION"),
        ("queue", {}, "MQ_ERROR_INVALID_PARAMETER"),
        ("queue", {"name": 1}, "MQ_ERROR_INVALID_PARAMETER"),
        ("queue", {"name": "x", "more": 1}, "MQ_ERROR_INVALID_PARAMETER"),
        ("queue", {"name": "\ud800"}, "MQ_ERROR_ILLEGAL_QUEUE_PATHNAME"),
        ("queue", [], "LIOR_ERROR_MALFORMED"),
        ("create_queue", {"path": r".\private$\x", "properties": {"colour": 1}}, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
        ("create_queue", {"path": r".\private$\x", "properties": {"quota": "1"}}, "MQ_ERROR_ILLEGAL_PROPERTY_VALUE"),
        ("create_queue", {"path": r".\private$\x", "properties": {"type": "1"}}, "LIOR_ERROR_MALFORMED"),
        ("set_queue", {"name": "x", "changes": {"security": 1}}, "LIOR_ERROR_MALFORMED"),
        ("set_properties", {"changes": {"identifier": "x"}}, "MQ_ERROR_PROPERTY_NOTALLOWED"),
        ("commit", {"transaction": "x"}, "LIOR_ERROR_MALFORMED"),
        ("commit", {"transaction": "00000000-0000-0000-0000-000000000001"}, "MQ_ERROR_TRANSACTION_SEQUENCE"),
        ("send_to", {"queue": "x", "messages": {}}, "MQ_ERROR_INVALID_PARAMETER"),
        ("send_to", {"queue": "x", "messages": [1]}, "LIOR_ERROR_MALFORMED"),
        ("send_to", {"queue": "x", "messages": [{"colour": 1}]}, "LIOR_ERROR_MALFORMED"),
        ("send_to", {"queue": "x", "messages": [{"identifier": "{}\\1"}]}, "LIOR_ERROR_MALFORMED"),
        ("send_to", {"queue": "x", "messages": [{"body": "x"}]}, "LIOR_ERROR_MALFORMED"),
        ("send_to", {"queue": "x", "messages": [{"body": {"base64": "*"}}]}, "LIOR_ERROR_MALFORMED"),
        ("send_to", {"queue": "x", "messages": [{"body": {"blob": [0, 1]}}]}, "LIOR_ERROR_MALFORMED"),
        ("send_to", {"queue": "x", "messages": [{"priority": "high"}]}, "LIOR_ERROR_MALFORMED"),
        ("send_to", {"queue": QUEUE, "messages": []}, "MQ_ERROR_QUEUE_NOT_FOUND"),
        ("backup", {"path": "/nowhere/at/all"}, "LIOR_ERROR_STORE_UNUSABLE"),
        ("set_online", {"online": 1}, "MQ_ERROR_INVALID_PARAMETER"),
    ],
)
def test_a_wrong_call_is_a_typed_error_and_changes_nothing(
    admin: Admin, call: str, arguments: Any, symbol: str
) -> None:
    before = admin.call("queues")
    status, answer = admin.post(call, arguments)
    assert answer["error"]["symbol"] == symbol
    assert 400 <= status <= 507 and status != 500
    assert set(answer["error"]) == {"code", "symbol", "what", "where", "remedy"}
    assert [queue["name"] for queue in admin.call("queues")] == [queue["name"] for queue in before]


@pytest.mark.parametrize("body", [b"{", b"[1", b"\xff", b"nul", b"NaN", b"[" * 100_000, b'{"a": 1e999}'])
def test_what_is_no_json_is_a_typed_error(admin: Admin, body: bytes) -> None:
    status, answer = admin.post("queue", body)
    assert status == 400
    assert answer["error"]["symbol"] in ("LIOR_ERROR_MALFORMED", "MQ_ERROR_INVALID_PARAMETER")


def test_a_request_over_the_limit_is_refused_and_the_next_one_served(admin: Admin) -> None:
    path = r".\private$\big"
    admin.call("create_queue", path=path)
    big = {"body": {"base64": b64encode(bytes(800_000)).decode()}}
    error = admin.refused("send_to", queue=path, messages=[big])
    assert (error["status"], error["symbol"]) == (413, "LIOR_ERROR_MESSAGE_TOO_LARGE")
    assert "admin.max_request_bytes" in error["where"]
    assert admin.call("queue", name=path)["messages"] == 0


def test_paths_and_methods_that_there_are_not(admin: Admin, server: Serving) -> None:
    assert admin.get("/v2/queues")[0] == 404
    assert admin.get("/")[1]["error"]["remedy"] == "GET /v1 lists the calls"
    assert get(f"{server.admin_url}/healthz", server.token, b"{}")[0] == 405


# Who is let in


@pytest.mark.parametrize("token", ["", "wrong", "Bearer", "x" * 43])
def test_without_the_token_nobody_gets_in_over_tcp(server: Serving, token: str) -> None:
    for path in ("/v1", "/v1/queues", "/v1/session", "/v1/nothing", "/nothing"):
        status, answer = get(server.admin_url + path, token)
        assert (status, answer["error"]["symbol"]) == (401, "MQ_ERROR_ACCESS_DENIED"), path
        assert "admin.token" in answer["error"]["remedy"]
    assert get(f"{server.admin_url}/v1/delete_queue", token, {"name": QUEUE})[0] == 401


def test_the_token_is_for_its_owner_alone(server: Serving) -> None:
    status = (server.data / "admin.token").stat()
    assert status.st_mode & 0o777 == 0o600
    assert len(server.token) >= 40


def test_health_and_metrics_are_open_on_loopback(server: Serving) -> None:
    assert get(f"{server.admin_url}/healthz")[0] == 200
    assert get(f"{server.admin_url}/metrics")[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "192.0.2.1", "evil.example:15801", "[::2"]
)
def test_a_foreign_host_header_is_refused(server: Serving, host: str) -> None:
    for path in ("/healthz", "/metrics", "/v1/queues", "/v1/session"):
        status, answer = get(server.admin_url + path, server.token, Host=host)
        assert (status, answer["error"]["where"]) == (403, "Host")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:15801", "127.0.0.1", "[::1]:80", "queues.example.org"])
def test_own_names_are_welcome(server: Serving, host: str) -> None:
    assert get(f"{server.admin_url}/v1/queues", server.token, Host=host)[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://evil.example:15801", "file://", "http://["])
def test_pages_of_other_sites_are_refused(server: Serving, origin: str) -> None:
    status, answer = get(f"{server.admin_url}/v1/queues", server.token, Origin=origin)
    assert (status, answer["error"]["where"]) == (403, "Origin")
    assert get(f"{server.admin_url}/healthz", Origin=origin)[0] == 403


def test_own_pages_are_welcome(server: Serving) -> None:
    assert get(f"{server.admin_url}/v1/queues", server.token, Origin=server.admin_url)[0] == 200


@pytest.mark.parametrize(("paths", "status"), [("nobody", 401), ("everybody", 200), ("loopback", 200)])
def test_open_paths_can_be_closed(paths: str, status: int, tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings={"admin.open_paths": paths}) as server:
        assert get(f"{server.admin_url}/healthz")[0] == status
        assert get(f"{server.admin_url}/metrics")[0] == status
        assert get(f"{server.admin_url}/healthz", server.token)[0] == 200


def test_a_token_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("x" * 40)
    token.chmod(0o666)
    with pytest.raises(AssertionError, match="others may write the file of the token"):
        Serving(tmp_path / "data", settings={"admin.token_file": str(token)}).start()
    token.chmod(0o600)
    with Serving(tmp_path / "data", settings={"admin.token_file": str(token)}) as server:
        assert get(f"{server.admin_url}/v1/queues", "x" * 40)[0] == 200
        assert not (tmp_path / "data" / "admin.token").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can connect as somebody else")
def test_the_kernel_says_who_comes_over_the_socket(shared_directory: Path) -> None:
    data = shared_directory / "data"
    path = r".\private$\mine"
    forbidden: dict[str, dict[str, Any]] = {
        "receive_from": {"queue": path}, "browse": {"queue": path}, "purge_queue": {"name": path},
        "delete_queue": {"name": path}, "set_queue": {"name": path, "changes": {"label": "x"}},
        "set_security": {"name": path, "descriptor": "D:(A;;GA;;;WD)"},
        "set_properties": {"changes": {"journal_quota": 1}}, "set_online": {"online": False},
        "backup": {"path": "/tmp/x"}, "compact": {}, "transactions": {}, "connections": {},
    }  # fmt: skip
    with Serving(data) as server:
        data.chmod(0o711)
        with server.connect() as qm:
            qm.create_queue(path)
        with as_stranger():
            answers = {name: local(server.socket_path, name, arguments) for name, arguments in forbidden.items()}
            sent = local(server.socket_path, "send_to", {"queue": path, "messages": [text("anybody may send")]})
        for name, (status, answer) in answers.items():
            assert (name, status, answer["error"]["symbol"]) == (name, 403, "MQ_ERROR_ACCESS_DENIED")
        assert sent[0] == 200
        with server.connect() as qm:
            assert qm.receive(path, 0).body == b"anybody may send"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can connect as somebody else")
def test_a_queue_that_a_user_made_is_that_users(shared_directory: Path) -> None:
    data = shared_directory / "data"
    path = r".\private$\theirs"
    with Serving(data) as server:
        data.chmod(0o711)
        with as_stranger():
            status, answer = local(server.socket_path, "create_queue", {"path": path})
            assert status == 200, answer
            status, answer = local(server.socket_path, "send_to", {"queue": path, "messages": [text("1")]})
            assert status == 200, answer
            status, answer = local(server.socket_path, "receive_from", {"queue": path})
            assert status == 200, answer
        with lior.connect(data) as qm:
            assert str(qm.get_security(path).owner) == f"S-1-22-1-{STRANGER}"
