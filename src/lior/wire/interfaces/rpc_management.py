"""The remote management interface that every RPC server has ([C706] appendix Q as [MS-RPCE] 2.2.1.3 changes it)."""

from collections.abc import Sequence
from typing import Any, Final

from lior.errors import InvalidParameter
from lior.wire.interfaces.endpoint_mapper import RPC_IF_ID, RpcIfId
from lior.wire.ndr import NdrReader, NdrWriter, Syntax
from lior.wire.ndr_arrays import Array, count_in
from lior.wire.ndr_pointers import Full
from lior.wire.ndr_types import U32, Bound, Names, Owner, Ranged, Type
from lior.wire.rpc_interface import In, InOut, Out, interface, method


class _IfIdVector(Type):
    """rpc_if_id_vector_t: a structure that ends with an array of pointers."""

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        ids = Full(RPC_IF_ID).bind(syntax, names)
        begin_read, finish_read, begin_write, finish_write = (
            ids.begin_read, ids.finish_read, ids.begin_write, ids.finish_write)
        assert begin_read is not None
        assert finish_read is not None
        assert begin_write is not None
        assert finish_write is not None

        def read(reader: NdrReader, owner: Owner) -> tuple[RpcIfId | None, ...]:
            maximum = reader.conformant(None, ids.size)
            count = reader.u32()
            if count != maximum:
                raise reader.malformed(f"{count} interfaces in an array of {maximum}")
            begun = [begin_read(reader, owner) for _ in range(count)]
            return tuple(finish_read(reader, referent, owner) for referent in begun)

        def write(writer: NdrWriter, value: Sequence[Any], owner: Owner) -> None:
            writer.count(len(value))
            writer.u32(len(value))
            for each in value:
                begin_write(writer, each, owner)
            for each in value:
                finish_write(writer, each, None, owner)

        return Bound(4, read, write)


class _CharString(Type):
    """[string, size_is(size)] char[]: the text without its terminator."""

    def __init__(self, size: str) -> None:
        self.size = size

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        size = count_in(self.size, names)

        def read(reader: NdrReader, owner: Owner) -> bytes:
            count = reader.conformant_varying(size(owner), 1)
            text = reader.raw(count)
            if not count or text.find(b"\0") != count - 1:
                raise reader.malformed("string without a single terminator at its end")
            return text[:-1]

        def write(writer: NdrWriter, value: bytes, owner: Owner) -> None:
            count, maximum = len(value) + 1, size(owner)
            if b"\0" in value or (maximum is not None and count > maximum):
                raise InvalidParameter(f"{value[:100]!r} does not fit in {maximum} characters", where="NDR")
            writer.counts(count if maximum is None else maximum, count)
            writer.raw(value + b"\0")

        return Bound(4, read, write)


RPC_MANAGEMENT: Final = interface(
    "mgmt", "afa8bd80-7d8a-11c9-bef4-08002b102989", (1, 0), 5,
    method(0, "rpc_mgmt_inq_if_ids",
           Out("if_id_vector", Full(_IfIdVector())),
           Out("status", U32),
           result=None),
    method(1, "rpc_mgmt_inq_stats",
           InOut("count", Ranged(U32, 0, 50)),
           Out("statistics", Array(U32, "count")),
           Out("status", U32),
           result=None),
    method(2, "rpc_mgmt_is_server_listening",
           Out("status", U32)),
    method(3, "rpc_mgmt_stop_server_listening",
           Out("status", U32),
           result=None),
    method(4, "rpc_mgmt_inq_princ_name",
           In("authn_proto", U32),
           In("princ_name_size", Ranged(U32, 0, 4096)),
           Out("princ_name", _CharString("princ_name_size")),
           Out("status", U32),
           result=None),
)
