"""The client of wine/: its interfaces through Wine's widl, repaired, and compiled with winegcc, once for each source.

widl 8.0 writes a wrong description of two things that these interfaces use; the stubs built of it put other bytes on
the wire than [C706] chapter 14 says. Both are put right in what it wrote:

- a union's discriminant is always described as 4 bytes wide (its own comment says FIXME). The type of the field that
  switches it is named beside, and is put in its place.
- a pointer to a pointer to a conformant array is described as a pointer to the array: one referent would be missing.
  The missing pointer is appended to the table and put between.
"""

from __future__ import annotations

import fcntl
import filecmp
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("wine")
CACHE: Final = Path(__file__).resolve().parents[3] / ".build" / "wine"
HEADERS: Final = "/usr/include/wine/wine"
NEEDS: Final = {"wine": "wine", "widl": "wine64-tools", "winegcc": "wine64-tools", "ntlm_auth": "winbind"}

_UNION: Final = re.compile(
    r"(0x2b,[^\n]*\n\s*)0x8,(\s*/\* FIXME: always FC_LONG \*/\n\s*0x\w+,\s*/\* Corr desc: field \w+, (\w+) )"
)
_POINTER: Final = re.compile(
    r"(/\* (\d+) \([^\n]*\n\s*0x12, 0x10,[^\n]*\n\s*)NdrFcShort\(0x\w+\),\s*/\* Offset= -?\d+ \((\d+)\) \*/"
)
_SWITCH_TYPES: Final = {"FC_SMALL": "0x2", "FC_USHORT": "0x7", "FC_ULONG": "0x8"}
_END: Final = re.compile(r"\n        0x0\n    \}\n\};\s*$")


class WineMissing(AssertionError):
    """Debian's packages are not there; the message says which."""


def require_wine() -> None:
    missing = sorted({package for command, package in NEEDS.items() if shutil.which(command) is None})
    if not Path(HEADERS, "windows", "wtypes.idl").exists():
        missing.append("libwine-dev")
    if missing:
        raise WineMissing(f"the Wine client needs Debian's {' '.join(missing)}; install them with: make debian")


def repaired(source: str) -> str:
    """What widl wrote, with the unions and the pointers right."""
    source, unions = _UNION.subn(lambda found: found[1] + _SWITCH_TYPES[found[3]] + "," + found[2], source)
    size_line = re.search(r"#define TYPE_FORMAT_STRING_SIZE (\d+)", source)
    assert size_line is not None and unions == 4, f"widl wrote {unions} unions: is this not widl 8.0?"
    end = int(size_line[1]) - 1
    appended: list[str] = []

    def between(found: re.Match[str]) -> str:
        at, target = int(found[2]), int(found[3])
        if not re.search(rf"/\* {target} \([^\n]*\n\s*0x1[bc],", source):  # no conformant (varying) array
            return found[0]
        here = end + 4 * len(appended)
        appended.append(f"/* {here} */\n        0x12, 0x0,\n        NdrFcShort({_short(target - here - 2)}),")
        return f"{found[1]}NdrFcShort({_short(here - at - 2)}),\t/* Offset to {here} */"

    source = _POINTER.sub(between, source)
    assert len(appended) == 13, f"widl wrote {len(appended)} pointers to pointers to arrays: is this not widl 8.0?"
    source = source.replace(size_line[0], f"#define TYPE_FORMAT_STRING_SIZE {end + 4 * len(appended) + 1}")
    ending = _END.search(source)
    assert ending is not None
    return source[: ending.start()] + "\n" + "\n".join(appended) + ending[0]


def _short(value: int) -> str:
    return hex(value & 0xFFFF)


def build() -> Path:
    """The program; made if its sources have changed since."""
    require_wine()
    sources = [*sorted(SOURCE.iterdir()), Path(__file__)]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    made = CACHE / digest
    with _alone("build"):
        if (made / "client.exe.so").exists():
            return made / "client.exe"
        shutil.rmtree(made, ignore_errors=True)
        working = made.with_suffix(".new")
        shutil.rmtree(working, ignore_errors=True)
        shutil.copytree(SOURCE, working)
        widl = ["widl", "-m64", "-I", f"{HEADERS}/windows"]
        _run(working, *widl, "-h", "-o", "queue_manager.h", "queue_manager.idl")
        _run(working, *widl, "-c", "-o", "widl.c", "queue_manager.idl")
        (working / "stubs.c").write_text(repaired((working / "widl.c").read_text()))
        (working / "widl.c").unlink()
        programs = sorted(path.name for path in working.glob("*.c"))
        _run(working, "winegcc", "-O1", "-Wall", "-I.", f"-I{HEADERS}/windows", f"-I{HEADERS}", "-fshort-wchar",
             *programs,
             "-lrpcrt4", "-o", "client.exe")  # fmt: skip
        working.rename(made)
    return made / "client.exe"


def environment() -> dict[str, str]:
    """Of a Wine of the tests' own: no desktop, no Mono, no browser, no menus in the user's home."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return kept | {
        "WINEPREFIX": str(CACHE / "prefix"), "WINEARCH": "win64", "WINEDEBUG": os.environ.get("LIOR_WINEDEBUG", "-all"),
        "WINEDLLOVERRIDES": "mscoree=;mshtml=;winemenubuilder.exe=;explorer.exe=", "HOME": str(CACHE / "home"),
    }  # fmt: skip


def prefix() -> None:
    """Made once; booted by the first program in it."""
    (CACHE / "home").mkdir(parents=True, exist_ok=True)
    with _alone("prefix"):
        if not (CACHE / "prefix" / "system.reg").exists():
            _run(CACHE, "wineboot", "--init", env=environment())
            _run(CACHE, "wineserver", "--wait", env=environment())
            _share_libraries()


def _share_libraries() -> None:
    """wineboot copies 600 megabytes of libraries; links to them do as well."""
    installed = {
        path.name: path for root in ("lib", "lib64") for path in Path("/usr", root).glob("**/wine/x86_64-windows/*")
    }
    for copy in (CACHE / "prefix" / "drive_c" / "windows").rglob("*"):
        original = installed.get(copy.name)
        if original and copy.is_file() and not copy.is_symlink() and filecmp.cmp(copy, original):
            copy.unlink()
            copy.symlink_to(original)


def _run(directory: Path, *command: str, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """One at a time, of all that share the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
