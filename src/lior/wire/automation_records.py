"""User-defined types ([MS-OAUT] 2.2.28): plain NDR structures as parameters, BRECORDs in VARIANTs and SAFEARRAYs.

A BRECORD names its type by an OBJREF_CUSTOM, the one object reference that stays legal: matched exactly, looked up in
a table, and never followed anywhere.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from lior.errors import InvalidParameter
from lior.wire import automation as at
from lior.wire.automation_objects import read_interface_data, write_interface_data
from lior.wire.automation_types import AutomationReader, AutomationType, AutomationWriter, Place

RECORD_INFO: Final = UUID("0000002F-0000-0000-C000-000000000046").bytes_le  # CLSID and IID
OBJREF_SIGNATURE: Final = 0x574F454D  # "MEOW"
OBJREF_CUSTOM: Final = 4
_REFERENCE: Final = struct.Struct("<II16s16sII16sI16sII")  # OBJREF, OBJREF_CUSTOM, RecordInfoData
_PREFIX: Final = 4  # octets in front of the NDR image; its alignment counts from behind them (nothing says so)


class RecordType(AutomationType):
    """A structure: one attribute of a Python class for each member, in order."""

    vt = at.VT_RECORD

    def __init__(self, kind: type, guid: UUID, members: Sequence[tuple[str, AutomationType]], *,
                 library: UUID | None = None, version: tuple[int, int] = (1, 0), lcid: int = 0) -> None:
        if not members:
            raise InvalidParameter("a record has at least one member", where=kind.__name__)
        self.kind, self.guid, self.members = kind, guid, tuple(members)
        self.library, self.version, self.lcid = library or UUID(int=0), version, lcid
        self.alignment = max(member.alignment for _, member in members)
        self.size = sum(member.size for _, member in members)

    def write(self, writer: AutomationWriter, value: Any) -> None:
        if type(value) is not self.kind:
            raise at.refused(self.vt, f"{self.kind.__name__} is wanted, not {type(value).__name__}")
        writer.align(self.alignment)
        for name, member in self.members:
            member.write(writer, getattr(value, name))

    def read(self, reader: AutomationReader, place: Place) -> None:
        reader.align(self.alignment)
        found: dict[str, Any] = {}
        for name, member in self.members:
            member.read(reader, _named(found, name))

        def complete() -> None:
            try:
                value = self.kind(**found)
            except Exception as error:  # the class refuses the values: the message is bad
                raise reader.malformed(f"{self.kind.__name__} is not made: {error!r}"[:300]) from error
            place(value)

        if len(found) == len(self.members):
            complete()
        else:
            reader.defer(complete)  # behind its members' pointees

    def reference(self) -> bytes:
        return _REFERENCE.pack(OBJREF_SIGNATURE, OBJREF_CUSTOM, RECORD_INFO, RECORD_INFO, 0, 0,
                               self.library.bytes_le, self.version[0], self.guid.bytes_le, self.version[1], self.lcid)

    def __repr__(self) -> str:
        return self.kind.__name__


def _named(found: dict[str, Any], name: str) -> Place:
    def place(value: Any) -> None:
        found[name] = value

    return place


# ---- BRECORD --------------------------------------------------------------------------------------------------------


def write_record_pointer(writer: AutomationWriter, values: Sequence[Any], element: AutomationType | None) -> None:
    record = element if isinstance(element, RecordType) else None
    if record is None:
        record = writer.scope.record_of(values[0]) if values else None
    if record is None:
        raise at.refused(at.VT_RECORD, f"{type(values[0]).__name__ if values else 'nothing'} is no registered record")
    kind = record
    writer.referent()
    writer.defer(lambda: _write_brecord(writer, values, kind))


def _write_brecord(writer: AutomationWriter, values: Sequence[Any], record: RecordType) -> None:
    image = AutomationWriter(writer.scope, writer.referents)
    image.depth = writer.depth
    for value in values:
        record.write(image, value)
    image.flush()
    data = image.to_bytes()
    count = len(data) + _PREFIX if values else 0
    writer.referents = image.referents  # one run of identifiers through the message
    writer.u32(1 if values else 0)
    writer.u32(count)
    writer.referent()
    if values:
        writer.referent()
    else:
        writer.u32(0)
    writer.defer(lambda: write_interface_data(writer, record.reference()))
    if values:
        writer.defer(lambda: _write_image(writer, data, count))


def _write_image(writer: AutomationWriter, data: bytes, count: int) -> None:
    writer.u32(count)
    writer.u32(count)
    writer.raw(data)


def read_record_pointer(reader: AutomationReader, count: int, place: Callable[[Sequence[Any]], None],
                        element: AutomationType | None) -> None:
    """`count` records; an empty sequence when there is no data."""
    if reader.referent():
        reader.defer(lambda: _read_brecord(reader, count, place, element))
    else:
        place(())


def _read_brecord(reader: AutomationReader, count: int, place: Callable[[Sequence[Any]], None],
                  element: AutomationType | None) -> None:
    flags, size = reader.u32(), reader.u32()
    info, data = reader.referent(), reader.referent()
    if not info or flags != (1 if data else 0) or (size < _PREFIX if data else size):
        raise reader.malformed(f"a record with flags {flags} and {size} octets")
    found: list[RecordType] = []
    reader.defer(lambda: found.append(_read_reference(reader, element)))
    if data:
        reader.defer(lambda: place(_read_image(reader, found[0], size, count)))
    else:
        reader.defer(lambda: place(()))


def _read_reference(reader: AutomationReader, element: AutomationType | None) -> RecordType:
    data = read_interface_data(reader)
    if len(data) < _REFERENCE.size:
        raise reader.malformed(f"a record's reference of {len(data)} octets")
    signature, flags, iid, clsid, _, _, _, _, guid, _, _ = _REFERENCE.unpack_from(data)
    if signature != OBJREF_SIGNATURE or flags != OBJREF_CUSTOM or iid != RECORD_INFO or clsid != RECORD_INFO:
        raise reader.malformed("an object reference that is no RecordInfo")
    known: RecordType | None = reader.scope.records.get(UUID(bytes_le=guid))
    if known is None or (element is not None and known is not element):
        raise reader.malformed(f"a record of the unknown type {UUID(bytes_le=guid)}")
    return known


def _read_image(reader: AutomationReader, record: RecordType, size: int, count: int) -> list[Any]:
    if reader.u32() != size:
        raise reader.malformed(f"record data of another size than {size} octets")
    if reader.u32() != size:
        raise reader.malformed(f"record data whose prefix is not {size}")
    data = reader.raw(size - _PREFIX)
    image = AutomationReader(data, reader.scope, reader.budget, f"{reader.where}, {record!r}")
    image.depth = reader.depth
    image.check_fits(count, record.size)
    found: list[Any] = []
    for _ in range(count):
        record.read(image, found.append)
    image.flush()
    return found
