"""A client of a queue manager on Wine's RPC runtime: the program of wine/, told what to do line by line."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from tests.interop.rpc.wine_build import build, environment, prefix

ANSWER_WITHIN: Final = 90.0


@dataclass
class Answer:
    """`result` is the method's return value; None if the runtime raised `fault` instead."""

    result: int | None
    fault: int | None
    values: dict[str, str] = field(default_factory=dict)

    def ok(self) -> Self:
        assert self.result == 0, self
        return self

    @property
    def code(self) -> int:
        """The return value, or the exception."""
        return (self.fault if self.result is None else self.result) or 0

    def number(self, name: str) -> int:
        return int(self.values[name], 0)

    def bytes(self, name: str) -> bytes:
        return bytes.fromhex(self.values[name])

    def text(self, name: str) -> str:
        return self.bytes(name).decode("utf-16-le").split("\0")[0]


def quoted(text: str) -> str:
    """A value of a command: its characters that mean something are written as numbers."""
    units = text.encode("utf-16-le", "surrogatepass")
    codes = [int.from_bytes(units[at : at + 2], "little") for at in range(0, len(units), 2)]
    return "".join(chr(code) if 0x21 <= code < 0x7F and chr(code) not in "%,:@=" else f"%u{code:04x}" for code in codes)


class WineClient:
    """One process. `client.send("h", body=b"...", label="x")`; bytes go as hex, numbers and text as they are."""

    def __init__(self) -> None:
        prefix()
        self._process = subprocess.Popen(
            [str(build())], env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self._tags = itertools.count(1)
        self._answers: dict[str, Answer] = {}
        self._arrived = threading.Condition()
        self._ended = False
        self._complaints: list[str] = []
        self._readers = [threading.Thread(target=reader, daemon=True) for reader in (self._read, self._complain)]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(60)

    def kill(self) -> None:
        """As a crash: its connections are reset by the kernel."""
        self._process.kill()
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            tag, outcome, *rest = line.split()
            kind, _, number = outcome.partition("=")
            code = int(number, 16)
            answer = Answer(code if kind == "result" else None, code if kind == "fault" else None,
                            dict(word.partition("=")[::2] for word in rest))  # fmt: skip
            with self._arrived:
                self._answers[tag] = answer
                self._arrived.notify_all()
        with self._arrived:
            self._ended = True
            self._arrived.notify_all()

    def _complain(self) -> None:
        assert self._process.stderr is not None
        self._complaints.extend(self._process.stderr)

    def start(self, verb: str, beside: bool = False, **values: Any) -> str:
        """Send a command; with `beside` it does not hold up those after it. The tag of its answer."""
        tag = f"{'&' if beside else ''}{next(self._tags)}"
        words = [f"{name}={_word(value)}" for name, value in values.items() if value is not None]
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join([tag, verb, *words]) + "\n")
        self._process.stdin.flush()
        return tag

    def finish(self, tag: str, timeout: float = ANSWER_WITHIN) -> Answer:
        with self._arrived:
            self._arrived.wait_for(lambda: tag in self._answers or self._ended, timeout)
            assert tag in self._answers, f"the Wine client did not answer {tag}: {''.join(self._complaints)[-2000:]}"
            return self._answers.pop(tag)

    def answered(self, tag: str) -> bool:
        with self._arrived:
            return tag in self._answers

    def __call__(self, verb: str, **values: Any) -> Answer:
        return self.finish(self.start(verb, **values))

    def bind(self, host: str, port: int | None = 2103, **values: Any) -> Answer:
        """service=10 is NTLM, 9 SPNEGO; level as in [MS-RPCE] 2.2.1.1.8; without a port the endpoint mapper is
        asked."""
        return self("bind", host=host, port=port, **{"as": "binding", **values})

    def properties(self, verb: str, name: str, properties: Mapping[int, str], **values: Any) -> Answer:
        """`get` or `set` with PROPID -> type:value."""
        return self(verb, name=name, **values, **{str(number): value for number, value in properties.items()})


def _word(value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, bool):
        return str(int(value))
    return str(value)
