"""Objects by value ([MC-COMQC] 2.2.6.1.5): IUnknown* and IDispatch* lead to octets that a registered class understands,
never to an object that lives somewhere else."""

import struct
from typing import Any, Final
from uuid import UUID

from lior.errors import NotPersistable
from lior.wire import automation as at
from lior.wire.automation_types import AutomationReader, AutomationType, AutomationWriter, Place, Scope


class InterfacePointer(AutomationType):
    """IUnknown* or IDispatch*: an object by value. The structure of 2.2.6.1.5 stands where an OBJREF would, inside
    MInterfacePointer.abData; that no document says so is kept to `object_octets` and `object_of`."""

    alignment, size, nullable = 4, 4, True

    def __init__(self, vt: int = at.VT_UNKNOWN, kind: type | None = None) -> None:
        self.vt, self.kind = vt, kind

    def write(self, writer: AutomationWriter, value: Any) -> None:
        if value is None:
            writer.u32(0)
            return
        if self.kind is not None and not isinstance(value, self.kind):
            raise at.refused(self.vt, f"{self.kind.__name__} is wanted, not {type(value).__name__}")
        data = object_octets(writer.scope, value)
        writer.referent()
        writer.defer(lambda: write_interface_data(writer, data))

    def read(self, reader: AutomationReader, place: Place) -> None:
        if not reader.referent():
            place(None)
            return

        def pointee() -> None:
            value = object_of(reader, read_interface_data(reader))
            if self.kind is not None and not isinstance(value, self.kind):
                raise reader.malformed(f"an object of class {type(value).__name__}, not {self.kind.__name__}")
            place(value)

        reader.defer(pointee)


_OBJECT: Final = struct.Struct("<III16sI")  # Reserved 1, Size, Reserved 2, Object ID, Padding


def write_interface_data(writer: AutomationWriter, data: bytes) -> None:
    """MInterfacePointer ([MS-DCOM] 2.2.14): the count of the conformant array, ulCntData, abData."""
    writer.u32(len(data))
    writer.u32(len(data))
    writer.raw(data)


def read_interface_data(reader: AutomationReader) -> bytes:
    maximum = reader.u32()
    count = reader.u32()
    if count != maximum:
        raise reader.malformed(f"interface data of {count} and {maximum} octets")
    return reader.raw(count)


def object_octets(scope: Scope, value: Any) -> bytes:
    """Object References structure and object; no length field bounds the object, the array around them does."""
    codec = scope.codec_of(value)
    if codec is None:
        raise NotPersistable(f"{type(value).__name__} has no by-value form", where="recorded call",
                             remedy="register one with value_class, or pass its data")
    return _OBJECT.pack(0, _OBJECT.size, 1, codec.class_id.bytes_le, 0) + codec.dump(value)


def object_of(reader: AutomationReader, data: bytes) -> Any:
    if len(data) < _OBJECT.size:
        raise reader.malformed(f"an object of {len(data)} octets, its header has {_OBJECT.size}")
    _, size, _, class_id, _ = _OBJECT.unpack_from(data)
    if size != _OBJECT.size:
        raise reader.malformed(f"an object header of {size} octets")
    codec = reader.scope.objects.get(UUID(bytes_le=class_id))
    if codec is None:
        raise reader.malformed(f"an object of the unknown class {UUID(bytes_le=class_id)}")
    try:
        return codec.load(data[_OBJECT.size:])
    except Exception as error:  # whatever a loader raises: the message is bad, the listener goes on
        raise reader.malformed(f"{codec.kind.__name__} does not load: {error!r}"[:300]) from error


UNKNOWN, DISPATCH = InterfacePointer(at.VT_UNKNOWN), InterfacePointer(at.VT_DISPATCH)
