"""Keys and certificates on disk: made once, private, whole, read again when they change."""

import os
import stat
import threading
from pathlib import Path
from uuid import UUID

import pytest

from lior.errors import LiorError, StoreUnusable
from lior.protocols.security.encryption import ADVANCED, BASE, ENHANCED
from lior.security import ANONYMOUS, EVERYONE
from lior.server.transfer_security import CertificateRegistry, OwnKeys, PeerKeys, SecurityFiles, SecurityPolicy
from lior.server.transfer_security import files as file_tools
from lior.wire.structures import public_keys_from_bytes, sign_certs_from_bytes
from tests.protocols.security.signed_packets import ALICE, BOB, alice, bob, pem_of
from tests.server.transfer_security.desk import PEER, pooled_key

OLD = SecurityPolicy(allow_rc4=True, allow_40_bit_keys=True)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def aged(path: Path, seconds: float = 100.0) -> None:
    """As if it had been changed so long ago: what was changed just now is read every time."""
    status = path.stat()
    os.utime(path, (status.st_atime, status.st_mtime - seconds))


# ---- own keys -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-068")
def test_every_provider_that_is_allowed_has_a_key_of_the_size_asked_for(tmp_path: Path) -> None:
    keys = OwnKeys(tmp_path, SecurityPolicy(allow_rc2=True, allow_40_bit_keys=True, advanced_key_bits=1024))
    found = public_keys_from_bytes(keys.exported())
    assert [(key.provider_name, key.provider_type, key.key.bit_length) for key in found] == [
        ("Microsoft Base Cryptographic Provider v1.0", 1, 1024),
        ("Microsoft Enhanced Cryptographic Provider v1.0", 1, 1024),
        ("Microsoft Enhanced RSA and AES Cryptographic Provider", 0x18, 1024)]
    assert len({key.key.modulus for key in found}) == 3


def test_ciphers_that_are_off_have_no_keys(tmp_path: Path) -> None:
    keys = OwnKeys(tmp_path, SecurityPolicy())
    (key,) = public_keys_from_bytes(keys.exported())
    assert (key.provider_type, key.key.bit_length) == (0x18, 2048)
    for provider in (BASE, ENHANCED):
        assert keys.get(provider) is None
        with pytest.raises(LiorError):
            keys.make(provider)
    assert OwnKeys(tmp_path, SecurityPolicy(allow_rc4=True)).allowed(ENHANCED)
    assert not OwnKeys(tmp_path, SecurityPolicy(allow_rc4=True)).allowed(BASE)


def test_a_key_is_made_at_first_use_private_and_the_same_from_then_on(tmp_path: Path) -> None:
    keys = OwnKeys(tmp_path / "keys", SecurityPolicy(), pooled_key)
    assert keys.get(ADVANCED) is None
    assert not (tmp_path / "keys").exists()
    made = pem_of(keys.make(ADVANCED))
    assert pem_of(keys.make(ADVANCED)) == made
    file = tmp_path / "keys" / "advanced.pem"
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert [entry.name for entry in file.parent.iterdir()] == ["advanced.pem"]
    again = OwnKeys(tmp_path / "keys", SecurityPolicy(), pooled_key).get(ADVANCED)
    assert again is not None
    assert pem_of(again) == made


def test_two_processes_that_make_a_key_at_once_have_the_same_one(tmp_path: Path) -> None:
    made: list[bytes] = []
    start = threading.Barrier(4)

    def make() -> None:
        keys = OwnKeys(tmp_path, SecurityPolicy(), pooled_key)
        start.wait()
        made.append(pem_of(keys.make(ADVANCED)))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert len(set(made)) == 1


def test_a_key_that_was_replaced_or_removed_is_noticed(tmp_path: Path) -> None:
    keys = OwnKeys(tmp_path, SecurityPolicy(), pooled_key)
    keys.make(ADVANCED)
    file = tmp_path / "advanced.pem"
    aged(file)
    assert keys.get(ADVANCED) is not None
    replacement = pem_of(pooled_key(1024))
    file.write_bytes(replacement)
    found = keys.get(ADVANCED)
    assert found is not None
    assert pem_of(found) == replacement
    file.unlink()
    assert keys.get(ADVANCED) is None


