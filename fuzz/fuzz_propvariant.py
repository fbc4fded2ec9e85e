"""Fuzz target: arrays of PROPVARIANT; what was read writes and reads back the same. Then the rules for setting them."""

from contextlib import suppress

from lior.errors import LiorError
from lior.wire.ndr import NdrReader, NdrWriter
from lior.wire.properties import ObjectClass, check_get, check_properties, check_value, property_of
from lior.wire.propvariant import read_propvariants, write_propvariants

CLASSES = tuple(ObjectClass)


def target(data: bytes) -> None:
    if len(data) < 4:
        return
    object_class, creating, count = CLASSES[data[0] % len(CLASSES)], bool(data[1] & 1), data[2]
    with suppress(LiorError):
        variants = read_propvariants(NdrReader(data[4:]), count)
        writer = NdrWriter()
        write_propvariants(writer, variants)
        assert read_propvariants(NdrReader(writer.to_bytes()), count) == variants
        first = (100, 200, 300, 500, 600, 700, 800, 5100, 5400, 5200, 0, 0, 1400)[data[0] % len(CLASSES)]
        pairs = [(first + 1 + (data[3] + index) % 30, variant) for index, variant in enumerate(variants)]
        for propid, variant in pairs:
            with suppress(LiorError):
                check_value(property_of(object_class, propid), variant)
        with suppress(LiorError):
            check_get(object_class, [propid for propid, _ in pairs], [variant.vt for variant in variants])
        check_properties(object_class, pairs, creating)


if __name__ == "__main__":
    from harness import run

    run(target)
