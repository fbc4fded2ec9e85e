"""Fuzz target: the stubs of every method of every RPC interface, in each transfer syntax; and protocol towers.

The first three bytes choose interface, method, direction and syntax. What decodes is written and read again.
"""

from contextlib import suppress

from lior.errors import Malformed
from lior.wire.interfaces.endpoint_mapper import ENDPOINT_MAPPER
from lior.wire.interfaces.management import QMMGMT
from lior.wire.interfaces.qm2qm import QM2QM
from lior.wire.interfaces.qmcomm import QMCOMM
from lior.wire.interfaces.qmcomm2 import QMCOMM2
from lior.wire.interfaces.remote_read import REMOTE_READ
from lior.wire.interfaces.rpc_management import RPC_MANAGEMENT
from lior.wire.interfaces.towers import Tower
from lior.wire.ndr import NDR, NDR_BIG_ENDIAN

INTERFACES = (QMCOMM, QMCOMM2, QM2QM, REMOTE_READ, QMMGMT, ENDPOINT_MAPPER, RPC_MANAGEMENT)
CODECS = [
    (codec, syntax)
    for interface in INTERFACES
    for method in interface.methods.values()
    for codec in (method.request, method.response)
    for syntax in (*interface.syntaxes, NDR_BIG_ENDIAN)
]


def target(data: bytes) -> None:
    choice, stub = int.from_bytes(data[:2], "little"), data[2:]
    codec, syntax = CODECS[choice % len(CODECS)]
    with suppress(Malformed):  # and nothing else: the server answers it with a fault of its own
        found = codec.decode(stub, None, syntax)
        written = NDR if syntax is NDR_BIG_ENDIAN else syntax
        again = codec.decode(codec.encode(found, None, written), None, written)
        assert again == found, (codec.name, found, again)
    with suppress(Malformed):
        tower = Tower.decode(stub)
        assert tower is None or Tower.decode(tower.encode()) == tower


if __name__ == "__main__":
    from harness import run

    run(target)
