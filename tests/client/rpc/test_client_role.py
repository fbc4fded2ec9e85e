"""The client role of [MS-MQMP] 3.2 against servers that follow a script: which calls, in which order, with what."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.client.rpc import objects, opening
from lior.client.rpc.opening import single
from lior.errors import LiorError, QueueNotFound
from lior.names import QueueFormatType, to_queue_format
from lior.protocols.rpc.faults import RpcFault
from lior.security import SecurityDescriptor
from lior.testing.serving import loopback_address
from lior.wire.dtyp import encode_security_descriptor
from lior.wire.interfaces.structures import ObjectFormat
from lior.wire.ndr import NULL
from lior.wire.propvariant import PropVariant
from tests.client.rpc.scripted import NULL_HANDLE, Script, scripted

OPEN, CLOSE, CLOSE_CURSOR, GET_PROPERTIES, QUERY, GET_SECURITY, PORT = 19, 20, 22, 10, 28, 8, 31
REMOTE_NAME, OPEN_REMOTE, CLOSE_REMOTE, REMOTE_CURSOR, SET_CURSOR = 1, 2, 3, 4, 23
CREATE, DELETE = 6, 9
HANDLE = b"\0\0\0\0" + bytes(range(16))
REMOTE = b"\0\0\0\0" + bytes(range(16, 32))
QUEUE = r"DIRECT=OS:.\private$\q"
REMOTE_OPERATION = 0x400E03E8
FAILS = 0xC00E0002


def fails(code: int = FAILS) -> Callable[[Any], Any]:
    def refuse(request: Any) -> Any:
        raise RpcFault(code)

    return refuse


def supporting(**more: Any) -> dict[int, Callable[[Any], Any]]:
    """qmcomm of a server that has the queue."""
    answers: dict[int, Callable[[Any], Any]] = {
        OPEN: lambda request: (NULL, 77, HANDLE, 0),
        CLOSE: lambda request: (NULL_HANDLE, 0),
        CLOSE_CURSOR: lambda request: (0,),
        GET_PROPERTIES: lambda request: (request.ap_var, FAILS),
    }
    methods: dict[int, Callable[[Any], Any]] = more.get("methods", {})
    return answers | methods


@pytest.mark.spec("MP-189", "MP-183")
def test_a_queue_is_opened_with_the_arguments_of_a_first_call(tmp_path: Path) -> None:
    with scripted(tmp_path, {"qmcomm": supporting(), "qmcomm2": {}}) as server:
        for _ in range(2):
            with lior.connect(tmp_path) as qm, qm.open_queue(QUEUE, "send"):
                pass
        first, again = server.requests("rpc_QMOpenQueueInternal")
        assert (first.h_remote_queue, first.dwp_queue, first.dw_remote_protocol) == (0, 0, 0)
        assert first.dwp_remote_context == 0
        assert first.lplp_remote_queue_name is NULL and first.dw_desired_access == 2 and first.lp_client_name
        assert first.p_lic_guid == again.p_lic_guid == opening.licence_guid() and first.p_lic_guid.int
        assert server.requests("rpc_ACCloseHandle")[0].ph_queue == HANDLE
    program = "from lior.client.rpc.opening import licence_guid; print(licence_guid())"
    environment = os.environ | {"PYTHONPATH": str(Path(lior.__file__).parent.parent)}
    other = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(opening.licence_guid())


@pytest.mark.spec("MP-184")
def test_handle_and_context_of_a_queue_stay_together(tmp_path: Path) -> None:
    """The handle closes and makes cursors, the context reads; each with its own of two queues."""
    given = iter([(11, HANDLE), (22, REMOTE)])

    def opened(request: Any) -> Any:
        context, handle = next(given)
        return (NULL, context, handle, 0)

    def cursor(request: Any) -> Any:
        request.pcc.h_cursor = 5 if request.h_queue == HANDLE else 6
        return (request.pcc, 0)

    def nothing(request: Any) -> Any:
        return (request.ptb, 0xC00E001B)

    script: Script = {"qmcomm": supporting(methods={OPEN: opened}), "qmcomm2": {2: nothing, 3: cursor}}
    with scripted(tmp_path, script) as server, \
            lior.connect(tmp_path) as qm, qm.open_queue(QUEUE) as one, qm.open_queue(QUEUE) as other, \
            one.cursor() as first, other.cursor() as second:
        for each in (first, second):
            with pytest.raises(LiorError):
                each.current(0)
        reads = server.requests("rpc_ACReceiveMessageEx")
        assert [(read.h_qm_context, read.ptb.transfer.cursor) for read in reads] == [(11, 5), (22, 6)]


@pytest.mark.spec("MP-186")
def test_a_queue_without_properties_is_created_by_its_path_alone(tmp_path: Path) -> None:
    done = {CREATE: lambda request: (0,), DELETE: lambda request: (0,)}
    made: Script = {"qmcomm": supporting(methods=done), "qmcomm2": {}}
    with scripted(tmp_path, made) as server, lior.connect(tmp_path) as qm:
        with pytest.raises(LiorError):  # that it is described afterwards is no part of it
            qm.create_queue(r".\private$\q")
        [request] = server.requests("R_QMCreateObjectInternal")
        assert (request.dw_object_type, request.cp, request.a_prop) == (1, 1, (103,))
        assert request.ap_var[0].value == request.lpwcs_path_name == r".\private$\q"
        assert (request.sd_size, request.p_security_descriptor) == (0, None)
        qm.delete_queue(r".\private$\q")
        with pytest.raises(LiorError):
            qm.delete_queue("PUBLIC=01234567-89ab-cdef-0123-456789abcdef")
        assert len(server.requests("R_QMDeleteObject")) == 1


@pytest.mark.spec("MP-187")
def test_a_descriptor_is_asked_for_again_with_the_room_it_needs_but_not_for_ever(tmp_path: Path) -> None:
    data = encode_security_descriptor(SecurityDescriptor()).ljust(700, b"\0")

    def honest(request: Any) -> Any:
        if request.n_length < len(data):
            return (b"", len(data), 0xC00E0023)
        return (data, len(data), 0)

    def lying(request: Any) -> Any:
        return (b"", request.n_length + 1, 0xC00E0023)

    for answer, asked in ((honest, 2), (lying, 4)):
        script: Script = {"qmcomm": supporting(methods={GET_SECURITY: answer}), "qmcomm2": {}}
        with scripted(tmp_path, script) as server, lior.connect(tmp_path) as qm:
            if answer is honest:
                assert qm.get_security(QUEUE).owner is None
            else:
                with pytest.raises(LiorError):
                    qm.get_security(QUEUE)
            assert len(server.requests("R_QMGetObjectSecurityInternal")) == asked


@pytest.mark.spec("MP-188")
def test_properties_that_no_call_may_set_are_not_sent(tmp_path: Path) -> None:
    values = {113: PropVariant(17, 1)}

    def told(request: Any) -> Any:
        return (tuple(values[propid] for propid in request.a_prop), 0)

    script: Script = {"qmcomm": supporting(methods={GET_PROPERTIES: told, 11: lambda request: (0,)}), "qmcomm2": {}}
    with scripted(tmp_path, script) as server, lior.connect(tmp_path) as qm:
        refused: list[dict[str, Any]] = [{"transactional": True}, {"max_aborts": 1}, {"description": {}}]
        for changes in refused:
            with pytest.raises(LiorError):
                qm.set_queue(QUEUE, **changes)
        assert server.asked == []
        qm.set_queue(QUEUE, label="new")
        assert server.requests("R_QMSetObjectProperties")[0].a_prop == (108,)


# A queue of another computer (3.2.4.7, 4.2)


def remote_script(**changes: Callable[[Any], Any]) -> dict[int, Callable[[Any], Any]]:
    answers = {
        OPEN_REMOTE: lambda request: (REMOTE, 41, 42, 43, 0),
        CLOSE_REMOTE: lambda request: (NULL_HANDLE,),
    }
    return answers | {int(name[1:]): change for name, change in changes.items()}


def hinting(address: str) -> Callable[[Any], Any]:
    def opened(request: Any) -> Any:
        if not request.h_remote_queue:
            return (rf"{address}\private$\q", 0, NULL_HANDLE, 0)
        return ("to be ignored", 99, HANDLE, 0)

    return opened


@pytest.mark.spec("MP-190")
def test_a_queue_elsewhere_is_opened_there_and_handed_to_the_server(tmp_path: Path) -> None:
    address = loopback_address()
    here: Script = {"qmcomm": supporting(methods={OPEN: hinting(address)}), "qmcomm2": {}}
    with scripted(tmp_path / "there", {"qmcomm": remote_script()}, address=address) as there, \
            scripted(tmp_path / "here", here) as server, lior.connect(tmp_path / "here") as qm:
        with qm.open_queue(QUEUE, exclusive=True) as queue:
            assert queue.aio.handle.queue.context == 99
        [asked] = there.requests("R_QMOpenRemoteQueue")
        assert (asked.dw_calling_process_id, asked.dw_desired_access, asked.dw_share_mode) == (0, 1, 1)
        first, again = server.requests("rpc_QMOpenQueueInternal")
        assert first.h_remote_queue == 0
        assert (again.h_remote_queue, again.dwp_queue, again.dwp_remote_context) == (43, 42, 41)
        assert again.p_queue_format == first.p_queue_format and again.dw_share_mode == 1
        assert there.names == ["R_QMOpenRemoteQueue", "R_QMCloseRemoteQueueContext"]
        assert there.requests("R_QMCloseRemoteQueueContext")[0].pph_context == REMOTE


@pytest.mark.spec("MP-190")
@pytest.mark.parametrize("step", ["open there", "open here", "close there"])
def test_a_queue_elsewhere_is_not_left_open_where_a_step_fails(tmp_path: Path, step: str) -> None:
    address = loopback_address()
    opened = hinting(address)

    def second_fails(request: Any) -> Any:
        return opened(request) if not request.h_remote_queue else (NULL, 0, NULL_HANDLE, 0xC00E0003)

    steps: dict[str, dict[str, Callable[[Any], Any]]] = {
        "open there": {"_2": lambda request: (NULL_HANDLE, 0, 0, 0, 0xC00E0025)},
        "close there": {"_3": fails(0x1C00001A)},
    }
    changes = steps.get(step, {})
    opens = {OPEN: second_fails if step == "open here" else opened}
    here: Script = {"qmcomm": supporting(methods=opens), "qmcomm2": {}}
    with scripted(tmp_path / "there", {"qmcomm": remote_script(**changes)}, address=address) as there, \
            scripted(tmp_path / "here", here), lior.connect(tmp_path / "here") as qm:
        with pytest.raises(LiorError):
            qm.open_queue(QUEUE)
        assert ("R_QMCloseRemoteQueueContext" in there.names) == (step != "open there")


def test_a_computer_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    here: Script = {"qmcomm": supporting(methods={OPEN: hinting(loopback_address())}), "qmcomm2": {}}
    with scripted(tmp_path, here), lior.connect(tmp_path) as qm, pytest.raises(LiorError, match="cannot be reached"):
        qm.open_queue(QUEUE)


def test_remote_read_is_preferred_where_the_other_computer_offers_it(tmp_path: Path) -> None:
    address = loopback_address()
    here: Script = {"qmcomm": supporting(methods={OPEN: hinting(address)}), "qmcomm2": {}}
    reading = {2: lambda request: (REMOTE,), 3: lambda request: (NULL_HANDLE, 0)}
    with scripted(tmp_path / "there", {"qmcomm": remote_script(), "RemoteRead": reading}, address=address) as there, \
            scripted(tmp_path / "here", here) as server, lior.connect(tmp_path / "here") as qm:
        with qm.open_queue(QUEUE):
            pass
        assert there.names == ["R_OpenQueue", "R_CloseQueue"]
        assert server.names == ["rpc_QMOpenQueueInternal"]


# A cursor, the old way (3.2.4.8, 4.4)


def old_cursor(request: Any) -> Any:
    request.pcc.h_cursor, request.pcc.srv_h_ac_queue, request.pcc.cli_p_qm_queue = 7, 70, 700
    return (request.pcc, REMOTE_OPERATION)


def old_server(address: str, **changes: Callable[[Any], Any]) -> Script:
    methods = {
        REMOTE_NAME: lambda request: (rf"{address}\private$\q", 0),
        SET_CURSOR: lambda request: (0,),
    } | {int(name[1:]): change for name, change in changes.items()}  # fmt: skip
    return {"qmcomm": supporting(methods=methods), "qmcomm2": {3: old_cursor}}


@pytest.mark.spec("MP-191", "MP-199")
def test_an_old_server_sends_the_client_to_the_other_computer_for_a_cursor(tmp_path: Path) -> None:
    address = loopback_address()
    there_script: Script = {"qmcomm": {REMOTE_CURSOR: lambda request: (1234, 0)}}
    with scripted(tmp_path / "there", there_script, address=address) as there, \
            scripted(tmp_path / "here", old_server(address)) as server, lior.connect(tmp_path / "here") as qm:
        with qm.open_queue(QUEUE) as queue, queue.cursor() as cursor:
            assert cursor.aio._handle.number == 7
        assert server.requests("R_QMGetRemoteQueueName")[0].p_queue == 700
        assert there.requests("R_QMCreateRemoteCursor")[0].h_queue == 70
        [told] = server.requests("rpc_ACSetCursorProperties")
        assert (told.h_proxy, told.h_cursor, told.h_remote_cursor) == (HANDLE, 7, 1234)
        [closed] = server.requests("rpc_ACCloseCursor")
        assert (closed.h_queue, closed.h_cursor) == (HANDLE, 7)


@pytest.mark.spec("MP-191")
@pytest.mark.parametrize("step", ["name", "cursor", "properties"])
def test_a_cursor_that_fails_on_its_way_is_closed(tmp_path: Path, step: str) -> None:
    address = loopback_address()
    steps: dict[str, dict[str, Callable[[Any], Any]]] = {
        "name": {"_1": fails(0xC00E0064)}, "properties": {"_23": lambda request: (0xC00E0064,)}}  # fmt: skip
    changes = steps.get(step, {})
    made: Callable[[Any], Any] = fails(0x1C00001A) if step == "cursor" else lambda request: (1234, 0)
    with scripted(tmp_path / "there", {"qmcomm": {REMOTE_CURSOR: made}}, address=address), \
            scripted(tmp_path / "here", old_server(address, **changes)) as server, \
            lior.connect(tmp_path / "here") as qm, qm.open_queue(QUEUE) as queue:
        with pytest.raises(LiorError):
            queue.cursor()
        assert [closed.h_cursor for closed in server.requests("rpc_ACCloseCursor")] == [7]


# What must never be sent, and what a failure means


@pytest.mark.spec("MP-194")
def test_the_following_message_is_not_asked_for_without_a_cursor(tmp_path: Path) -> None:
    def nothing(request: Any) -> Any:
        return (request.ptb, 0xC00E001B)

    with scripted(tmp_path, {"qmcomm": supporting(), "qmcomm2": {2: nothing}}) as server, \
            lior.connect(tmp_path) as qm, \
            qm.open_queue(QUEUE) as queue:
        for read in (queue.peek, queue.receive):
            with pytest.raises(LiorError):
                read(0)
        actions = [read.ptb.transfer.action for read in server.requests("rpc_ACReceiveMessageEx")]
        assert actions == [0x80000000, 0]


@pytest.mark.spec("MP-194")
def test_buffers_are_made_larger_a_bounded_number_of_times(tmp_path: Path) -> None:
    def never_enough(request: Any) -> Any:
        request.ptb.p_body_size = request.ptb.ul_body_buffer_size_in_bytes + 1
        return (request.ptb, 0xC00E001A)

    with scripted(tmp_path, {"qmcomm": supporting(), "qmcomm2": {2: never_enough}}) as server, \
            lior.connect(tmp_path) as qm, qm.open_queue(QUEUE) as queue:
        with pytest.raises(LiorError) as found:
            queue.receive(0)
        assert found.value.symbol == "MQ_ERROR_BUFFER_OVERFLOW"
        assert len(server.requests("rpc_ACReceiveMessageEx")) == 9


@pytest.mark.spec("MP-012")
@pytest.mark.parametrize("raised", [True, False])
def test_a_failure_is_one_error_however_it_comes_and_its_values_are_ignored(tmp_path: Path, raised: bool) -> None:
    answer = fails(0xC00E0003) if raised else lambda request: ("elsewhere\\private$\\q", 5, HANDLE, 0xC00E0003)
    with scripted(tmp_path, {"qmcomm": supporting(methods={OPEN: answer}), "qmcomm2": {}}) as server, \
            lior.connect(tmp_path) as qm:
        with pytest.raises(QueueNotFound):
            qm.open_queue(QUEUE)
        assert "rpc_ACCloseHandle" not in server.names


@pytest.mark.spec("MP-185")
def test_a_server_whose_known_port_is_closed_is_found_by_the_endpoint_mapper_and_asked_for_its_port(
    tmp_path: Path,
) -> None:
    """3.2.3: map, R_QMGetRTQMServerPort with fIP 0, then the rest; a port of 0 is none to go to."""
    address = loopback_address()
    for answered in (2125, 0):
        script: Script = {"qmcomm": supporting(methods={PORT: lambda request, port=answered: (port,)}), "qmcomm2": {}}
        with scripted(tmp_path, script, address=address, port=2125, mapper=True) as server:
            with lior.connect(address, level="none") as qm, qm.open_queue(QUEUE, "send"):
                pass
            assert server.names[:2] == ["R_QMGetRTQMServerPort", "rpc_QMOpenQueueInternal"] or set(
                server.names[1:3]) == {"rpc_QMOpenQueueInternal", "R_QMGetObjectProperties"}
            assert server.requests("R_QMGetRTQMServerPort")[0].f_ip == 0
    with scripted(tmp_path, script, address=address, port=2125), pytest.raises(LiorError, match="cannot be reached"):
        lior.connect(address, level="none")


# Names


@pytest.mark.spec("MP-195")
def test_names_of_paths_and_of_handles_are_asked_for_with_room_that_grows(tmp_path: Path) -> None:
    long = "DIRECT=OS:here\\private$\\" + "q" * 150
    rooms: list[int] = []

    def name_of_path(request: Any) -> Any:
        assert request.p_object_format.p_queue_format.format_type == QueueFormatType.UNKNOWN
        return (ObjectFormat(p_queue_format=to_queue_format(single(r"DIRECT=OS:here\private$\q"))), 0)

    def name_of_handle(request: Any) -> Any:
        room = request.dw_format_name_rpc_buffer_len
        rooms.append(room)
        assert request.pdw_length == room
        if room < len(long) + 1:
            return (long[: room - 1], len(long) + 1, 0xC00E001F)
        return (long, len(long) + 1, 0)

    methods = {12: name_of_path, 26: name_of_handle}
    with scripted(tmp_path, {"qmcomm": supporting(methods=methods), "qmcomm2": {}}) as server:

        async def ask() -> tuple[str, str]:
            async with lior.aio.connect(tmp_path) as qm:
                backend: Any = qm.backend
                async with await qm.open_queue(QUEUE, "send") as queue:
                    return (await objects.format_name_of(await backend.link(), r".\private$\q"),
                            await queue.handle.queue.format_name())

        assert asyncio.run(ask()) == (r"DIRECT=OS:here\private$\q", long)
        assert rooms == [128, len(long) + 1]
        assert server.requests("R_QMObjectPathToObjectFormat")[0].lpwcs_path_name == r".\private$\q"


# Servers that take one call at a time


def test_calls_of_a_server_that_does_not_multiplex_have_connections_of_their_own(tmp_path: Path) -> None:
    """One waits for ever; the others go on, in the same association group."""

    def opened(request: Any) -> Any:
        return (NULL, 77, HANDLE, 0)

    async def waiting(request: Any) -> Any:
        if request.ptb.transfer.action == 0:
            await asyncio.Event().wait()
        return (request.ptb, 0xC00E001B)

    script: Script = {"qmcomm": supporting(methods={OPEN: opened}), "qmcomm2": {2: waiting}}
    with scripted(tmp_path, script, multiplexes=False) as server:

        async def scenario() -> None:
            async with lior.aio.connect(tmp_path) as qm:
                queue = await qm.open_queue(QUEUE)
                reader = asyncio.ensure_future(queue.receive())
                for _ in range(3):
                    with pytest.raises(LiorError):
                        await queue.peek(0)
                assert not reader.done()
                backend: Any = qm.backend
                connections = (await backend.link())._connections
                assert 2 <= len(connections) <= 3
                assert len({each.association.group_id for each in connections}) == 1
                reader.cancel()
                for each in connections:  # nobody answers the read: the end of its connection ends it
                    each._transport.abort()
                await asyncio.wait([reader])

        asyncio.run(asyncio.wait_for(scenario(), 60))
        assert server.names.count("rpc_ACReceiveMessageEx") == 4
