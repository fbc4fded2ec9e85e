"""Messages as the admin API writes them: nothing is lost on the way, and nothing that comes in breaks anything."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lior
from lior.errors import LiorError, Malformed
from lior.message import Message, MessageSecurity, MessageSoap, MessageTransaction, ObjectId
from lior.server.admin.session import ClientSession
from lior.wire import admin_frames
from lior.wire.admin_json import NOT_SENT, error_from_json, error_to_json, message_from_json, message_to_json
from tests.client.served import served

TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
BYTES = st.binary(max_size=40)
NUMBER = st.integers(0, 1 << 40)
SECURITY = st.builds(
    MessageSecurity, NUMBER, BYTES, BYTES, BYTES, BYTES, NUMBER, NUMBER, TEXT, BYTES, NUMBER, NUMBER, NUMBER
)
TRANSACTION = st.builds(
    MessageTransaction, st.uuids(), NUMBER, NUMBER, NUMBER, NUMBER, st.booleans(), st.booleans(), st.booleans(),
    st.none() | st.uuids(), TEXT,
)  # fmt: skip
MESSAGES = st.builds(
    Message, body=BYTES, label=TEXT, body_type=NUMBER, extension=BYTES, priority=NUMBER, packet=BYTES,
    correlation_id=BYTES, positive_journaling_requested=st.booleans(), destination_queue=TEXT,
    identifier=st.none() | st.builds(ObjectId, st.uuids(), st.integers(0, 0xFFFFFFFF)), source_queue_manager=st.uuids(),
    sent_time=st.floats(0, 1e10), connector_type=st.none() | st.uuids(), security=st.none() | SECURITY,
    transaction=st.none() | TRANSACTION, soap=st.none() | st.builds(MessageSoap, TEXT, BYTES, TEXT, TEXT),
    lookup_identifier=st.integers(0, (1 << 64) - 1), arrival_time=st.floats(0, 1e10), abort_count=NUMBER,
)  # fmt: skip
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
    | st.sampled_from([{"text": "x"}, {"base64": "AAE="}, {"base64": "A"}, {"blob": [0, 1]}, r"DIRECT=OS:.\q"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
SETTABLE = sorted(set(Message.__slots__) - NOT_SENT)


@given(MESSAGES, st.booleans())
def test_a_message_comes_back_as_it_was(message: Message, binary: bool) -> None:
    blobs = admin_frames.Blobs()
    written = message_to_json(message, blobs.put if binary else admin_frames.base64)
    value, rest = admin_frames.decode(admin_frames.encode(written, blobs))
    assert message_from_json(value, rest, sending=False) == message


@given(st.dictionaries(st.sampled_from(sorted(Message.__slots__)) | TEXT, ANYTHING, max_size=4))
def test_what_is_no_message_is_one_typed_error(data: dict[str, Any]) -> None:
    try:
        message = message_from_json(data, b"x", sending=True)
    except LiorError as error:
        assert isinstance(error, Malformed)
    else:
        assert message.security is None or message.security.authentication_level == 0
        assert set(data) <= set(SETTABLE)


@pytest.mark.parametrize("soap", [
    {"envelope": "<x/>"}, {"compound_message": {"text": "x"}}, {"body": "<x/>"}, {"receipts_to": "http://h"},
    {"header": "a<b"}, {"header": "<x/>", "envelope": "<x/>"}, {"header": '<Msmq xmlns="msmq.namespace.xml"/>'},
])  # fmt: skip
def test_who_sends_says_nothing_that_the_transfer_says(soap: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        message_from_json({"soap": soap}, b"", sending=True)


@given(st.binary(max_size=60) | TEXT)
def test_what_is_no_frame_is_one_typed_error(frame: bytes | str) -> None:
    try:
        admin_frames.decode(frame)
    except LiorError as error:
        assert isinstance(error, Malformed)


@given(TEXT, TEXT, TEXT)
def test_an_error_comes_back_as_it_was(what: str, where: str, remedy: str) -> None:
    error = error_from_json(error_to_json(LiorError(what or "x", where=where, remedy=remedy)))
    assert (error.what, error.where, error.remedy) == (what or "x", where, remedy)


@pytest.mark.parametrize("data", [None, 1, "x", [], {}, {"code": 0}, {"code": "1"}, {"code": 1 << 40}, {"code": True}])
def test_an_error_that_is_none_is_malformed(data: Any) -> None:
    assert isinstance(error_from_json(data), Malformed)


def test_no_value_of_any_property_is_a_defect(tmp_path: Path) -> None:
    """What a message may hold is the queue manager's to say, in a typed error of its own."""
    with served(tmp_path / "data") as server, lior.connect(tmp_path / "data") as qm:
        service = server.admin
        qm.create_queue(r".\private$\q")

        session = ClientSession(service, service.backend._caller)

        @settings(suppress_health_check=list(HealthCheck), deadline=None)
        @given(st.dictionaries(st.sampled_from(SETTABLE), ANYTHING, max_size=3))
        def send(message: dict[str, Any]) -> None:
            async def run() -> Any:
                return await session.run("send_to", {"queue": r".\private$\q", "messages": [message]}, b"")

            with suppress(LiorError):
                assert len(asyncio.run_coroutine_threadsafe(run(), service.backend.engine._loop).result(60)) == 1

        send()
        assert qm.properties()["state"] == "ready"
        with qm.open_queue(r".\private$\q") as q:
            for message in q:  # each can be read, and travels back
                assert message.body_type >= 0
