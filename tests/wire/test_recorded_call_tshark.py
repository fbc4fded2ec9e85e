"""tshark as a reader of the dispatch form: its dissector of IDispatch knows Invoke, VARIANTs and SAFEARRAYs.

It reads DCE/RPC, so the data of a call goes into a request with the ORPCTHIS that a recorded call does not have.
"""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from lior.wire.automation import Bound, SafeArray, Variant
from lior.wire.automation_dispatch import Invocation, write_invocation
from lior.wire.automation_types import AutomationWriter
from lior.wire.recorded_call import decode
from tests.wire.recorded_call_vectors import IDISPATCH, D
from tests.wire.second_recorded_call import guid

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

NDR = guid("8a885d04-1ceb-11c9-9fe8-08002b104860") + struct.pack("<I", 2)
BIND = struct.pack("<HHIBxxxHBx", 4280, 4280, 0, 1, 0, 1) + guid(IDISPATCH) + bytes(4) + NDR
ACCEPTED = struct.pack("<HHIH", 4280, 4280, 7, 4) + b"135\0\0\0" + struct.pack("<BxxxHH", 1, 0, 0) + NDR
CAUSE = struct.pack("<HHII", 5, 7, 0, 0) + guid("11111111-2222-3333-4444-555555555555") + bytes(4)  # ORPCTHIS


def pdu(kind: int, body: bytes, call: int, flags: int = 3) -> bytes:
    return struct.pack("<BBBBIHHI", 5, 0, kind, flags, 0x10, 16 + len(body), 0, call) + body


def request(call: int, data: bytes) -> bytes:
    stub = CAUSE + data
    head = struct.pack("<IHH", len(stub), 0, 6) + guid("99999999-2222-3333-4444-555555555555")
    return pdu(0, head + stub, call, 0x83)


def capture(calls: list[bytes]) -> bytes:
    """A pcap of raw IP packets: bind, its answer, the requests."""
    said = [(0, pdu(11, BIND, 1)), (1, pdu(12, ACCEPTED, 1))]
    said += [(0, request(number, data)) for number, data in enumerate(calls, 2)]
    ports, sequence = ((40000, 1025), (1025, 40000)), [1, 1]
    packets = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101)
    for number, (who, payload) in enumerate(said):
        tcp = struct.pack(">HHIIBBHHH", *ports[who], sequence[who], sequence[1 - who], 0x50, 0x18, 65535, 0, 0)
        tcp += payload
        sequence[who] += len(payload)
        packet = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0, bytes([10, 0, 0, 1 + who]),
                             bytes([10, 0, 0, 2 - who])) + tcp  # fmt: skip
        packets += struct.pack("<IIII", number, 0, len(packet), len(packet)) + packet
    return packets


def dissected(tmp_path: Path, calls: list[bytes]) -> str:
    file = tmp_path / "calls.pcap"
    file.write_bytes(capture(calls))
    done = subprocess.run(["tshark", "-r", file, "-V", "-Y", "dispatch"], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.spec("QC-097", "QC-098", "QC-078")
def test_tshark_reads_the_dispatch_example_completely(tmp_path: Path) -> None:
    text = dissected(tmp_path, [bytes(call.data) for call in decode(D).calls])
    for line in ("DispID: 0x00000007", "LCID: English (United States) (0x00000409)", "Flags: 0x000e0001, Method",
                 "DispParams, Args: 3 NamedArgs: 0", "SAFEARRAY: Elements: 3/3 VarType: VT_I4", "VT_I4: 1", "VT_I4: 2",
                 "VT_I4: 3", "VT_BSTR: 5A006F00EB00", "VarRefIdx: 1", "DispID: 0x00000009",
                 "Flags: 0x000e0004, PropertyPut", "VT_I4: 4", "DispID: 0xfffffffd", "VarRef: 0"):  # fmt: skip
        assert line in text, line
    assert "Malformed" not in text


@pytest.mark.spec("QC-090", "QC-092", "QC-079")
def test_tshark_reads_variants_that_the_codec_wrote(tmp_path: Path) -> None:
    texts = SafeArray(8, ("a", "bc"), (Bound(2),))
    arguments = (Variant(2, -5), Variant(3, 77), Variant(5, 2.5), Variant(11, True), Variant(17, 200), Variant(8, "hi"),
                 Variant(0x2008, texts), Variant(19, 9))  # no VT_NULL: this dissector stumbles over it
    writer = AutomationWriter()
    write_invocation(writer, Invocation(1, arguments=arguments))
    text = dissected(tmp_path, [writer.to_bytes()])
    for line in ("Args: 8", "VT_I2: -5", "VT_I4: 77", "VT_R8: 2.5", "VT_UI1: 200", "SAFEARRAY: Elements: 2/2",
                 'VT_BSTR: "bc"', 'VT_BSTR: "hi"', "Argument: VT_UI4", "VT_BOOL: TRUE"):  # fmt: skip
        assert line in text, line
    assert "Malformed" not in text
