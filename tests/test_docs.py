"""The documentation does what it says: its commands and programs run, its links lead somewhere.

A page's blocks run in order in one empty directory:

    ```console                  each `$ ` line is a bash command (`> ` continues it) and must succeed; lines
                                under it are its output, where `...` stands for anything. No lines: not compared.
                                `$ export NAME=VALUE` also holds in the blocks that follow.
    ```console serve            is one command that goes on: the blocks that follow run when it printed the line
                                `ready`. At the end of the page it gets SIGTERM and must end with exit code 0.
    ```console no-test: reason  is not run, for the reason given
    ```python run               is run as a program; other python blocks are shown only

On a page with a server each 127.0.0.N stands for an address of this run's own, so that pages run beside each other.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SECONDS_A_BLOCK = 240

EXPORT = re.compile(r"export (\w+)=(\S+)")
FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=fence) *$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)>\s]+)>?(?: \"[^\"]*\")?\)")
MACHINE_PATH = re.compile(r"(?<![\w./:-])/(?:work|root|home|farm|Users|private/var)/[\w.]")
END_OF_COMMAND = "\x1e"


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is that of its opening fence."""

    line: int
    info: str
    body: str

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]

    @property
    def option(self) -> str:
        return self.info.partition(" ")[2]


@dataclass(frozen=True)
class Command:
    text: str
    expected: str | None


def blocks(text: str) -> list[Block]:
    return [
        Block(text.count("\n", 0, m.start()) + 1, m["info"].strip(), re.sub(f"(?m)^{m['indent']}", "", m["body"]))
        for m in FENCE.finditer(text)
    ]


