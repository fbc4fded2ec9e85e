"""Bulk transfer from Python: queues as Arrow tables, and tables as messages. Needs pyarrow (`lior[spark]`).

    from lior.client.bulk import connect

    with connect("/var/lib/lior") as bulk:
        table = bulk.read(r"private$\\orders")            # a pyarrow.Table: .to_pandas(), polars.from_arrow(...)
        bulk.write(table.select(["body"]), destination=r"private$\\copies", writer="copy", batch=1)
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from lior.client.target import is_directory
from lior.errors import AccessDenied, BadConfiguration, LiorError, ServiceNotAvailable, Timeout
from lior.wire import bulk

BULK_PORT: Final = 15802
TOKEN_FILE: Final = "admin.token"
ADDRESS_FILE: Final = "bulk.json"
PATIENCE: Final = 60.0  # seconds for which a server that is away is waited for
FIRST_DELAY: Final = 0.1
_TYPES: Final[dict[str, pa.DataType]] = {
    bulk.STRING: pa.string(), bulk.BIGINT: pa.int64(), bulk.INT: pa.int32(), bulk.TINYINT: pa.int8(),
    bulk.BOOLEAN: pa.bool_(), bulk.TIMESTAMP: pa.timestamp("us", tz="UTC"), bulk.BINARY: pa.binary(),
}  # fmt: skip

T = TypeVar("T")


def columns(wanted: Sequence[str] | None = None) -> dict[str, str]:
    """Names and kinds of columns: those named, or all the usual ones."""
    return {name: bulk.COLUMNS[name] for name in bulk.checked_columns(wanted)}


def arrow_schema(wanted: Sequence[str] | None = None) -> pa.Schema:
    return pa.schema([pa.field(name, _TYPES[kind]) for name, kind in columns(wanted).items()])


class Bulk:
    """One queue manager's bulk port. Connects when it is first used; safe to pickle before."""

    def __init__(self, address: str, credentials_file: str = "", ca_file: str = "", patience: float = PATIENCE) -> None:
        self.address = address
        self._credentials_file = credentials_file
        self._ca_file = ca_file
        self._patience = patience
        self._client: flight.FlightClient | None = None
        self._options: flight.FlightCallOptions | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_client": None, "_options": None}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self._client = self._options = None

    # Where, and as whom

    def _connected(self) -> flight.FlightClient:
        if self._client is None:
            location, secret = self._location(), self._authorization()
            options: dict[str, Any] = {}
            if self._ca_file:
                options["tls_root_certs"] = Path(self._ca_file).read_bytes()
            self._client = flight.FlightClient(location, generic_options=[("grpc.max_receive_message_length", -1)],
                                               **options)  # fmt: skip
            self._options = flight.FlightCallOptions(headers=[(b"authorization", secret)])
        return self._client

    def _location(self) -> str:
        if is_directory(self.address):
            file = Path(self.address, ADDRESS_FILE)
            try:
                return str(bulk.decode(file.read_bytes(), str(file))["location"])
            except (OSError, KeyError) as error:
                raise ServiceNotAvailable("no queue manager with bulk transfer serves this directory",
                                          where=self.address, remedy="start one with: lior serve --data "
                                          f"{self.address}; bulk.port must not be 0") from error
        scheme = "grpc+tls" if self._ca_file else "grpc+tcp"
        host, colon, port = self.address.rpartition(":")
        if not colon or "]" in port or (":" in host and "[" not in host):
            host, port = self.address, str(BULK_PORT)
        return f"{scheme}://{host}:{port}"

    def _authorization(self) -> bytes:
        file = self._credentials_file or os.environ.get("LIOR_TOKEN_FILE", "")
        if not file and is_directory(self.address):
            file = os.path.join(self.address, TOKEN_FILE)
        if not file:
            raise BadConfiguration("no credentials", where=self.address, remedy="give credentialsFile: a file with "
                                   "the admin token, or with a line user:password")
        try:
            secret = Path(file).read_bytes().strip()
        except OSError as error:
            raise BadConfiguration(error.strerror or str(error), where=file, remedy="check credentialsFile") from error
        return b"Basic " + base64.b64encode(secret) if b":" in secret else b"Bearer " + secret

    def _tried(self, attempt: Callable[[flight.FlightClient, flight.FlightCallOptions], T]) -> T:
        """A server that restarts is waited for. Everything that is tried here may be tried again."""
        end, delay = time.monotonic() + self._patience, FIRST_DELAY
        while True:
            try:
                client = self._connected()
                return attempt(client, self._options)
            except (flight.FlightError, pa.ArrowException, ServiceNotAvailable) as error:
                found = error if isinstance(error, LiorError) else translated(error, self.address)
                if not isinstance(found, ServiceNotAvailable) or time.monotonic() + delay > end:
                    raise found from error
            self.close()
            time.sleep(delay)
            delay = min(delay * 2, 2.0)

    # Calls

    def greet(self) -> None:
        """The server answers, and lets us in."""
        self._tried(lambda client, options: list(client.list_actions(options)))

    def call(self, name: str, /, **arguments: Any) -> Any:
        action = flight.Action(name, bulk.encode(arguments))

        def attempt(client: flight.FlightClient, options: flight.FlightCallOptions) -> Any:
            results = list(client.do_action(action, options))
            return bulk.decode(results[0].body.to_pybytes(), name)["result"]

        return self._tried(attempt)

    def subscriptions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("subscriptions")
        return found

    # Reading

    def batches(self, ticket: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """As they come. When the server goes away in the middle, the rest is asked for again."""
        wanted = dict(ticket)
        columns = bulk.checked_columns(wanted.get("columns"))
        seen = 0
        while True:
            try:
                for batch in self._opened(wanted):
                    yield batch
                    seen += batch.num_rows
                return
            except (flight.FlightError, pa.ArrowException) as error:
                found = translated(error, self.address)
                if not isinstance(found, ServiceNotAvailable):
                    raise found from error
                if seen and "limit" in wanted:
                    raise found from error
            self.close()
            if seen:  # rows of a range have a fixed order: go on behind those that came
                yield from self._again(wanted, columns, seen)
                return

    def _again(self, ticket: dict[str, Any], columns: tuple[str, ...], skip: int) -> Iterator[pa.RecordBatch]:
        for batch in self.batches(ticket):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            yield batch.slice(skip)
            skip = 0

    def _opened(self, ticket: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        request = flight.Ticket(bulk.encode(ticket))
        reader = self._tried(lambda client, options: client.do_get(request, options))
        for chunk in reader:
            yield chunk.data

    def fetch(
        self, subscription: str, epoch: str, low: int, high: int, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Claimed messages with ordinals above `low` up to `high`, in this order; they stay."""
        return self.batches({"subscription": subscription, "epoch": epoch, "low": low, "high": high,
                             "columns": list(bulk.checked_columns(columns))})  # fmt: skip

    def peek(
        self, queue: str, columns: Sequence[str] | None = None, *, after: int = 0, to: int | None = None,
        limit: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """What is on disk of a queue; `queue;JOURNAL`, `;DEADLETTER` and `;DEADXACT` are queues, too."""
        wanted: dict[str, Any] = {"queue": queue, "after": after, "columns": list(bulk.checked_columns(columns))}
        wanted |= {name: value for name, value in (("to", to), ("limit", limit)) if value is not None}
        return self.batches(wanted)

    def read(self, queue: str, columns: Sequence[str] | None = None, *, limit: int | None = None) -> pa.Table:
        return pa.Table.from_batches(self.peek(queue, columns, limit=limit), arrow_schema(columns))

    # Writing

    def stage(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema, **defaults: Any) -> dict[str, Any]:
        """Put messages aside; the answer's `stage` names them to `publish`."""
        descriptor = flight.FlightDescriptor.for_command(bulk.encode({"defaults": defaults}))
        writer, reader = self._tried(lambda client, options: client.do_put(descriptor, schema, options))
        sent = 0
        try:
            try:
                for batch in batches:
                    writer.write_batch(batch)
                    sent += batch.num_rows
                writer.done_writing()
                answer = reader.read()
                if answer is None:  # it failed; closing says why
                    writer.close()
                    raise ServiceNotAvailable("the server did not say what it put aside", where=self.address)
                staged = bulk.decode(answer.to_pybytes(), "answer")
                if staged["count"] != sent:
                    raise ServiceNotAvailable(f"{staged['count']} of {sent} messages were put aside",
                                              where=self.address, remedy="write the batch again")
                return staged
            except (flight.FlightError, pa.ArrowException) as error:
                raise translated(error, self.address) from error
        finally:
            with suppress(flight.FlightError, pa.ArrowException):
                writer.close()

    def publish(self, writer: str, batch: int, stages: Sequence[str]) -> int:
        """Send what was put aside, once for each number of a batch; answers how many messages."""
        sent: int = self.call("publish", writer=writer, batch=batch, stages=list(stages))
        return sent

    def discard(self, stages: Sequence[str]) -> None:
        self.call(bulk.DISCARD, stages=list(stages))

    def write(self, table: pa.Table, *, writer: str, batch: int, **defaults: Any) -> int:
        """A table as messages: its columns are properties, and `defaults` say those that it has none for."""
        staged = self.stage(table.to_batches(), table.schema, **defaults)
        return self.publish(writer, batch, [staged["stage"]])


def translated(error: Exception, where: str) -> LiorError:
    """The queue manager's error if it sent one; else what Flight made of it."""
    extra = getattr(error, "extra_info", b"")
    if extra:
        from lior.wire.admin_json import error_from_json  # with all that it knows: for errors only

        with suppress(LiorError, ValueError, KeyError, TypeError):
            return error_from_json(bulk.decode(bytes(extra), "error"))
    text = str(error).partition(". gRPC client")[0][:500]
    if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
        return AccessDenied(text, where=where, remedy="check credentialsFile")
    if isinstance(error, flight.FlightTimedOutError):
        return Timeout(text, where=where)
    return ServiceNotAvailable(text, where=where, remedy="is the queue manager up, and its bulk.port?")


def connect(address: str | os.PathLike[str], credentials_file: str = "", ca_file: str = "",
            patience: float = PATIENCE) -> Bulk:  # fmt: skip
    """`address` is a data directory on this computer, host or host:port."""
    return Bulk(os.fspath(address), credentials_file, ca_file, patience)
