"""lior component: import interfaces, play recorded calls, look at them, move them."""

from __future__ import annotations

import asyncio
import json
import logging
import runpy
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

import lior
from lior.cli.connection import Session, connected, offline
from lior.cli.output import DONE, FAILED, Output, number, printable
from lior.client.message import ReceivedMessage
from lior.components import Application, Figures, aio, interface_of
from lior.components.dumping import dump_message, message_of
from lior.components.idl_python import import_text
from lior.components.interface import Interface
from lior.components.ladder import DEAD, Ladder
from lior.components.places import reasons_queue
from lior.components.stubs import stub_of
from lior.errors import BadConfiguration, LiorError, NotQueueable, UnsupportedOperation
from lior.names import DirectName, parse_format_name

FILE: Final = click.Path(dir_okay=False, exists=True)
PLAYED: Final = ("MESSAGES", "CALLS", "FAILED", "REJECTED", "MOVED", "DEAD", "LAST ERROR")
DEAD_LETTERS: Final = r".\system$;DEADXACT"


@click.group(name="component")
def component() -> None:
    """Queued components: method calls that travel in a message.

    docs/components.md is the way in.
    """


# ---- definitions ----------------------------------------------------------------------------------------------------


@component.command(name="import", short_help="Write Python interfaces from an IDL file.")
@click.argument("file", type=FILE)
@click.option("--output", type=click.Path(dir_okay=False), help="Write there instead of standard output.")
@click.option("--stub", is_flag=True, help="Also write a .pyi beside the output.")
@offline
def import_(out: Output, file: str, output: str | None, stub: bool) -> None:
    """Write Python interfaces from FILE, a subset of IDL.

    Methods that cannot be recorded stay as comments that say why; numbers are pinned.
    """
    if stub and output is None:
        raise click.UsageError("--stub needs --output")
    text = import_text(read(file), Path(file).name)
    if output is None:
        out.line(text.rstrip()) if not out.as_json else out.record({"source": file, "python": text})
        return
    write(output, text)
    found = interfaces(load(output))
    if stub:
        write(str(Path(output).with_suffix(".pyi")), stub_of(found))
    out.done(f"wrote {number(len(found), 'interface')} to {output}", written=output,
             interfaces=[each.name for each in found])


@component.command(name="stub", short_help="Write a type stub for the interfaces of a program.")
@click.argument("program", type=FILE)
@offline
def stub_(out: Output, program: str) -> None:
    """Write a type stub (.pyi) for the interfaces of PROGRAM, a Python file, with plain types."""
    text = stub_of(interfaces(load(program)))
    if out.as_json:
        out.record({"program": program, "stub": text})
    else:
        out.line(text.rstrip())


def read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadConfiguration("the file is not UTF-8", where=file) from None


def write(file: str, text: str) -> None:
    Path(file).write_text(text, encoding="utf-8")


def load(program: str) -> dict[str, Any]:
    """What a Python file defines."""
    sys.path.insert(0, str(Path(program).resolve().parent))
    try:
        return runpy.run_path(program, run_name=Path(program).stem)
    except LiorError:
        raise
    except Exception as error:  # whatever the program raises
        raise BadConfiguration(f"it does not run: {type(error).__name__}: {error}"[:500], where=program) from error
    finally:
        sys.path.pop(0)


def interfaces(names: dict[str, Any]) -> list[Interface]:
    found = []
    for value in names.values():
        try:
            found.append(interface_of(value))
        except NotQueueable:
            continue
    return list({each.iid: each for each in found}.values())


def application(program: str) -> Application:
    """`FILE.py` or `FILE.py:NAME`."""
    file, _, name = program.rpartition(":") if ".py:" in program else (program, "", "")
    if not Path(file).is_file():
        raise BadConfiguration("there is no such file", where=file, remedy="name the Python file of the application")
    found = {key: value for key, value in load(file).items() if isinstance(value, Application)}
    if name:
        found = {key: value for key, value in found.items() if key == name}
    if len(found) != 1:
        raise BadConfiguration(f"it defines {number(len(found), 'application')}", where=program,
                               remedy=f"name one: {file}:NAME")
    return next(iter(found.values()))


# ---- playing --------------------------------------------------------------------------------------------------------