def commands(body: str) -> list[Command]:
    """The commands of a console block, each with the output shown under it."""
    found: list[tuple[list[str], list[str]]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif not found:
            if line.strip():
                raise ValueError(f"a console block starts with a command, not with {line!r}")
        elif line.startswith("> ") and not found[-1][1]:
            found[-1][0].append(line[2:])
        else:
            found[-1][1].append(line)
    return [Command("\n".join(text), "\n".join(out) if "".join(out).strip() else None) for text, out in found]


def agrees(expected: str, actual: str) -> bool:
    """True when the output is the expected one, `...` standing for anything."""

    def lines(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).rstrip()

    pattern = ".*?".join(re.escape(part) for part in lines(expected).split("..."))
    return re.fullmatch(pattern, lines(actual), re.S) is not None


class Sandbox:
    """An empty directory in which a page's blocks run; what they leave running ends with it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.seconds = SECONDS_A_BLOCK
        self.sessions: list[int] = []
        self.servers: list[tuple[str, subprocess.Popen[bytes]]] = []
        binaries = Path(sys.executable).parent
        kept = {name: value for name, value in os.environ.items() if name in ("LANG", "LC_ALL", "TZ", "SSL_CERT_FILE")}
        self.environment = kept | {
            "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(directory),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, *arguments: str) -> tuple[int, str]:
        """The exit code and all output. A file takes the output: a process left running would hold a pipe open."""
        with open(self.directory.parent / "output", "w+", encoding="utf-8", errors="replace") as output:
            process = subprocess.Popen(
                arguments, cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            self.sessions.append(process.pid)
            try:
                code = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = -signal.SIGKILL
            output.seek(0)
            return code, output.read()

    def serve(self, command: str) -> str:
        """What the command printed when it was ready, or ended. Its log is the output of nobody."""
        log = (self.directory.parent / "log").open("ab")
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"], cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        )  # fmt: skip
        log.close()
        self.sessions.append(process.pid)
        self.servers.append((command, process))
        printed: list[bytes] = []
        with_limit = threading.Timer(SECONDS_A_BLOCK, process.kill)
        with_limit.start()
        assert process.stdout is not None
        for line in process.stdout:
            printed.append(line)
            if line.startswith(b"ready"):
                break
        else:
            process.wait()
        with_limit.cancel()
        return b"".join(printed).decode()

    def stop_servers(self) -> list[str]:
        """Those that did not end as they should."""
        failures = []
        for command, process in reversed(self.servers):
            process.terminate()
            code = process.wait(SECONDS_A_BLOCK)
            assert process.stdout is not None
            process.stdout.close()
            if code:
                log = (self.directory.parent / "log").read_text(encoding="utf-8", errors="replace")
                failures.append(f"$ {command}\nended with {code}:\n{log}")
        self.servers.clear()
        return failures

    def close(self) -> None:
        self.stop_servers()
        for session in self.sessions:
            with suppress(ProcessLookupError):
                os.killpg(session, signal.SIGKILL)


@contextmanager
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    directory = tmp_path / "page"
    directory.mkdir()
    box = Sandbox(directory)
    try:
        yield box
    finally:
        box.close()


def console_failures(block: Block, box: Sandbox) -> list[str]:
    script = "".join(
        f"{{ {c.text}\n}}\ncode=$?; printf '%s%s\\n' '{END_OF_COMMAND}' $code; [ $code = 0 ] || exit $code\n"
        for c in commands(block.body)
    )
    _, output = box.run("bash", "-c", script)
    results = output.split(END_OF_COMMAND)
    found: list[str] = []
    for number, command in enumerate(commands(block.body)):
        printed = results[number].partition("\n")[2] if number else results[0]
        code = results[number + 1].partition("\n")[0] if number + 1 < len(results) else "no exit code"
        if code != "0":
            return [*found, f"$ {command.text}\nended with {code}:\n{printed}"]
        if command.expected is not None and not agrees(command.expected, printed):
            found.append(f"$ {command.text}\nprinted\n{printed}\ninstead of\n{command.expected}")
        box.environment |= dict(EXPORT.findall(command.text))
    return found


def serve_failures(block: Block, box: Sandbox) -> list[str]:
    [command] = commands(block.body)
    printed = box.serve(command.text)
    if "ready" not in printed:
        return [*box.stop_servers(), f"$ {command.text}\nprinted no line ready:\n{printed}"]
    if command.expected is not None and not agrees(command.expected, printed):
        return [f"$ {command.text}\nprinted\n{printed}\ninstead of\n{command.expected}"]
    return []


def with_own_addresses(text: str) -> str:
    """127.0.0.1, 127.0.0.2 ... as addresses that nobody else uses."""
    if "```console serve\n" not in text:
        return text
    draw = SystemRandom().randrange
    own = f"127.{draw(1, 255)}.{draw(1, 255)}."
    return re.sub(r"\b127\.0\.0\.(?=\d)", own, text)


def page_failures(text: str, box: Sandbox) -> list[str]:
    """What the blocks of a page did not do."""
    text = with_own_addresses(text)
    found = []
    for block in blocks(text):
        failures: list[str] = []
        if block.language == "console" and block.option.startswith("no-test"):
            if not re.fullmatch(r"no-test: \S.*", block.option):
                failures = ["no-test needs a reason: ```console no-test: reason"]
        elif block.language == "console" and block.option == "serve":
            failures = serve_failures(block, box)
        elif block.language == "console":
            failures = console_failures(block, box)
        elif block.language == "python" and block.option == "run":
            code, output = box.run(sys.executable, "-c", block.body)
            failures = [f"the program ended with {code}:\n{output}"] if code else []
        found += [f"line {block.line}: {failure}" for failure in failures]
    return found + box.stop_servers()


def slug(heading: str) -> str:
    """The anchor of a heading, as the usual Markdown hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


def broken_links(page: Path) -> list[str]:
    prose = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    found = []
    for target in LINK.findall(prose):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            found.append(f"{target}: there is no {path}")
        elif anchor and file.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", FENCE.sub("", file.read_text(encoding="utf-8")), re.M)
            if anchor not in map(slug, headings):
                found.append(f"{target}: no heading with that name")
    return found


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_what_a_page_shows_works(page: Path, tmp_path: Path) -> None:
    with sandbox(tmp_path) as box:
        failures = page_failures(page.read_text(encoding="utf-8"), box)
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_no_page_names_a_path_of_one_machine(page: Path) -> None:
    assert MACHINE_PATH.findall(page.read_text(encoding="utf-8")) == []


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").glob("*.md")]
    assert [page for page in pages if f"]({page})" not in readme] == []


def test_the_lior_command_is_installed() -> None:
    assert (Path(sys.executable).parent / "lior").exists(), "install the package: make check, or pip install -e ."


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "instead of\ntwo"),
        ("```console\n$ false\n```\n", "ended with 1"),
        ("```console\n$ exit 3\n```\n", "ended with no exit code"),
        ("```console\n$ false\n$ echo on\non\n```\n", "ended with 1"),
        ("```console no-test\n$ false\n```\n", "no-test needs a reason"),
        ("```python run\nassert False\n```\n", "the program ended with 1"),
        ("```console serve\n$ echo never\n```\n", "printed no line ready"),
        ("```console serve\n$ bash -c 'trap \"exit 3\" TERM; echo ready; while :; do sleep 0.1; done'\n```\n",
         "ended with 3"),
        ("```console serve\n$ bash -c 'trap \"exit 0\" TERM; echo ready; while :; do sleep 0.1; done'\nsteady\n```\n",
         "instead of\nsteady"),
        ("```python run\nimport lior_no_such_module\n```\n", "lior_no_such_module"),
    ],
)
def test_finds_what_a_page_gets_wrong(page: str, complaint: str, tmp_path: Path) -> None:
    with sandbox(tmp_path) as box:
        failures = page_failures(page, box)
    assert len(failures) == 1
    assert complaint in failures[0]


