"""The rules of the source tree: who imports whom, who touches the machine, how long things may grow.

Each rule is a function over a parsed module, so that a bad snippet can show that it still bites.
"""

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "lior"

BASE = ("errors", "security", "names", "message")  # errors sees none of the others
BELOW_CLIENT = (*BASE, "wire", "protocols")
FACES = ("", "aio", "embedded", "client", *BASE)  # "" is the package lior itself

# What each part of lior may import: names under lior, each with everything inside it.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "errors": (),
    "security": BASE,
    "names": BASE,
    "message": BASE,
    "wire": (*BASE, "wire"),
    "protocols": BELOW_CLIENT,
    "queues": (*BASE, "queues"),
    "store": ("errors", "message", "queues.ports", "store"),  # the port belongs to the one who needs it
    "server": (*BELOW_CLIENT, "queues", "store", "server"),
    "client": (*BELOW_CLIENT, "client"),
    "embedded": (*BELOW_CLIENT, "queues", "store", "server", "client", "embedded"),  # composition root
    "cli": (*FACES, "components", "cli"),
    "console": (*FACES, "console"),
    "components": (*FACES, "wire", "components"),
    "spark": (*FACES, "spark"),
    "aio": (*BASE, "client", "embedded"),  # lior.aio, the asyncio twin of the package's own face
    "": (*BASE, "client", "embedded", "aio"),
}
UNRESTRICTED = ("testing",)  # sees anything, and only tests see it

# Time, identifiers and bytes come in as arguments here.
PURE = (*BASE, "wire", "protocols", "queues")
MACHINE_MODULES = {"asyncio", "socket", "threading", "time", "random", "secrets"}
MACHINE_CALLS = {
    "open", "io.open", "os.open", "os.fdopen", "os.urandom", "pathlib.Path.open", "uuid.uuid1", "uuid.uuid4",
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
}  # fmt: skip
MACHINE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes"}  # of pathlib.Path

FILE_WARN, FILE_LIMIT, FUNCTION_LIMIT = 400, 600, 80
DATA_TABLES = ("errors.py", "wire/property_tables.py")  # length is content there


@dataclass(frozen=True)
class Module:
    """A source file under lior, by its dotted name without `lior.` ("" is lior/__init__.py)."""

    name: str
    text: str
    package: bool = False

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def part(self) -> str:
        return self.name.partition(".")[0]


def modules() -> Iterator[Module]:
    for file in sorted(SOURCE.rglob("*.py")):
        parts = file.relative_to(SOURCE).with_suffix("").parts
        package = parts[-1] == "__init__"
        yield Module(".".join(parts[:-1] if package else parts), file.read_text(encoding="utf-8"), package)


def within(name: str, place: str) -> bool:
    """True when a module name is the place or lies inside it; the package lior holds only itself."""
    return name == place or (place != "" and name.startswith(place + "."))


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything imported, at any depth in the file, types only included."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = ["lior", *module.name.split(".")] if module.name else ["lior"]
                parts = parts[: len(parts) - node.level + (1 if module.package else 0)]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and called(node, {}) in {"importlib.import_module", "__import__"}:
            first = node.args[0] if node.args else None
            yield node.lineno, first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else "?"


def imported_module(name: str, known: frozenset[str]) -> str:
    """The module a name lives in: `lior.queues.ports.Store` is in `queues.ports`."""
    parts = name.split(".")[1:]
    while parts and ".".join(parts) not in known:
        parts.pop()
    return ".".join(parts)


def import_violations(module: Module, known: Iterable[str] = ()) -> list[str]:
    """Imports of lior that the module's part may not make."""
    if module.part in UNRESTRICTED:
        return []
    if module.part not in MAY_IMPORT:
        return [f"lior.{module.name}: this test does not say what lior.{module.part} may import"]
    names = frozenset(known) or frozenset({*MAY_IMPORT, *UNRESTRICTED, "queues.ports", "store.doctor", module.name})
    allowed = MAY_IMPORT[module.part]
    found = []
    for line, name in imports(module):
        if name == "?":
            found.append(f"lior.{module.name}:{line} imports a module whose name is computed")
        if name.partition(".")[0] != "lior":
            continue
        target = imported_module(name, names)
        if within(target, module.part) and module.part in ("", *BASE):
            continue
        if not any(within(target, place) for place in allowed):
            found.append(f"lior.{module.name}:{line} imports lior.{target}".rstrip("."))
    return found


