"""Who may do what over the bulk port: accounts with the rights that queues give them, and TLS."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lior.client.bulk import Bulk
from lior.errors import AccessDenied, ClaimFenced, ServiceNotAvailable
from lior.security import QueueAccess
from lior.testing.serving import Serving, loopback_address
from tests.server.bulk.test_bulk import wait_for

PASSWORD = "correct horse battery staple"
RIGHTS = {
    "reader": QueueAccess.RECEIVE_MESSAGE, "looker": QueueAccess.PEEK_MESSAGE, "sender": QueueAccess.WRITE_MESSAGE,
    "stranger": 0,
}  # fmt: skip
SHARED = r"private$\shared"
BODY = pa.table({"body": pa.array([b"one", b"two"], pa.binary())})
As = Callable[..., Bulk]


def lior(server: Serving, *words: str, input: str | None = None) -> str:
    done = subprocess.run([sys.executable, "-m", "lior.cli.main", *words], input=input, text=True, capture_output=True,
                          env=os.environ | {"LIOR_DATA": str(server.data)}, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """`shared` gives each account one right and nobody else any; `hidden` gives none of them anything."""
    with Serving(tmp_path_factory.mktemp("access") / "data", settings={"bulk.port": 15802}) as serving:
        wait_for(serving)
        entries = ""
        for name, right in RIGHTS.items():
            said = json.loads(lior(serving, "user", "add", name, "--password-stdin", "--json", input=PASSWORD))
            entries += f"(A;;0x{int(right):x};;;{said['sid']})" if right else ""
        with serving.connect() as qm:
            qm.create_queue(f".\\{SHARED}", journal=True)
            qm.create_queue(r".\private$\hidden")
        lior(serving, "security", "set", f".\\{SHARED}", f"D:{entries}")
        lior(serving, "security", "set", r".\private$\hidden", "D:")
        yield serving


@pytest.fixture
def as_(server: Serving, tmp_path: Path) -> Iterator[As]:
    opened: list[Bulk] = []

    def found(name: str, password: str = PASSWORD) -> Bulk:
        file = tmp_path / name
        file.write_text(f"{name}:{password}\n")
        opened.append(Bulk(str(server.ready["bulk"]), str(file), patience=30))
        return opened[-1]

    yield found
    for bulk in opened:
        bulk.close()


@pytest.fixture(autouse=True)
def filled(server: Serving) -> None:
    with server.connect() as qm:
        for known in qm.subscriptions():
            qm.abandon_subscription(known["name"])
        with qm.open_queue(f".\\{SHARED}") as queue:
            queue.purge()
        with qm.open_queue(f".\\{SHARED}", "send") as queue:
            for number in range(5):
                queue.send(f"{number}".encode())


def test_an_account_reads_by_its_right_to_receive_and_claims_by_it(as_: As) -> None:
    bulk = as_("reader")
    assert bulk.read(SHARED, ["body"]).num_rows == 5
    epoch = bulk.call("subscribe", name="mine", queues=[f".\\{SHARED}"])["epoch"]
    end = bulk.call("claim", name="mine", epoch=epoch, start=0, max_rows=3, max_bytes=1 << 20)
    assert sum(batch.num_rows for batch in bulk.fetch("mine", epoch, 0, end, ["body"])) == 3
    assert bulk.call("plan", name="mine", start=0, end=end, parts=1) == [3]
    bulk.call("release", name="mine", epoch=epoch, ordinal=end)
    assert bulk.read(SHARED, ["body"]).num_rows == 2


def test_an_account_that_may_only_look_claims_nothing(as_: As) -> None:
    owner, bulk = as_("reader"), as_("looker")
    assert bulk.read(SHARED, ["body"]).num_rows == 5
    assert bulk.read(f"{SHARED};JOURNAL", ["body"]).num_rows >= 0
    with pytest.raises(AccessDenied):
        bulk.call("subscribe", name="looks", queues=[f".\\{SHARED}"])
    epoch = owner.call("subscribe", name="owned", queues=[f".\\{SHARED}"])["epoch"]
    end = owner.call("claim", name="owned", epoch=epoch, start=0, max_rows=3, max_bytes=1 << 20)
    with pytest.raises(AccessDenied):
        list(bulk.fetch("owned", epoch, 0, end, ["body"]))
    for name, arguments in (("claim", {"epoch": epoch, "start": end, "max_rows": 1, "max_bytes": 1}),
                            ("plan", {"start": 0, "end": end, "parts": 1}),
                            ("release", {"epoch": epoch, "ordinal": end}),
                            ("reject_claimed", {"epoch": epoch, "ordinals": [1]}),
                            ("abandon_subscription", {})):  # fmt: skip
        with pytest.raises(AccessDenied):
            bulk.call(name, name="owned", **arguments)
    with pytest.raises(ClaimFenced):  # right as it was: only its reader goes on
        owner.call("subscribe", name="owned", queues=[f".\\{SHARED}"])


def test_an_account_sends_by_its_right_to_send_and_does_not_see_what_it_sent(server: Serving, as_: As) -> None:
    bulk = as_("sender")
    assert bulk.write(BODY, writer="w", batch=1, destination=SHARED) == 2
    assert bulk.write(BODY, writer="w", batch=1, destination=SHARED) == 0
    with pytest.raises(AccessDenied):
        bulk.read(SHARED, ["body"])
    for name in ("looker", "stranger"):
        with pytest.raises(AccessDenied):
            as_(name).write(BODY, writer="w2", batch=1, destination=SHARED)
    with server.connect() as qm:
        assert qm.queue(f".\\{SHARED}").messages == 7


def test_an_account_does_not_use_up_the_numbers_of_another_writer(server: Serving, as_: As) -> None:
    """Batches with lower numbers than the last are left out: that would lose the other's messages."""
    assert as_("sender").write(BODY, writer="lake", batch=1_000_000, destination=SHARED) == 2
    with Bulk(str(server.data)) as administrator:
        assert administrator.write(BODY, writer="lake", batch=1, destination=SHARED) == 2