@pytest.mark.parametrize(
    "page",
    [
        "```console\n$ echo one; echo two\none\ntwo\n```\n",
        "```console\n$ echo one two three\none ... three\n```\n",
        "```console\n$ seq 9\n1\n...\n9\n```\n",
        "```console\n$ echo whatever\n```\n",
        "```console\n$ echo a \\\n> b\na b\n```\n",
        "```console\n$ x=5\n$ echo $x\n5\n```\n",
        "```console\n$ cat <<END\n> text\n> END\ntext\n```\n",
        "```console\n$ echo kept > file\n```\n\n```console\n$ cat file\nkept\n```\n",
        "```console\n$ export WORD=kept\n```\n\n```console\n$ echo $WORD\nkept\n```\n",
        "```console\n$ echo kept > file\n```\n\n```python run\nassert open('file').read() == 'kept\\n'\n```\n",
        "```console no-test: it would take a day\n$ false\n```\n",
        "```python\nassert False\n```\n",
        "  - in a list\n\n    ```console\n    $ echo one\n    one\n    ```\n",
        "```console\n$ sleep 1000 &\n```\n",
        "```console serve\n$ bash -c 'trap \"exit 0\" TERM; echo ready; while :; do sleep 0.1; done'\nready\n```\n",
    ],
)
def test_accepts_what_a_page_gets_right(page: str, tmp_path: Path) -> None:
    with sandbox(tmp_path) as box:
        assert page_failures(page, box) == []


def test_finds_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A `good` heading, here\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#a-good-heading-here) [c](https://example.org/x) `[d](code.md)`\n"
        "[e](missing.md) [f](other.md#nothing)\n```\n[g](fenced.md)\n```\n"
    )
    assert broken_links(page) == ["missing.md: there is no missing.md", "other.md#nothing: no heading with that name"]


@pytest.mark.parametrize("text", ["see /home/ann/x", "`/root/.cache`", "(/work/app)", "cd /Users/x"])
def test_finds_paths_of_one_machine(text: str) -> None:
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize("text", ["/var/lib/lior", "https://example.org/home/page", "docs/work/x", "/etc/lior.toml"])
def test_allows_paths_of_every_machine(text: str) -> None:
    assert MACHINE_PATH.search(text) is None
