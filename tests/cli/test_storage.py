"""lior doctor, backup, restore, compact; errors of files."""

import json
from pathlib import Path

import lior as library
from tests.cli.conftest import PLAIN, QUEUE, Lior, records


def damage(data: Path) -> None:
    """Overwrite the stored bodies' bytes in place."""
    file = data / "store.db"
    content = file.read_bytes()
    assert b"precious" in content
    file.write_bytes(content.replace(b"precious", b"pervious"))


def test_a_healthy_store(shop: Lior, data: Path) -> None:
    shop("send", PLAIN, "--body", "x")
    assert shop("doctor", str(data)).output.splitlines()[-1] == "healthy"
    (report,) = records(shop("doctor", "--json"))  # LIOR_DATA
    assert (report["healthy"], report["messages"], report["findings"]) == (True, 1, [])


def test_finds_damage_and_repairs_it(shop: Lior, data: Path) -> None:
    shop("send", PLAIN, "--formatter", "bytes", "--body", "precious" * 100)
    shop("send", PLAIN, "--formatter", "bytes", "--body", "sound")
    damage(data)
    result = shop("doctor", str(data), code=1)
    assert "error:" in result.output
    assert result.output.splitlines()[-1] == "damaged"
    (report,) = records(shop("doctor", str(data), "--repair", "--json"))
    assert report["repaired"]
    assert report["kept_in"]
    assert [message["body"] for message in records(shop("receive", PLAIN, "--all", "--json"))] == ["sound"]
    shop("doctor", str(data))


def test_doctor_of_nothing(lior: Lior, tmp_path: Path) -> None:
    lior("doctor", str(tmp_path / "nothing"), code=1)
    assert not (tmp_path / "nothing").exists()


def test_a_backup_restores(shop: Lior, data: Path, tmp_path: Path) -> None:
    shop("send", QUEUE, "--label", "kept", "--body", "x")
    file, copy = tmp_path / "backup", tmp_path / "copy"
    (written,) = records(shop("backup", str(data), str(file), "--json"))
    assert written["bytes"] == file.stat().st_size
    shop("receive", QUEUE)
    (restored,) = records(shop("restore", str(file), str(copy), "--json"))
    assert restored["messages"] == 1
    (message,) = records(shop("receive", QUEUE, "--data", str(copy), "--json"))
    assert message["label"] == "kept"
    (here,), (there,) = (records(shop("stats", "--data", str(place), "--json")) for place in (data, copy))
    assert here["identifier"] == there["identifier"]


def test_a_backup_beside_a_running_queue_manager(shop: Lior, data: Path, tmp_path: Path) -> None:
    with library.open(data) as manager:
        manager.send(PLAIN, b"while open", recoverable=True)
        shop("backup", str(data), str(tmp_path / "backup"))
        assert "in use by process" in shop("doctor", str(data)).output
    shop("restore", str(tmp_path / "backup"), str(tmp_path / "copy"))
    assert records(shop("peek", PLAIN, "--data", str(tmp_path / "copy"), "--json"))[0]["body"] == "while open"


def test_backup_and_restore_replace_nothing(shop: Lior, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    shop("backup", str(data), str(file))
    assert "never replaces" in shop("backup", str(data), str(file), code=1).stderr
    before = (data / "store.db").read_bytes()
    assert "never replaces" in shop("restore", str(file), str(data), code=1).stderr
    assert (data / "store.db").read_bytes() == before


def test_restore_refuses_what_is_no_backup(lior: Lior, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"hello" * 100)
    assert "LIOR_ERROR_STORE_FOREIGN" in lior("restore", str(foreign), str(tmp_path / "d"), code=1).stderr
    lior("restore", str(tmp_path / "missing"), str(tmp_path / "d"), code=1)
    assert not (tmp_path / "d" / "store.db").exists()


def test_restore_refuses_a_damaged_backup(shop: Lior, data: Path, tmp_path: Path) -> None:
    shop("send", PLAIN, "--body", "x", "--count", "50")
    file = tmp_path / "backup"
    shop("backup", str(data), str(file))
    content = bytearray(file.read_bytes())
    content[8192:12288] = bytes(4096)
    file.write_bytes(content)
    assert "damaged" in shop("restore", str(file), str(tmp_path / "d"), code=1).stderr
    assert not (tmp_path / "d" / "store.db").exists()


def test_backup_refuses_what_is_no_store(lior: Lior, tmp_path: Path) -> None:
    assert "LIOR_ERROR_STORE_UNUSABLE" in lior("backup", str(tmp_path), str(tmp_path / "b"), code=1).stderr


def test_compact_gives_space_back(shop: Lior, data: Path, tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(bytes(1 << 20))
    shop("send", PLAIN, "--file", str(body), "--count", "8")
    shop("queue", "purge", PLAIN)
    size = (data / "store.db").stat().st_size
    (answer,) = records(shop("compact", "--json"))
    assert answer["bytes"] >= 0
    assert (data / "store.db").stat().st_size <= size
    assert (data / "store.db").stat().st_size < 4 << 20


def test_the_report_is_json(shop: Lior, data: Path) -> None:
    assert json.loads(shop("doctor", str(data), "--json").output)["directory"] == str(data)