@pytest.mark.parametrize("content", [
    b"", b"garbage", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"])
def test_a_broken_key_file_is_an_error_and_is_not_overwritten(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "advanced.pem"
    file.write_bytes(content)
    keys = OwnKeys(tmp_path, SecurityPolicy(), pooled_key)
    for call in (keys.get, keys.make):
        with pytest.raises(StoreUnusable):
            call(ADVANCED)
    assert file.read_bytes() == content


# ---- keys of peers --------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-068", "MQ-027")
def test_an_exported_set_is_what_a_peer_imports(tmp_path: Path) -> None:
    exported = OwnKeys(tmp_path / "own", OLD, pooled_key).exported()
    peers = PeerKeys(tmp_path / "peers")
    assert peers.of(PEER) == ()
    assert peers.put(PEER, exported) == public_keys_from_bytes(exported)
    for reader in (peers, PeerKeys(tmp_path / "peers")):
        assert reader.of(PEER) == public_keys_from_bytes(exported)
        assert reader.list() == [(PEER, public_keys_from_bytes(exported))]
    assert peers.remove(PEER)
    assert not peers.remove(PEER)
    assert PeerKeys(tmp_path / "peers").of(PEER) == ()
    assert peers.list() == []


def test_only_a_whole_set_of_keys_is_imported(tmp_path: Path) -> None:
    exported = OwnKeys(None, SecurityPolicy(), pooled_key).exported()
    for directory in (tmp_path, None):
        peers = PeerKeys(directory)
        for bad in (b"", b"garbage", exported[:-1], exported + b"\0", b"\x08\0\0\0\0\0\0\0"):
            with pytest.raises(LiorError):
                peers.put(PEER, bad)
        assert peers.of(PEER) == ()


def test_a_peer_key_that_another_process_changed_is_noticed(tmp_path: Path) -> None:
    mine, other = PeerKeys(tmp_path), PeerKeys(tmp_path)
    for _ in range(3):
        exported = OwnKeys(None, SecurityPolicy(), pooled_key).exported()
        other.put(PEER, exported)
        assert mine.of(PEER) == public_keys_from_bytes(exported)
        aged(tmp_path / f"{str(PEER).upper()}.keys")
        assert mine.of(PEER) == public_keys_from_bytes(exported)
    other.remove(PEER)
    assert mine.of(PEER) == ()


def test_strange_files_beside_the_keys_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "readme.keys").write_text("hello")
    (tmp_path / f"{UUID(int=5)}.keys").write_text("hello")
    assert PeerKeys(tmp_path).list() == [(UUID(int=5), ())]


# ---- certificates ---------------------------------------------------------------------------------------------------


@pytest.mark.spec("QB-069", "MQ-141", "MQ-142")
def test_a_registered_certificate_is_kept_in_the_form_of_the_directory(tmp_path: Path) -> None:
    registry = CertificateRegistry(tmp_path)
    found = registry.register(ALICE, alice().certificate, UUID(int=7))
    (stored,) = sign_certs_from_bytes((tmp_path / f"{ALICE}.certs").read_bytes())
    assert stored == found.entry
    assert (stored.certificate, stored.identifier) == (alice().certificate, UUID(int=7))
    import hashlib

    assert stored.digest == hashlib.md5(alice().certificate).digest()
    assert CertificateRegistry(tmp_path).list() == [found]
    assert registry.register(ALICE, alice().certificate) == found


@pytest.mark.parametrize("on_disk", [True, False])
def test_certificates_of_several_users_are_listed_and_removed(tmp_path: Path, on_disk: bool) -> None:
    registry = CertificateRegistry(tmp_path if on_disk else None)
    first, second, third = (registry.register(ALICE, alice().certificate), registry.register(ALICE, bob().certificate),
                            registry.register(BOB, bob().certificate))
    assert [found.owner for found in registry.list()] == [ALICE, ALICE, BOB]
    assert registry.remove(second.digest, ALICE) == [second]
    assert registry.list() == [first, third]
    assert registry.remove("") == []
    assert registry.remove(third.digest[:8]) == [third]
    assert registry.remove(third.digest) == []
    assert registry.of(BOB) == ()
    assert [entry.certificate for entry in registry.of(ALICE)] == [alice().certificate]


def test_refuses_to_register_for_nobody_or_what_is_no_certificate(tmp_path: Path) -> None:
    registry = CertificateRegistry(tmp_path)
    for sid, der in ((EVERYONE, alice().certificate), (ANONYMOUS, alice().certificate), (ALICE, b"x"), (ALICE, b"")):
        with pytest.raises(LiorError) as caught:
            registry.register(sid, der)
        assert caught.value.code == 0xC00E002C
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("QB-163")
def test_what_another_process_registers_or_removes_is_noticed(tmp_path: Path) -> None:
    mine, other = CertificateRegistry(tmp_path), CertificateRegistry(tmp_path)
    assert mine.of(ALICE) == ()
    for _ in range(3):
        found = other.register(ALICE, alice().certificate)
        assert len(mine.of(ALICE)) == 1
        aged(tmp_path)
        generation = mine.refresh()
        assert mine.refresh() == generation
        other.remove(found.digest)
        assert mine.of(ALICE) == ()
        assert mine.refresh() > generation


def test_a_settled_registry_is_not_read_again(tmp_path: Path) -> None:
    registry = CertificateRegistry(tmp_path)
    registry.register(ALICE, alice().certificate)
    aged(tmp_path)
    registry.refresh()
    (tmp_path / f"{ALICE}.certs").write_bytes(b"damaged without a change of the directory")
    assert len(registry.of(ALICE)) == 1


def test_a_damaged_file_makes_its_user_unknown_and_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CertificateRegistry(tmp_path)
    registry.register(ALICE, alice().certificate)
    registry.register(BOB, bob().certificate)
    (tmp_path / f"{ALICE}.certs").write_bytes(b"\1\0\0\0garbage")
    (tmp_path / "S-1-x.certs").write_bytes(b"\0\0\0\0")
    fresh = CertificateRegistry(tmp_path)
    assert (fresh.of(ALICE), len(fresh.of(BOB))) == ((), 1)
    assert str(ALICE) in caplog.text


def test_a_user_has_a_bounded_number_of_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lior.server.transfer_security import certificates

    monkeypatch.setattr(certificates, "MOST_OF_A_USER", 1)
    registry = CertificateRegistry(tmp_path)
    registry.register(ALICE, alice().certificate)
    with pytest.raises(LiorError):
        registry.register(ALICE, bob().certificate)


# ---- files ----------------------------------------------------------------------------------------------------------


def test_a_write_replaces_the_whole_file_or_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "place" / "file"
    assert file_tools.write(path, b"one")
    assert not file_tools.write(path, b"two", replace=False)
    assert file_tools.read(path) == b"one"
    assert file_tools.write(path, b"three")
    assert file_tools.read(path) == b"three"
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]
    assert file_tools.remove(path)
    assert file_tools.read(path) is None


def test_what_cannot_be_used_is_one_typed_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"x")
    for call in (lambda: file_tools.write(blocked / "below", b"x"), lambda: file_tools.names(blocked, ".keys"),
                 lambda: file_tools.read(tmp_path)):
        with pytest.raises(StoreUnusable):
            call()
    blocked.write_bytes(bytes(file_tools.MAX_FILE + 1))
    with pytest.raises(StoreUnusable):
        file_tools.read(blocked)


def test_a_data_directory_has_one_place_for_all_of_it(tmp_path: Path) -> None:
    place = SecurityFiles(tmp_path)
    place.keys.make(ADVANCED)
    place.peers.put(PEER, place.keys.exported())
    place.certificates.register(ALICE, alice().certificate)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        f"security/certificates/{ALICE}.certs", "security/keys/advanced.pem",
        f"security/peers/{str(PEER).upper()}.keys"]
    again = SecurityFiles(tmp_path)
    assert again.keys.exported() == place.keys.exported()
