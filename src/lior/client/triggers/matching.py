"""Which rules a message matches."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lior.client.formatters import AUTO
from lior.client.triggers.properties import is_authenticated, sender_of
from lior.client.triggers.rules import Conditions, Rule
from lior.errors import LiorError
from lior.message import Message

SEARCHED: Final = 65536  # characters of a body that a pattern looks at
SEARCH_SECONDS: Final = 1.0
_WORKER: Final = Path(__file__).with_name("regex_worker.py")


class SearchTimeout(Exception):
    """A regular expression took too long on this text."""


class Searcher:
    """Searches by regular expression in a process of its own, started when first needed."""

    def __init__(self, seconds: float = SEARCH_SECONDS) -> None:
        self._seconds = seconds
        self._process: asyncio.subprocess.Process | None = None
        self._one_at_a_time = asyncio.Lock()

    async def search(self, pattern: str, text: str) -> bool:
        line = json.dumps([pattern, text, self._seconds]).encode() + b"\n"
        async with self._one_at_a_time:
            process = self._process or await self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(line)
                answer = await asyncio.wait_for(process.stdout.readline(), self._seconds + 5.0)
            except BaseException as error:
                await self._end()
                if isinstance(error, TimeoutError | ConnectionError):
                    raise SearchTimeout(f"{pattern[:60]!r} took longer than {self._seconds:g} s") from None
                raise
            if not answer:
                await self._end()
                raise SearchTimeout(f"{pattern[:60]!r} took longer than {self._seconds:g} s")
            return answer == b"1\n"

    async def _start(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(_WORKER),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def close(self) -> None:
        async with self._one_at_a_time:
            await self._end()


def body_text(message: Message) -> str | None:
    """The body as text by its body type; bytes that claim nothing are read as UTF-8. None: it has no text."""
    try:
        value = AUTO.decode(message.body, message.body_type)
    except LiorError:
        return None
    if isinstance(value, bytes):
        utf16 = value.startswith((b"\xff\xfe", b"\xfe\xff"))
        try:
            return value.decode("utf-16" if utf16 else "utf-8-sig")
        except UnicodeDecodeError:
            return None
    return str(value) if isinstance(value, str | int | float) else None


async def holds(when: Conditions, message: Message, searcher: Searcher) -> bool:
    """Every condition is fulfilled. Cheap ones first; patterns last."""
    if not _holds_plainly(when, message):
        return False
    if when.label_matches is not None and not await searcher.search(when.label_matches, message.label):
        return False
    if when.body_contains is None and when.body_matches is None:
        return True
    body = body_text(message)
    if body is None or (when.body_contains is not None and when.body_contains not in body):
        return False
    return when.body_matches is None or await searcher.search(when.body_matches, body[:SEARCHED])


def _holds_plainly(when: Conditions, message: Message) -> bool:
    label, priority, sender = message.label, message.priority, when.sender_sid
    return (
        (when.label_equals is None or when.label_equals == label)
        and (when.label_contains is None or when.label_contains in label)
        and (when.priority_min is None or when.priority_min <= priority)
        and (when.priority_max is None or when.priority_max >= priority)
        and (when.application_tag_equals is None or when.application_tag_equals == message.application_tag)
        and (when.class_number is None or when.class_number == message.message_class)
        and (not sender or sender == sender_of(message))
        and (when.authenticated is None or when.authenticated == is_authenticated(message))
    )


async def matching_rules(rules: Sequence[Rule], message: Message, searcher: Searcher) -> list[Rule]:
    """The rules whose actions are due, in order, up to the first that says stop."""
    found = []
    for rule in rules:
        if await holds(rule.when, message, searcher):
            found.append(rule)
            if rule.stop:
                break
    return found