def test_a_queue_that_gives_nothing_shows_and_takes_nothing(as_: As) -> None:
    for name in RIGHTS:
        bulk = as_(name)
        with pytest.raises(AccessDenied):
            bulk.read(r"private$\hidden", ["body"])
        with pytest.raises(AccessDenied):
            bulk.read(";DEADLETTER", ["body"])
        with pytest.raises(AccessDenied):
            bulk.write(BODY, writer="h", batch=1, destination=r"private$\hidden")


def test_a_wrong_password_and_a_disabled_account_stay_outside(server: Serving, as_: As) -> None:
    with pytest.raises(AccessDenied, match="name and password"):
        as_("reader", "wrong").greet()
    with pytest.raises(AccessDenied):
        as_("nobody").greet()
    lior(server, "user", "disable", "stranger")
    with pytest.raises(AccessDenied):
        as_("stranger").greet()


# TLS


def authority(folder: Path, name: str) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = signed(subject, key.public_key(), subject, key, x509.BasicConstraints(ca=True, path_length=None))
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate, key


def signed(
    subject: x509.Name, public: ec.EllipticCurvePublicKey, issuer: x509.Name, key: ec.EllipticCurvePrivateKey,
    *extensions: x509.ExtensionType,
) -> x509.Certificate:  # fmt: skip
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public).serial_number(
        x509.random_serial_number()).not_valid_before(now - timedelta(days=1)).not_valid_after(
        now + timedelta(days=1))  # fmt: skip
    for extension in extensions:
        builder = builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    return builder.sign(key, hashes.SHA256())


def certified(folder: Path, address: str) -> dict[str, object]:
    """Settings of a server with a certificate by the authority ca.pem; other.pem is an authority, too."""
    issuer, issuer_key = authority(folder, "ca")
    authority(folder, "other")
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))])
    certificate = signed(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lior")]), key.public_key(), issuer.subject,
                         issuer_key, names)  # fmt: skip
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))  # fmt: skip
    return {"bulk.port": 15802, "bulk.certificate": str(folder / "server.pem"),
            "bulk.key": str(folder / "server.key")}  # fmt: skip


def test_with_tls_the_right_authority_and_password_come_in_and_no_others(tmp_path: Path) -> None:
    address = loopback_address()
    ca, other, right, wrong = (str(tmp_path / name) for name in ("ca.pem", "other.pem", "right", "wrong"))
    with Serving(tmp_path / "data", bind=address, settings=certified(tmp_path, address)) as server:
        lior(server, "user", "add", "ruth", "--administrator", "--password-stdin", input=PASSWORD)
        Path(right).write_text(f"ruth:{PASSWORD}")
        Path(wrong).write_text("ruth:guess")
        port = str(server.ready["bulk"])
        with Bulk(port, right, ca) as bulk:
            bulk.greet()
            assert bulk.subscriptions() == []
        with Bulk(port, wrong, ca) as bulk, pytest.raises(AccessDenied):
            bulk.greet()
        with Bulk(port, right, other, 0.5) as bulk, pytest.raises(ServiceNotAvailable):
            bulk.greet()
        with Bulk(port, right, "", 0.5) as bulk, pytest.raises(ServiceNotAvailable):  # in the clear
            bulk.greet()