@component.command(short_help="Play the messages of an application.")
@click.argument("program", metavar="FILE.py[:NAME]")
@click.option("--queue", metavar="QUEUE", help="Another queue than the application's own.")
@click.option("--once", is_flag=True, help="Play what is there now, then end. Exit code 1: something failed.")
@click.option("--concurrency", type=click.IntRange(1, 1000), default=1, show_default=True,
              help="Messages played at a time. With more than one their order is not kept.")
@click.option("--retry-delays", metavar="SECONDS,...", default="60,120,240,480,960", show_default=True,
              help="One for each retry queue; empty for none.")
@click.option("--tries", type=click.IntRange(1), default=3, show_default=True, help="In each retry queue.")
@click.option("--metrics", metavar="PORT", type=click.IntRange(0, 65535), default=0,
              help="Serve Prometheus metrics on 127.0.0.1.")
@click.option("--dead-letters", is_flag=True, help="Give the messages that could not be delivered from here to their "
              "exception classes, then end.")
@connected
def play(session: Session, program: str, queue: str | None, once: bool, concurrency: int, retry_delays: str,
         tries: int, metrics: int, dead_letters: bool) -> int:
    """Play the application in FILE.py until SIGTERM or Ctrl-C. Each call is a line of JSON on stderr.

    Messages in hand are finished first when it is told to end.
    """
    try:
        delays = tuple(float(word) for word in retry_delays.split(",") if word.strip())
    except ValueError:
        raise click.BadParameter("numbers with commas between", param_hint="--retry-delays") from None
    options = {"queue": queue, "concurrency": concurrency, "ladder": Ladder(delays, tries)}
    known = application(program)
    handler = logging.StreamHandler(sys.stderr)
    log = logging.getLogger("lior.components")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        figures = asyncio.run(serve(session, known, options, once, metrics, dead_letters))
    finally:
        log.removeHandler(handler)
    if session.out.as_json:
        session.out.record({"application": known.name} | asdict(figures))
    else:
        counts = (figures.messages_played, figures.calls_played, figures.calls_failed, figures.messages_rejected,
                  figures.messages_moved, figures.messages_dead)
        session.out.table(PLAYED, [(*map(str, counts), figures.last_error)])
    return FAILED if once and (figures.calls_failed or figures.messages_rejected) else DONE


async def serve(session: Session, known: Application, options: dict[str, Any], once: bool, metrics: int,
                dead_letters: bool) -> Figures:
    async with session.opening() as manager:
        player = aio.Player(manager, known, **options)
        if metrics:
            serve_metrics(player, metrics)
        if dead_letters:
            await aio.play_dead_letters(player, DEAD_LETTERS)
        elif once:
            await player.play_waiting()
        else:
            await play_until_told(player)
        return player.figures


async def play_until_told(player: aio.Player) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number_ in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number_, told.set)
    await player.start()
    click.echo(f"playing {player.queue_name}", err=True)
    work = [asyncio.ensure_future(player.wait()), asyncio.ensure_future(told.wait())]
    try:
        await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        if work[0].done():
            work[0].result()
    finally:
        await player.stop()
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)


def serve_metrics(player: aio.Player, port: int) -> None:
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(player.reporter)
    start_http_server(port, "127.0.0.1", registry)


# ---- looking --------------------------------------------------------------------------------------------------------


@component.command(short_help="Show what recorded messages say.")
@click.argument("file", type=FILE, required=False)
@click.option("--queue", metavar="QUEUE", help="The messages of a queue; they stay in it.")
@click.option("--program", metavar="FILE.py[:NAME]", help="An application that knows the classes: shows arguments too.")
@connected
def dump(session: Session, file: str | None, queue: str | None, program: str | None) -> int:
    """Show the calls in FILE, the body of a message, or in the messages of a queue.

    Nothing is played. Exit code 1: one of them is broken.
    """
    if (file is None) is (queue is None):
        raise click.UsageError("name a file, or a queue with --queue")
    known = application(program) if program else None
    broken = False
    for name, message, reason in [(file, body(file), "")] if file else messages(session, str(queue)):
        facts = dump_message(message, known) | ({"reason": reason} if reason else {})
        broken = broken or "error" in facts
        if session.out.as_json:
            session.out.record({"message": name} | facts)
        else:
            show(session.out, str(name), facts)
    return FAILED if broken else DONE


