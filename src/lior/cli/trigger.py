"""lior trigger: check, run and try out the rules of a triggers file."""

from __future__ import annotations

import asyncio
import logging
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import click

import lior
from lior.cli.connection import Session, connected, offline
from lior.cli.output import DONE, FAILED, Output, number
from lior.cli.views import shortened
from lior.client.message import ReceivedMessage
from lior.client.triggers import (
    Figures,
    Http,
    Rule,
    Searcher,
    SearchTimeout,
    Trigger,
    TriggerRunner,
    load,
    matching_rules,
)  # fmt: skip
from lior.errors import QueueNotFound

FILE: Final = click.Path(dir_okay=False)
CHECK_HEADINGS: Final = ("TRIGGER", "QUEUE", "MODE", "RULE", "ACTION")
TEST_HEADINGS: Final = ("LOOKUP-ID", "LABEL", "TRIGGER", "RULES")
RUN_HEADINGS: Final = ("TRIGGER", "MATCHED", "UNMATCHED", "SUCCEEDED", "FAILED", "LAST ERROR")


@click.group(name="trigger")
def trigger() -> None:
    """Run commands or HTTP requests for the messages of a queue.

    FILE says which: docs/triggers.md describes it.
    """


@trigger.command(short_help="Read a file of triggers and show them.")
@click.argument("file", type=FILE)
@offline
def check(out: Output, file: str) -> None:
    """Read FILE and show its triggers and rules, or the first thing wrong with it."""
    found = load(file)
    if out.as_json:
        for each in found:
            out.record(trigger_json(each))
        return
    rows = []
    for each in found:
        mode = each.mode if each.enabled else f"{each.mode} (disabled)"
        rows += [(each.name, each.queue, mode, rule.name, action_text(rule)) for rule in each.rules]
    out.table(CHECK_HEADINGS, rows)


def action_text(rule: Rule) -> str:
    action = rule.action
    return f"{action.method} {action.url}" if isinstance(action, Http) else shlex.join(action.arguments)


def trigger_json(each: Trigger) -> dict[str, Any]:
    """Without header fields and environments: they may hold secrets."""
    rules = []
    for rule in each.rules:
        when = {name: value for name, value in asdict(rule.when).items() if value is not None}
        rules.append({"name": rule.name, "when": when, rule.action.kind: action_text(rule), "timeout": rule.timeout,
                      "stop": rule.stop})  # fmt: skip
    return {"trigger": each.name, "queue": each.queue, "mode": each.mode, "concurrency": each.concurrency,
            "enabled": each.enabled, "rules": rules}  # fmt: skip


@trigger.command()
@click.argument("file", type=FILE)
@click.option("--once", is_flag=True, help="Deal with the messages that are there now, then end. Exit code 1: "
              "an action failed.")
@connected
def run(session: Session, file: str, once: bool) -> int:
    """Run the triggers of FILE until SIGTERM or Ctrl-C.

    Each action is a line of JSON on stderr. Actions under way are finished first when it is told to end.
    """
    figures = asyncio.run(serve(session, load(file), once))
    if session.out.as_json:
        for name, done in figures.items():
            session.out.record({"trigger": name} | asdict(done))
    else:
        session.out.table(RUN_HEADINGS, [figures_row(name, done) for name, done in figures.items()])
    return FAILED if once and any(done.failed for done in figures.values()) else DONE


def figures_row(name: str, done: Figures) -> tuple[str, ...]:
    counts = (done.matched, done.unmatched, done.succeeded, done.failed)
    return (name, *map(str, counts), done.last_error)


async def serve(session: Session, triggers: Sequence[Trigger], once: bool) -> dict[str, Figures]:
    handler = logging.StreamHandler(sys.stderr)
    log = logging.getLogger("lior.triggers")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        async with session.opening() as manager:
            runner = TriggerRunner(manager, triggers)
            await runner.start(once=once)
            try:
                await until_done_or_told(runner, once)
            finally:
                await runner.stop()
            return runner.figures
    finally:
        log.removeHandler(handler)


async def until_done_or_told(runner: TriggerRunner, once: bool) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number_ in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number_, told.set)
    if not once:
        click.echo(f"running {number(len(runner.figures), 'trigger')}", err=True)
    work = [asyncio.ensure_future(runner.wait()), asyncio.ensure_future(told.wait())]
    try:
        await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        if work[0].done():
            work[0].result()
    finally:
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


@trigger.command(short_help="Show which rules match the messages there are now.")
@click.argument("file", type=FILE)
@click.option("--queue", "name", metavar="QUEUE", help="Only the triggers of this queue.")
@connected
def test(session: Session, file: str, name: str | None) -> None:
    """Show which rules of FILE match the messages that are in the queues now. Nothing is done to them."""
    rows = asyncio.run(try_out(session, load(file), name))
    if session.out.as_json:
        for message, each, rules in rows:
            facts: dict[str, Any] = {"lookup_id": message.lookup_identifier, "id": message.id, "label": message.label}
            session.out.record(facts | {"trigger": each.name, "queue": each.queue, "rules": rules})
    else:
        session.out.table(TEST_HEADINGS, [
            (str(message.lookup_identifier), shortened(message.label), each.name, ", ".join(rules) or "-")
            for message, each, rules in rows
        ])  # fmt: skip


async def try_out(
    session: Session, triggers: Sequence[Trigger], name: str | None
) -> list[tuple[ReceivedMessage, Trigger, list[str]]]:
    found = []
    searcher = Searcher()
    try:
        async with session.opening() as manager:
            for each in await chosen(manager, triggers, name):
                async with await manager.open_queue(each.queue, "peek") as queue:
                    async for message in queue:
                        found.append((message, each, await names_of_matches(each, message, searcher)))
    finally:
        await searcher.close()
    return found


async def names_of_matches(each: Trigger, message: ReceivedMessage, searcher: Searcher) -> list[str]:
    try:
        return [rule.name for rule in await matching_rules(each.rules, message, searcher)]
    except SearchTimeout as error:
        return [f"undecided: {error}"]


async def chosen(manager: lior.aio.QueueManager, triggers: Sequence[Trigger], name: str | None) -> list[Trigger]:
    """The triggers of the queue with this name, however either is written; disabled ones too."""
    if name is None:
        return list(triggers)
    wanted = (await manager.queue(name)).identifier
    found = [each for each in triggers if await identifier(manager, each.queue) == wanted]
    if not found:
        watched = ", ".join(dict.fromkeys(each.queue for each in triggers))
        raise QueueNotFound("no trigger of the file watches this queue", where=name, remedy=f"they watch {watched}")
    return found


async def identifier(manager: lior.aio.QueueManager, name: str) -> str:
    """Empty when there is no such queue: a trigger of another queue does not stand in the way."""
    try:
        return (await manager.queue(name)).identifier
    except QueueNotFound:
        return ""
