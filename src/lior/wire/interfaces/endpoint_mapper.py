"""The endpoint mapper ([C706] appendix O as [MS-RPCE] 2.2.1.2 changes it): ept_lookup, ept_map and what frees a search.

ept_insert, ept_delete, ept_inq_object and ept_mgmt_delete are not supported (2.2.1.2.6 to 2.2.1.2.10).
"""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from lior.errors import InvalidParameter
from lior.wire.ndr import NdrReader, NdrWriter, Syntax
from lior.wire.ndr_arrays import Array
from lior.wire.ndr_pointers import Full
from lior.wire.ndr_structure import Structure
from lior.wire.ndr_types import CONTEXT_HANDLE, GUID, U16, U32, Bound, Names, Owner, Ranged, Type
from lior.wire.rpc_interface import In, InOut, Out, interface, method

MAX_TOWER_LENGTH: Final = 2000  # 2.2.1.2.2
MAX_ENTRIES: Final = 500  # 2.2.1.2.4
MAX_ANNOTATION_SIZE: Final = 64  # with its terminator, [C706] appendix O

RPC_C_EP_ALL_ELTS: Final = 0
RPC_C_EP_MATCH_BY_IF: Final = 1
RPC_C_EP_MATCH_BY_OBJ: Final = 2
RPC_C_EP_MATCH_BY_BOTH: Final = 3
EPT_S_NOT_REGISTERED: Final = 0x16C9A0D6
EPT_S_CANT_PERFORM_OP: Final = 0x6D8  # 2.2.1.2.1


@dataclass(slots=True)
class RpcIfId:
    """RPC_IF_ID"""

    uuid: UUID
    vers_major: int
    vers_minor: int


@dataclass(slots=True)
class EptEntry:
    """ept_entry_t; `tower` is what `lior.wire.interfaces.towers` reads."""

    object: UUID
    tower: bytes | None
    annotation: bytes = b""


class _Tower(Type):
    """twr_t: a structure that ends with an array of octets, whose count stands before everything else."""

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        def read(reader: NdrReader, owner: Owner) -> bytes:
            count = reader.conformant(None, 1)
            length = reader.u32()
            if length != count or length > MAX_TOWER_LENGTH:
                raise reader.malformed(f"a tower of {length} bytes in an array of {count}")
            return reader.raw(length)

        def write(writer: NdrWriter, value: bytes, owner: Owner) -> None:
            if len(value) > MAX_TOWER_LENGTH:
                raise InvalidParameter(f"a tower of {len(value)} bytes", where="twr_t")
            writer.count(len(value))
            writer.u32(len(value))
            writer.raw(value)

        return Bound(4, read, write)


class _Entry(Type):
    """ept_entry_t: the annotation is a [string] in an array of fixed size, so it has an offset and a count in place."""

    def bind(self, syntax: Syntax, names: Names) -> Bound:
        if syntax.reader.wide:
            raise TypeError("not described for NDR64")
        tower = Full(TOWER).bind(syntax, names)
        begin, finish = tower.begin_read, tower.finish_read
        assert begin is not None
        assert finish is not None

        def begin_read(reader: NdrReader, owner: Owner) -> tuple[UUID, int, bytes]:
            guid, referent = reader.guid(), begin(reader, owner)
            offset, count = reader.u32(), reader.u32()
            text = reader.raw(count) if 0 < count <= MAX_ANNOTATION_SIZE and not offset else b""
            if not text or text.find(b"\0") != count - 1:
                raise reader.malformed(f"annotation of {count} characters at {offset}")
            return guid, referent, text[:-1]

        def finish_read(reader: NdrReader, state: tuple[UUID, int, bytes], owner: Owner) -> EptEntry:
            return EptEntry(state[0], finish(reader, state[1], owner), state[2])

        def begin_write(writer: NdrWriter, value: EptEntry, owner: Owner) -> None:
            if len(value.annotation) >= MAX_ANNOTATION_SIZE or b"\0" in value.annotation:
                raise InvalidParameter(f"annotation {value.annotation!r}", where="ept_entry_t")
            writer.guid(value.object)
            if value.tower is None:
                writer.null()
            else:
                writer.referent()
            writer.u32(0)
            writer.u32(len(value.annotation) + 1)
            writer.raw(value.annotation + b"\0")

        def finish_write(writer: NdrWriter, value: EptEntry, state: Any, owner: Owner) -> None:
            if value.tower is not None and tower.pointee is not None:
                tower.pointee.write(writer, value.tower, owner)

        def read(reader: NdrReader, owner: Owner) -> EptEntry:
            return finish_read(reader, begin_read(reader, owner), owner)

        def write(writer: NdrWriter, value: EptEntry, owner: Owner) -> None:
            begin_write(writer, value, owner)
            finish_write(writer, value, None, owner)

        return Bound(4, read, write, size=29, begin_read=begin_read, finish_read=finish_read, begin_write=begin_write,
                     finish_write=finish_write)


TOWER: Final = _Tower()
RPC_IF_ID: Final = Structure(RpcIfId, (
    ("uuid", GUID),
    ("vers_major", U16),
    ("vers_minor", U16),
))

ENDPOINT_MAPPER: Final = interface(
    "epmapper", "e1af8308-5d1f-11c9-91a4-08002b14a0fa", (3, 0), 7,
    method(2, "ept_lookup",
           In("inquiry_type", U32),
           In("object", Full(GUID)),
           In("ifid", Full(RPC_IF_ID)),
           In("vers_option", U32),
           InOut("entry_handle", CONTEXT_HANDLE),
           In("max_ents", Ranged(U32, 0, MAX_ENTRIES)),
           Out("num_ents", U32),
           Out("entries", Array(_Entry(), "max_ents", "num_ents")),
           Out("status", U32),
           result=None),
    method(3, "ept_map",
           In("obj", Full(GUID)),
           In("map_tower", Full(TOWER)),
           InOut("entry_handle", CONTEXT_HANDLE),
           In("max_towers", Ranged(U32, 0, MAX_ENTRIES)),
           Out("num_towers", U32),
           Out("i_towers", Array(Full(TOWER), "max_towers", "num_towers")),
           Out("status", U32),
           result=None),
    method(4, "ept_lookup_handle_free",
           InOut("entry_handle", CONTEXT_HANDLE),
           Out("status", U32),
           result=None),
)
