"""What /metrics says, and that docs/metrics.md lists all of it."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lior.server.bulk.daemon import call as daemon_call
from lior.testing.serving import Serving
from tests.server.serving import QUEUE, get

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
FAR = r"DIRECT=TCP:127.254.254.254\private$\far"


class Metrics:
    def __init__(self, server: Serving) -> None:
        status, text = get(f"{server.admin_url}/metrics")
        assert status == 200
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, /, **labels: str) -> float:
        return self.samples[(name, *sorted(labels.items()))]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(tmp_path_factory.mktemp("metrics") / "data", settings={"server.name": "shop"}) as server:
        yield server


def test_figures_of_queues_are_those_of_the_queue_manager(server: Serving) -> None:
    with server.connect() as qm:
        qm.create_queue(QUEUE, quota=10, journal=True)
        for number in range(4):
            qm.send(QUEUE, b"x" * 880)
            assert Metrics(server)("lior_queue_messages", queue=QUEUE[2:], kind="private") == number + 1
        qm.receive(QUEUE, 0)
        found = Metrics(server)
        queue = {"queue": QUEUE[2:], "kind": "private"}
        assert found("lior_queue_bytes", **queue) == 3000
        assert found("lior_queue_journal_messages", **queue) == 1
        assert found("lior_queue_journal_bytes", **queue) == 1000
        assert found("lior_queue_quota_bytes", **queue) == 10240
        assert found("lior_queue_quota_used_ratio", **queue) == pytest.approx(3000 / 10240)
        assert 0 < found("lior_queue_oldest_message_age_seconds", **queue) < 60
        assert found("lior_queue_readers", **queue) == 0
        with qm.open_queue(QUEUE):
            assert Metrics(server)("lior_queue_readers", **queue) == 1
        qm.purge_queue(QUEUE)
        found = Metrics(server)
        assert found("lior_queue_messages", **queue) == 0  # and it is still there
        assert found("lior_queue_oldest_message_age_seconds", **queue) == 0


def test_subscriptions_say_what_they_hold_and_how_far_behind_they_are(server: Serving) -> None:
    name = ".\\private$\\claimed"
    with server.connect() as qm:
        qm.create_queue(name)
        for number in range(10):
            qm.send(name, b"x" * 100 + b"%d" % number)

    def call(what: str, **arguments: Any) -> Any:
        return daemon_call(server.data, what, {"name": "metered", **arguments})

    epoch = call("subscribe", queues=[name])["epoch"]
    end = call("claim", epoch=epoch, start=0, max_rows=7, max_bytes=1 << 20)
    call("release", epoch=epoch, ordinal=3)
    found, label = Metrics(server), {"subscription": "metered"}
    assert found("lior_subscription_claimed", **label) == end - 3 == 4
    assert found("lior_subscription_claimed_bytes", **label) >= 400
    assert found("lior_subscription_lag", **label) == 3
    assert found("lior_subscription_released_total", **label) == 3
    assert 0 < found("lior_subscription_oldest_message_age_seconds", **label) < 600
    assert found("lior_subscription_touched_seconds", **label) == pytest.approx(time.time(), abs=600)
    with server.connect() as qm:
        assert len(list(qm.open_queue(name))) == 3
    call("release", epoch=epoch, ordinal=end)
    with server.connect() as qm:
        qm.purge_queue(name)
    found = Metrics(server)
    assert found("lior_subscription_oldest_message_age_seconds", **label) == 0
    assert found("lior_subscription_claimed", **label) == found("lior_subscription_lag", **label) == 0
    with server.connect() as qm:
        qm.abandon_subscription("metered")
    assert not [each for each in Metrics(server).samples if ("subscription", "metered") in each]


def test_dashboards_of_windows_find_their_names(server: Serving) -> None:
    path = r".\private$\windows"
    with server.connect() as qm:
        qm.create_queue(path, journal=True)
        qm.send(path, b"x" * 880)
        qm.send(path, b"x" * 880)
        qm.receive(path, 0)
        with qm.transaction() as tx:
            tx.send(FAR, b"x" * 880, time_to_reach_queue=0)
    found = Metrics(server)
    name = r"shop\private$\windows"
    for what, value in (("messages", 1), ("bytes", 1000)):
        assert found(f"windows_msmq_{what}_in_queue", name=name) == value
        assert found(f"windows_msmq_{what}_in_journal_queue", name=name) == value
        assert found(f"windows_msmq_{what}_in_journal_queue", name="Computer Queues") == 0
        assert found(f"windows_msmq_{what}_in_queue", name=FAR) >= 0
    while Metrics(server)("windows_msmq_messages_in_queue", name="Computer Queues") != 1:
        pass  # the one that came too late becomes a dead letter


def test_counters_count_what_happened(server: Serving) -> None:
    path = r".\private$\counted"
    with server.connect() as qm:
        qm.create_queue(path)
        before = Metrics(server)
        for _ in range(5):
            qm.send(path, b"x" * 880)
        qm.receive(path, 0)
        qm.receive(path, 0)
        qm.purge_queue(path)
        after = Metrics(server)

    def grown(name: str, **labels: str) -> float:
        return after(name, **labels) - before(name, **labels)

    assert grown("lior_messages_sent_total") == 5
    assert grown("lior_messages_arrived_total") == 5
    assert grown("lior_arrived_bytes_total") == 5000
    assert grown("lior_messages_received_total") == 2
    assert grown("lior_messages_refused_total", **{"class": "NACK_Q_PURGED"}) == 3
    assert grown("lior_store_commits_total") >= 8
    assert grown("lior_store_commit_failures_total") == 0
    assert after("lior_rpc_clients") == 1
    assert after("lior_serving") == 1
    assert after("lior_info", version=next(iter(after.families["lior_info"].samples)).labels["version"],
                 computer_name="shop", identifier=next(iter(after.families["lior_info"].samples)).labels["identifier"])


def test_outgoing_queues_say_in_which_state_they_are(server: Serving) -> None:
    with server.connect() as qm:
        qm.send(FAR, b"x")
        qm.pause(FAR)
        found = Metrics(server)
        assert found("lior_outgoing_state", destination=FAR, state="ONHOLD") == 1
        assert found("lior_outgoing_state", destination=FAR, state="CONNECTED") == 0
        assert found("lior_outgoing_unacknowledged_messages", destination=FAR) == 0
        qm.resume(FAR)


def test_messages_between_servers_are_counted_at_both_ends(server: Serving, tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as other, other.connect() as there, server.connect() as here:
        there.create_queue(QUEUE)
        before = Metrics(server)
        for _ in range(3):
            here.send(other.queue("orders"), b"x")
        for _ in range(3):
            there.receive(QUEUE, 60)
        while here.queue(other.queue("orders")).messages:
            pass  # the acknowledgement is on its way
        sent, received = Metrics(server), Metrics(other)
        assert sent("lior_messages_acknowledged_total") - before("lior_messages_acknowledged_total") == 3
        assert sent("lior_connection_messages_sent_total") - before("lior_connection_messages_sent_total") >= 3
        assert sent("lior_connections", opened="here") == 1
        assert received("lior_connections", opened="there") == 1
        assert received("lior_connection_messages_received_total") >= 3
        assert received("lior_connection_bytes_received_total") == sent("lior_connection_bytes_sent_total") > 0
        [connection] = here.connections()
        assert (connection["address"], connection["state"]) == (other.address, "OPEN")
        [queue] = [queue for queue in here.outgoing() if queue["name"].startswith(f"DIRECT=TCP:{other.address}")]
        assert queue["next_hops"]
        assert queue["history"][-1]["status"] == "READY"


def test_the_page_lists_every_metric_with_its_type_and_no_other(server: Serving) -> None:
    with server.connect() as qm:
        qm.send(FAR, b"x")
    listed = {
        (name.removesuffix("_total") if kind == "counter" else name, kind)
        for names, kind in re.findall(r"^\| (`.*?`) \| (gauge|counter) \|", PAGE, re.M)
        for name in re.findall(r"`(\w+)`", names)
    }
    known = {(family.name, family.type) for family in Metrics(server).families.values()}
    assert listed == {(name, kind) for name, kind in known if not name.startswith("process_")}


def test_health_says_why_it_is_not_well(tmp_path: Path) -> None:
    with Serving(tmp_path / "data", settings={"server.low_disk_bytes": 1 << 60}) as server:
        status, health = get(f"{server.admin_url}/healthz")
        assert (status, health["serving"]) == (200, True)
        assert "free on the disk" in health["degraded"]
        assert Metrics(server)("lior_throttled") == 1
