"""Doing what a rule says: a program without a shell, or an HTTP request. Both end in time or are ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from lior.client.triggers.http_call import call
from lior.client.triggers.matching import body_text
from lior.client.triggers.properties import clean, environment_of, properties_of
from lior.client.triggers.rules import Command, Http, Rule
from lior.message import Message

GRACE: Final = 1.0  # seconds between asking a program to end and ending it
KEPT_OUTPUT: Final = 2000  # bytes of a program's output that a failure shows: the last ones
SPARE: Final = 16384
INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "TZ", "TMPDIR", "LANG", "LANGUAGE")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an action ended: `error` is empty when it succeeded."""

    error: str = ""
    output: str = ""  # the end of what a program that failed wrote

    @property
    def succeeded(self) -> bool:
        return not self.error


async def act(rule: Rule, message: Message, trigger: str, queue: str) -> Outcome:
    """Do the rule's action for the message. Every failure is an outcome; only cancelling raises."""
    properties = properties_of(message, trigger, rule.name, queue)
    body = message.body
    if rule.body == "text":
        text = body_text(message)
        if text is None:
            return Outcome(f"the body (type {message.body_type}) has no text form; use body = \"raw\"")
        body = clean(text).encode()
    if isinstance(rule.action, Http):
        return Outcome(await call(rule.action, body, properties, rule.timeout))
    return await run(rule.action, body, properties, rule.timeout)


async def run(action: Command, body: bytes, properties: Mapping[str, str], timeout: float) -> Outcome:
    try:
        arguments = [template.fill(properties) for template in action.templates]
        process = await asyncio.create_subprocess_exec(
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=_environment(action, properties),
            cwd=action.directory,
            start_new_session=True,  # what it starts ends with it, and Ctrl-C is not for it
        )
    except (OSError, ValueError) as error:
        return Outcome(f"it could not be started: {error}")
    feeding = asyncio.create_task(_feed(process, body))
    tail = bytearray()
    draining = asyncio.create_task(_drain(process, tail))
    try:
        try:
            code = await asyncio.wait_for(process.wait(), timeout)
        except TimeoutError:
            await _end(process)
            return Outcome(f"it took longer than {timeout:g} s and was ended", _shown(tail))
        with suppress(TimeoutError):  # a process it left running may hold its output open
            await asyncio.wait_for(asyncio.shield(draining), GRACE)
    finally:
        if process.returncode is None:
            _signal(process, signal.SIGKILL)
        for task in (feeding, draining):
            task.cancel()
        await asyncio.gather(feeding, draining, return_exceptions=True)
    if code == 0:
        return Outcome()
    return Outcome(f"exit code {code}" if code > 0 else f"ended by signal {-code}", _shown(tail))


def _environment(action: Command, properties: Mapping[str, str]) -> dict[str, str]:
    """A program gets what every program needs, what the rule says, and the message; not all that we have."""
    kept = {name: value for name, value in os.environ.items() if name in INHERITED or name.startswith("LC_")}
    return kept | action.environment | environment_of(properties)


async def _feed(process: asyncio.subprocess.Process, body: bytes) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError):  # it need not read its input
        process.stdin.write(body)
        await process.stdin.drain()
    process.stdin.close()


async def _drain(process: asyncio.subprocess.Process, tail: bytearray) -> None:
    assert process.stdout is not None
    while chunk := await process.stdout.read(SPARE):
        tail += chunk
        del tail[:-KEPT_OUTPUT]


def _shown(tail: bytearray) -> str:
    return bytes(tail).decode("utf-8", "replace").strip()


async def _end(process: asyncio.subprocess.Process) -> None:
    """The program and what it started: asked first, then made to."""
    _signal(process, signal.SIGTERM)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), GRACE)
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
