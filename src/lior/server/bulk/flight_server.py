"""The Flight server: do_get reads claimed ranges and queues, do_put puts messages aside, actions go to the queue
manager. Streams are pulled by the client: gRPC's window is the back-pressure, and a batch is read when it is wanted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.flight as flight

from lior.errors import AccessDenied, InsufficientResources, InvalidParameter, LiorError, ServiceNotAvailable
from lior.server.bulk import columns, daemon
from lior.server.bulk.columns import Chunk
from lior.server.bulk.entrance import NAME, Admission
from lior.server.bulk.rows import HIGHEST, Rows
from lior.server.bulk.settings import BulkSection
from lior.server.bulk.writing import messages_of
from lior.store import stages
from lior.wire import bulk
from lior.wire.admin_json import error_to_json

log = logging.getLogger("lior.bulk")


def told(error: LiorError) -> flight.FlightServerError:
    """Our error through Flight: code, what, where and remedy come with it."""
    return flight.FlightServerError(str(error), extra_info=bulk.encode(error_to_json(error)))


class BulkServer(flight.FlightServerBase):  # type: ignore[misc]
    def __init__(self, location: str, directory: Path, settings: BulkSection, **options: Any) -> None:
        super().__init__(location, **options)
        self._directory = directory
        self._settings = settings
        self._streams = threading.BoundedSemaphore(settings.max_streams)

    @contextmanager
    def _stream(self) -> Iterator[None]:
        if not self._streams.acquire(blocking=False):
            raise InsufficientResources(f"{self._settings.max_streams} streams are open already",
                                        where="bulk.max_streams", remedy="try again later, or raise the setting")
        try:
            yield
        finally:
            self._streams.release()

    # Reading

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        try:
            wanted = bulk.decode(ticket.ticket, "ticket")
            names = bulk.checked_columns(wanted.get("columns"))
            return flight.GeneratorStream(columns.schema(names), self._batches(wanted, names, account_of(context)))
        except LiorError as error:
            raise told(error) from None

    def _batches(self, wanted: dict[str, Any], names: tuple[str, ...], account: str) -> Iterator[pa.RecordBatch]:
        try:
            with self._stream():
                rows = Rows(self._directory)
                try:
                    if account:
                        self._ask(rows, wanted, account)
                    for each in self._found(rows, wanted, not columns.OF_BODY.isdisjoint(names)):
                        yield columns.batch_of(each, names)
                finally:
                    rows.close()
        except LiorError as error:
            raise told(error) from None

    def _ask(self, rows: Rows, wanted: dict[str, Any], account: str) -> None:
        """The queue manager knows who may read what; this process may everything."""
        if "subscription" in wanted:
            said: dict[str, Any] = {"subscription": text(wanted, "subscription")}
        else:
            said = {"queue_id": rows.queue_id(text(wanted, "queue"))}
        daemon.call(self._directory, "may_read", said, account)

    def _found(self, rows: Rows, wanted: dict[str, Any], bodies: bool) -> Iterator[Chunk]:
        settings = self._settings
        if "subscription" in wanted:
            low, high = whole(wanted, "low", 0), whole(wanted, "high", 0)
            return rows.claimed(text(wanted, "subscription"), text(wanted, "epoch"), low, high,
                                settings.batch_rows, settings.batch_bytes, bodies=bodies)  # fmt: skip
        after, to = whole(wanted, "after", 0), whole(wanted, "to", HIGHEST)
        return rows.peeked(text(wanted, "queue"), after, to, whole(wanted, "limit", HIGHEST), settings.batch_bytes,
                           bodies=bodies)  # fmt: skip

    # Writing

    def do_put(self, context: Any, descriptor: flight.FlightDescriptor, reader: Any, writer: Any) -> None:
        """One stream is one stage, whose name is the answer once it is on disk."""
        try:
            with self._stream():
                answer = self._put_aside(bulk.decode(descriptor.command or b"{}", "descriptor"), reader, context)
            writer.write(bulk.encode(answer))
        except LiorError as error:
            raise told(error) from None

    def _put_aside(self, said: dict[str, Any], reader: Any, context: Any) -> dict[str, Any]:
        defaults = said.get("defaults") or {}
        if stages.used(self._directory) > self._settings.max_staged_bytes:
            raise InsufficientResources("too much is put aside already", where="bulk.max_staged_bytes",
                                        remedy="publish it, wait until it expires, or raise the setting")
        stage = stages.StageWriter(self._directory, str(uuid4()), self._settings.max_stage_bytes)
        try:
            for chunk in reader:
                for staged in messages_of(chunk.data, defaults):
                    stage.add(staged)
            if context.is_cancelled():  # a stream whose writer died ends like any other
                raise ServiceNotAvailable("the writer went away", where="stage")
            stage.finish()
        except BaseException:
            stage.abort()
            raise
        return {"stage": stage.path.stem, "count": stage.count, "bytes": stage.bytes}

    # Calls

    def do_action(self, context: Any, action: flight.Action) -> Iterator[bytes]:
        try:
            arguments = bulk.decode(action.body.to_pybytes() or b"{}", action.type)
            if action.type == bulk.DISCARD:
                for stage in arguments.get("stages", ()):
                    stages.discard(self._directory, str(stage))
                result: Any = None
            elif action.type in bulk.ACTIONS:
                result = daemon.call(self._directory, action.type, arguments, account_of(context))
            else:
                raise InvalidParameter(f"there is no action {action.type!r:.60}", where="action",
                                       remedy=f"there are {', '.join((*bulk.ACTIONS, bulk.DISCARD))}")
        except LiorError as error:
            raise told(error) from None
        return iter([bulk.encode({"result": result})])

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return [(name, "as the call of the admin API") for name in bulk.ACTIONS]


def account_of(context: Any) -> str:
    """Empty for who may everything."""
    admission: Admission | None = context.get_middleware(NAME)
    if admission is None:
        raise AccessDenied("nobody let this call in", where="bulk transfer")
    return admission.account


def text(wanted: dict[str, Any], name: str) -> str:
    value = wanted.get(name)
    if not isinstance(value, str):
        raise InvalidParameter(f"{name} is missing, or no string", where="ticket")
    return value


def whole(wanted: dict[str, Any], name: str, default: int) -> int:
    value = wanted.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= HIGHEST:
        raise InvalidParameter(f"{name} is no whole number from 0 on", where="ticket")
    return value
