"""Reading property answers back, through NDR and the second decoder of the tests, not through the one in src."""

from typing import Any

from lior.wire.ndr import NdrWriter
from lior.wire.propvariant import PropVariant, write_propvariants
from tests.wire import second_ndr


def on_the_wire(values: dict[int, PropVariant]) -> dict[int, tuple[int, Any]]:
    """(VARTYPE, value) by identifier, as a client reads them off the wire."""
    writer = NdrWriter()
    write_propvariants(writer, list(values.values()))
    read = second_ndr.variants(second_ndr.Stub(writer.to_bytes()), len(values))
    return dict(zip(values, read, strict=True))
