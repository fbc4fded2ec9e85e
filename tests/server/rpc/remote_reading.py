"""Another queue manager as it reads a queue here, in both ways ([MS-MQQP] 3.2.4, [MS-MQRR] 3.2.4)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from lior.wire.interfaces.qm2qm import QM2QM, RemoteReadDesc, RemoteReadDesc2
from lior.wire.interfaces.remote_read import REMOTE_READ
from lior.wire.message_packet import to_message
from tests.server.rpc.calling import NO_GUID, QUEUE, Answered, Client, format_of

HERE = UUID("aaaaaaaa-0000-0000-0000-00000000000a")


def open_remote(client: Client, name: str = QUEUE, access: int = 1, share: int = 0) -> Any:
    response = client.qmcomm(2, p_queue_format=format_of(name), dw_calling_process_id=0, dw_desired_access=access,
                             dw_share_mode=share, p_lic_guid=HERE, dw_mqs=0)  # fmt: skip
    assert response.result == 0
    return response


def open_session(client: Client, number: int) -> Any:
    return client.call(QM2QM, 2, p_lic_guid=HERE, dw_mqs=0, h_queue=number, p_queue=number, dwp_context=number)


class Session:
    """A queue that was opened through qm2qm."""

    def __init__(self, client: Client, name: str = QUEUE, access: int = 1) -> None:
        self.client = client
        opened = open_remote(client, name, access)
        self.number: int = opened.ph_queue
        self.context: bytes = opened.pph_context
        response = open_session(client, self.number)
        assert response.result == 0
        self.handle: bytes = response.ph_context
        self._last = 0

    def desc(self, action: int = 0, timeout: int = 0, cursor: int = 0, request: int | None = None) -> RemoteReadDesc:
        self._last += 1
        return RemoteReadDesc(self.number, cursor, action, timeout, 0, self.number,
                              self._last if request is None else request)  # fmt: skip

    def start(self, action: int = 0, timeout: int = 0, cursor: int = 0, request: int | None = None) -> Answered:
        answered = self.client.start(QM2QM, 0, lp_remote_read_desc=self.desc(action, timeout, cursor, request))
        self.client.server.engine.commit()
        return answered

    def read(self, action: int = 0, timeout: int = 0, cursor: int = 0, request: int | None = None) -> Any:
        return self.client.result(self.start(action, timeout, cursor, request))

    def read2(self, action: int = 0, timeout: int = 0, cursor: int = 0) -> Any:
        both = RemoteReadDesc2(p_remote_read_desc=self.desc(action, timeout, cursor))
        return self.client.call(QM2QM, 9, lp_remote_read_desc2=both)

    def by_lookup(self, action: int, lookup_id: int, **changes: Any) -> Any:
        desc = self.desc(action)
        for name, value in changes.items():
            setattr(desc, name, value)
        return self.client.call(QM2QM, 10, lookup_id=lookup_id, lp_remote_read_desc2=RemoteReadDesc2(
            p_remote_read_desc=desc))  # fmt: skip

    def end(self, handle: bytes, ack: int = 2) -> Any:
        return self.client.call(QM2QM, 1, pph_context=handle, dw_ack=ack)


def body_in(desc: Any) -> bytes:
    """The body in the packet that was handed out."""
    assert desc.dw_size == len(desc.lp_buffer)
    return to_message(bytes(desc.lp_buffer), queue_manager=HERE).body


class Reader:
    """A queue that was opened through RemoteRead."""

    def __init__(self, client: Client, name: str = QUEUE, access: int = 1, share: int = 0) -> None:
        self.client = client
        self.handle: bytes = open_reading(client, name, access, share).pph_context
        self._last = 0

    def start(self, action: int = 0, timeout: int = 0, *, cursor: int = 0, lookup_id: int = 0,
              request: int | None = None, room: int = 1 << 22, uow: UUID | None = None) -> Answered:  # fmt: skip
        self._last += 1
        fields = {"ph_context": self.handle, "lookup_id": lookup_id, "h_cursor": cursor, "ul_action": action,
                  "ul_timeout": timeout, "dw_request_id": self._last if request is None else request,
                  "dw_max_body_size": room, "dw_max_compound_message_size": 0}  # fmt: skip
        opnum = 7
        if uow is not None:
            opnum, fields["p_transaction_id"] = 13, uow
        answered = self.client.start(REMOTE_READ, opnum, **fields)
        self.client.server.engine.commit()
        return answered

    def read(self, action: int = 0, timeout: int = 0, **options: Any) -> Any:
        return self.client.result(self.start(action, timeout, **options))

    def end(self, request: int, ack: int = 2, *, transactional: bool = False) -> int:
        opnum = 15 if transactional else 9
        response = self.client.call(REMOTE_READ, opnum, ph_context=self.handle, dw_ack=ack, dw_request_id=request)
        return int(response.result)

    def call(self, opnum: int, **fields: Any) -> Any:
        return self.client.call(REMOTE_READ, opnum, ph_context=self.handle, **fields)


def open_reading(client: Client, name: str = QUEUE, access: int = 1, share: int = 0, opnum: int = 2) -> Any:
    return client.call(REMOTE_READ, opnum, p_queue_format=format_of(name), dw_access=access, dw_share_mode=share,
                       p_client_id=NO_GUID, f_non_routing_server=1, major=6, minor=1, build_number=1,
                       f_workgroup=1)  # fmt: skip


def body_of_sections(response: Any) -> bytes:
    """The body in the packet whose sections these are; what a reader did not want of it is missing."""
    packet = b"".join(bytes(each.p_section_buffer) for each in response.pp_packet_sections)
    return to_message(packet[: int.from_bytes(packet[8:12], "little")], queue_manager=HERE).body