def called(node: ast.Call, aliases: dict[str, str]) -> str:
    """The dotted name of what is called, import aliases resolved; "" where it is not a plain name."""
    parts: list[str] = []
    target: ast.expr = node.func
    while isinstance(target, ast.Attribute):
        parts.append(target.attr)
        target = target.value
    if not isinstance(target, ast.Name):
        return ""
    return ".".join([aliases.get(target.id, target.id), *reversed(parts)])


def aliases_of(tree: ast.Module) -> dict[str, str]:
    """Local name -> what it was imported as."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def purity_violations(module: Module) -> list[str]:
    """Clocks, entropy, sockets, threads and files where they must come in as arguments."""
    if module.part not in PURE:
        return []
    found = []
    for line, name in imports(module):
        if name.partition(".")[0] in MACHINE_MODULES:
            found.append(f"lior.{module.name}:{line} imports {name}")
    aliases = aliases_of(module.tree)
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        name = called(node, aliases)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in MACHINE_CALLS or method in MACHINE_METHODS:
            found.append(f"lior.{module.name}:{node.lineno} calls {name or method}()")
    return found


def length_violations(module: Module) -> list[str]:
    """Files over 600 lines and functions over 80."""
    found = []
    lines = module.text.count("\n")
    file = module.name.replace(".", "/") + ("/__init__.py" if module.package else ".py")
    if file not in DATA_TABLES:
        if lines > FILE_LIMIT:
            found.append(f"{file}: {lines} lines, the limit is {FILE_LIMIT}")
        elif lines > FILE_WARN:
            warnings.warn(f"{file}: {lines} lines, more than {FILE_WARN}", stacklevel=1)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LIMIT:
                found.append(f"{file}:{node.lineno} {node.name}: {length} lines, the limit is {FUNCTION_LIMIT}")
    return found


def test_every_part_imports_only_what_it_may() -> None:
    every = list(modules())
    known = [module.name for module in every]
    assert [line for module in every for line in import_violations(module, known)] == []


def test_pure_parts_touch_no_clock_entropy_socket_thread_or_file() -> None:
    assert [line for module in modules() for line in purity_violations(module)] == []


def test_files_and_functions_stay_short() -> None:
    assert [line for module in modules() for line in length_violations(module)] == []


def test_the_tree_is_found() -> None:
    assert {"errors", "message", "queues.ports"} <= {module.name for module in modules()}


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("errors", "from lior.message import Message"),
        ("errors", "import lior.security"),
        ("message", "from lior.wire.dtyp import Sid"),
        ("names", "import lior.queues"),
        ("security", "from lior.wire import dtyp"),
        ("wire.headers", "from lior.queues.ports import Store"),
        ("wire.headers", "from lior.protocols import binary"),
        ("wire.headers", "import lior"),
        ("protocols.binary.framer", "from lior.queues import manager"),
        ("protocols.binary.framer", "import lior.server.tcp"),
        ("queues.manager", "from lior.wire.dtyp import Sid"),
        ("queues.manager", "from lior.store.sqlite import SqliteStore"),
        ("store.sqlite", "from lior.queues.manager import QueueManager"),
        ("store.sqlite", "from lior.queues import manager"),
        ("store.sqlite", "import lior.queues"),
        ("store.sqlite", "from lior.names import parse"),
        ("store.sqlite", "from lior.security import Sid"),
        ("server.engine", "from lior.client import Client"),
        ("server.engine", "import lior.embedded"),
        ("server.engine", "from lior import cli"),
        ("client.sync", "from lior.server.engine import Engine"),
        ("client.sync", "from lior.queues.ports import Store"),
        ("client.sync", "from lior.embedded import open"),
        ("embedded", "from lior.cli.main import main"),
        ("cli.doctor", "from lior.store import doctor"),
        ("cli.main", "from lior.server.main import serve"),
        ("cli.main", "from lior.wire.dtyp import Sid"),
        ("console.app", "from lior.queues.manager import QueueManager"),
        ("components.player", "from lior.protocols.binary import framer"),
        ("spark.reader", "from lior.store.sqlite import SqliteStore"),
        ("", "from lior.server.main import serve"),
        ("client.sync", "from lior.testing import FakeClock"),
        ("cli.main", "import lior.testing"),
        ("wire.headers", "from ..queues import ports"),
        ("wire.headers", "def late():\n    from lior.server import tcp"),
        ("wire.headers", "if TYPE_CHECKING:\n    from lior.server import tcp"),
        ("wire.headers", 'import importlib\nimportlib.import_module("lior.server")'),
        ("wire.headers", "import importlib\nimportlib.import_module(name)"),
        ("wire.headers", '__import__("lior.server")'),
        ("helpers", "import lior.errors"),
    ],
)
def test_refuses_an_import_against_the_direction(importer: str, statement: str) -> None:
    assert len(import_violations(Module(importer, statement + "\n"))) == 1


@pytest.mark.parametrize(
    ("importer", "statement"),
    [
        ("security", "from lior.message import ObjectId"),
        ("message", "from lior.names import parse"),
        ("security.access", "from lior.security.sid import Sid"),
        ("wire.headers", "from lior.wire import dtyp"),
        ("protocols.binary.framer", "from lior.wire.headers import BaseHeader"),
        ("queues.manager", "from lior.security import Sid"),
        ("store.sqlite", "from lior.queues.ports import Store"),
        ("store.sqlite", "from lior.queues import ports"),
        ("server.main", "from lior.store.sqlite import SqliteStore"),
        ("client.sync", "from lior.protocols.rpc import association"),
        ("embedded", "from lior.server import engine\nfrom lior.client import sync\nfrom lior.store import doctor"),
        ("cli.main", "import lior\nfrom lior.client import connect\nfrom lior.embedded import doctor"),
        ("components.player", "from lior.wire.recorded_call import decode"),
        ("", "from lior.embedded import open\nfrom lior.client import connect"),
        ("testing.peers", "from lior.server import tcp\nfrom lior.store import sqlite"),
        ("wire.headers", "from . import dtyp\nimport struct"),
    ],
)
def test_allows_an_import_along_the_direction(importer: str, statement: str) -> None:
    assert import_violations(Module(importer, statement + "\n")) == []


@pytest.mark.parametrize("importer", ["errors", "message", "names", "security", "wire.x", "protocols.x", "queues.x"])
@pytest.mark.parametrize(
    "snippet",
    [
        "import asyncio", "import socket", "import threading", "import time", "import random", "import secrets",
        "from time import monotonic", "import asyncio.events as e", "def f():\n    import socket",
        "open('x')", "import os\nos.urandom(8)", "from os import urandom\nurandom(8)", "import os as o\no.open('x', 0)",
        "from datetime import datetime\ndatetime.now()", "import datetime\ndatetime.datetime.now()",
        "import datetime as dt\ndt.datetime.utcnow()", "from datetime import date as d\nd.today()",
        "from uuid import uuid4\nuuid4()", "import io\nio.open('x')", "Path('x').read_text()",
    ],
)  # fmt: skip
def test_refuses_the_machine_in_a_pure_part(importer: str, snippet: str) -> None:
    assert len(purity_violations(Module(importer, snippet + "\n"))) == 1


@pytest.mark.parametrize("importer", ["store.sqlite", "server.engine", "client.sync", "cli.main", "embedded"])
def test_allows_the_machine_elsewhere(importer: str) -> None:
    assert purity_violations(Module(importer, "import time, socket\nopen('x')\n")) == []


def test_allows_a_method_called_open_in_a_pure_part() -> None:
    assert purity_violations(Module("queues.manager", "manager.open(1)\nself.queue.open()\n")) == []


def test_refuses_a_file_of_601_lines_and_warns_at_401() -> None:
    assert length_violations(Module("queues.manager", "x = 1\n" * 400)) == []
    with pytest.warns(UserWarning, match="401 lines"):
        assert length_violations(Module("queues.manager", "x = 1\n" * 401)) == []
    with pytest.warns(UserWarning, match="600 lines"):
        assert length_violations(Module("queues.manager", "x = 1\n" * 600)) == []
    assert len(length_violations(Module("queues.manager", "x = 1\n" * 601))) == 1


def test_a_data_table_may_be_longer() -> None:
    assert length_violations(Module("wire.property_tables", "x = 1\n" * 601)) == []


@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_refuses_a_function_of_81_lines(keyword: str) -> None:
    assert length_violations(Module("queues.queue", f"{keyword} f():\n" + "    x = 1\n" * 79)) == []
    assert len(length_violations(Module("queues.queue", f"{keyword} f():\n" + "    x = 1\n" * 80))) == 1
