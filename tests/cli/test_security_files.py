"""lior certificate and lior key."""

import stat
from pathlib import Path

from lior.security import Sid
from lior.server.transfer_security import SecurityFiles
from tests.cli.conftest import Lior, records

SID = "S-1-5-21-1-2-3-1001"
GUID = "77777777-0000-0000-0000-000000000001"


def test_a_certificate_is_made_registered_shown_and_removed(shop: Lior, data: Path, tmp_path: Path) -> None:
    me = str(tmp_path / "me.pem")
    (made,) = records(shop("certificate", "create", me, "--name", "Me", "--sid", SID, "--json"))
    assert made == {"file": me, "certificate": f"{me}.crt", "sid": SID}
    assert stat.S_IMODE((tmp_path / "me.pem").stat().st_mode) == 0o600
    assert b"PRIVATE" not in (tmp_path / "me.pem.crt").read_bytes()
    (found,) = records(shop("certificate", "register", f"{me}.crt", "--sid", SID, "--json"))
    assert (found["sid"], found["key_bits"]) == (SID, 2048)
    assert len(SecurityFiles(data).certificates.of(Sid.parse(SID))) == 1
    assert records(shop("certificate", "list", "--json")) == [found]
    assert records(shop("certificate", "list", "--sid", "S-1-5-32-1", "--json")) == []
    shown = shop("certificate", "show", found["digest"][:6]).output
    assert "BEGIN CERTIFICATE" in shown
    assert "UID=" in shown or SID in shown
    assert found["digest"] in shop("certificate", "list").output
    shop("certificate", "remove", "ffffffff", code=1)
    assert shop("certificate", "remove", found["digest"]).output == "removed 1 certificate\n"
    assert records(shop("certificate", "list", "--json")) == []


def test_refuses_what_is_no_certificate(shop: Lior, tmp_path: Path) -> None:
    (tmp_path / "no.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    (tmp_path / "no.der").write_bytes(b"\x30\x03\x02\x01\x05")
    for name in ("no.pem", "no.der", "missing"):
        shop("certificate", "register", str(tmp_path / name), "--sid", SID, code=1)
    shop("certificate", "register", str(tmp_path / "no.der"), "--sid", "nobody", code=1)
    shop("certificate", "create", str(tmp_path / "no.pem"), "--name", "x", code=1)


def test_keys_are_exported_imported_listed_and_removed(shop: Lior, data: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "own.keys")
    (own,) = records(shop("key", "show", "--json"))
    assert (own["type"], own["bits"], own["file"]) == (0x18, 2048, "advanced.pem")
    shop("key", "export", file)
    shop("key", "export", file, code=1)
    peer = records(shop("key", "import", GUID, file, "--json"))
    assert peer == [{"queue_manager": GUID, "keys": [{"provider": own["provider"], "bits": 2048}]}]
    assert records(shop("key", "list", "--json")) == peer
    assert GUID in shop("key", "list").output
    shop("key", "remove", GUID)
    shop("key", "remove", GUID, code=1)
    shop("key", "remove", "nonsense", code=1)
    assert records(shop("key", "list", "--json")) == []
    shop("key", "import", GUID, str(data / "store.db"), code=1)


def test_older_providers_have_keys_when_they_are_named(shop: Lior) -> None:
    shown = records(shop("key", "show", "--provider", "base", "--provider", "enhanced", "--json"))
    assert [key["file"] for key in shown] == ["base.pem", "enhanced.pem", "advanced.pem"]


def test_a_mistyped_directory_is_an_error(lior: Lior, tmp_path: Path) -> None:
    lior("key", "show", "--data", str(tmp_path / "nothing"), code=1)
    assert not (tmp_path / "nothing").exists()