def body(file: str) -> ReceivedMessage:
    return message_of(Path(file).read_bytes())


def messages(session: Session, queue: str) -> Iterator[tuple[str, ReceivedMessage, str]]:
    """Those of a dead queue with the reason why they are there."""
    with session.open() as manager, manager.open_queue(queue, "peek") as opened:
        main, _, subqueue = queue.partition(";")
        known = reasons(manager, reasons_queue(main)) if subqueue == DEAD else {}
        for message in opened:
            identifier = message.identifier
            yield message.id, message, known.get(identifier.to_bytes() if identifier else b"", "")


def reasons(manager: lior.QueueManager, name: str) -> dict[bytes, str]:
    if not manager.exists(name):
        return {}
    with manager.open_queue(name, "peek") as opened:
        return {message.correlation_id: str(json.loads(message.value()).get("reason", "")) for message in opened}


def show(out: Output, name: str, facts: dict[str, Any]) -> None:
    out.line(f"{name}: class {facts.get('class_id', 'unknown')}, {facts['bytes']} bytes")
    if "reason" in facts:
        out.line(f"  dead: {printable(facts['reason'])}")
    if "error" in facts:
        out.line(f"  broken: {printable(facts['error'])}")
    for call in facts.get("calls", ()):
        arguments = call.get("arguments")
        what = call.get("method") or f"{call['interface_id']} method {call['method_number']}"
        said = ", ".join(arguments) if arguments is not None else "..."
        out.line(printable(f"  {call['index']} {what}({said}) by {call['caller']}, {call['bytes']} bytes"))


# ---- moving ---------------------------------------------------------------------------------------------------------


@component.command(short_help="Move messages between an application's queue and its subqueues.")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.argument("lookup_ids", metavar="[LOOKUP-ID]...", type=int, nargs=-1)
@connected
def move(session: Session, source: str, target: str, lookup_ids: tuple[int, ...]) -> None:
    """Move the messages of SOURCE to TARGET, all or those named; each keeps its sender, signature and place.

    Both belong to one queue: `.\\private$\\Orders;dead` and `.\\private$\\Orders`.
    """
    count = moved(session, source, target, lookup_ids)
    session.out.done(f"moved {number(count, 'message')} to {target}", moved=count, target=target)


@component.command(short_help="Play dead messages again.")
@click.argument("queue", metavar="QUEUE")
@click.argument("lookup_ids", metavar="[LOOKUP-ID]...", type=int, nargs=-1)
@connected
def retry(session: Session, queue: str, lookup_ids: tuple[int, ...]) -> None:
    """Move the dead messages of QUEUE back into it, all or those named: they are played from the start."""
    count = moved(session, f"{queue};{DEAD}", queue, lookup_ids)
    session.out.done(f"moved {number(count, 'message')} back to {queue}", moved=count, target=queue)


def moved(session: Session, source: str, target: str, lookup_ids: tuple[int, ...]) -> int:
    with session.open() as manager, manager.open_queue(source) as opened:
        subqueue = subqueue_of(manager, opened.format_name, target)
        chosen = list(lookup_ids) or [message.lookup_identifier for message in opened]
        if opened.info().transactional:
            with manager.transaction() as transaction:
                for lookup_id in chosen:
                    opened.move(lookup_id, subqueue, transaction=transaction)
        else:
            for lookup_id in chosen:
                opened.move(lookup_id, subqueue)
    return len(chosen)


def subqueue_of(manager: lior.QueueManager, source: str, target: str) -> str:
    """The subqueue that the target is, if it is one of the source's queue."""
    with manager.open_queue(target, "peek") as opened:
        names = [parse_format_name(name) for name in (source, opened.format_name)]
    paths = [name.path for name in names if isinstance(name, DirectName)]
    mains = {str(path.without_subqueue()).casefold() for path in paths}
    if len(paths) != 2 or len(mains) != 1:
        raise UnsupportedOperation("messages move within one queue only: sent to another one they would have another "
                                   "sender", where=target, remedy="let the application play both queues")
    return opened.format_name.partition(";")[2]
