"""`lior pipeline samples`: synthetic traffic, so that every job can be tried in a minute. The same seed gives the same
messages. It needs no Spark."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa

import lior
from lior.client.bulk import Bulk
from lior.errors import QueueExists
from lior.spark.jobs.checking import check_server
from lior.spark.jobs.result import Result

QUEUES: Final = ("orders", "payments", "shipments")
CHUNK: Final = 5000
_SCHEMA: Final = pa.schema([("destination", pa.string()), ("body", pa.binary()), ("label", pa.string()),
                            ("priority", pa.int8()), ("app_tag", pa.int64())])  # fmt: skip


@dataclass(frozen=True)
class Samples:
    address: str
    messages: int = 10_000
    seed: int = 1
    queues: tuple[str, ...] = QUEUES
    size: int = 300  # of a body, about
    credentials_file: str = ""
    ca_file: str = ""
    journal: bool = False


def check(config: Samples, here: bool) -> None:
    check_server(config.address, (), config.credentials_file, config.ca_file)


def rows(config: Samples) -> Iterator[dict[str, Any]]:
    """Orders are many and small, priorities mixed, and one body in a hundred is large."""
    chance = random.Random(config.seed)
    for number in range(config.messages):
        queue = chance.choices(config.queues, weights=range(len(config.queues), 0, -1))[0]
        size = config.size * (20 if chance.random() < 0.01 else 1)
        said = {"number": number, "customer": chance.randrange(500), "amount": round(chance.expovariate(0.02), 2)}
        text = json.dumps(said)
        body = text + " " * max(0, chance.randrange(size // 2, size * 3 // 2) - len(text))
        yield {"destination": f"private$\\{queue}", "body": body.encode(), "label": f"{queue} {number}",
               "priority": chance.choice((0, 3, 3, 3, 3, 7)), "app_tag": number}  # fmt: skip


def run(spark: object, config: Samples) -> Result:
    """`spark` is not used: it is here because every job has it."""
    started = time.monotonic()
    with lior.connect(config.address) as manager:
        for name in config.queues:
            with suppress(QueueExists):
                manager.create_queue(f".\\private$\\{name}", journal=config.journal)
    writer, batches, sent = f"samples-{uuid4()}", 0, 0
    with Bulk(config.address, config.credentials_file, config.ca_file) as bulk:
        chunk: list[dict[str, Any]] = []
        for row in rows(config):
            chunk.append(row)
            if len(chunk) == CHUNK:
                sent += bulk.write(pa.Table.from_pylist(chunk, _SCHEMA), writer=writer, batch=batches)
                batches, chunk = batches + 1, []
        if chunk:
            sent += bulk.write(pa.Table.from_pylist(chunk, _SCHEMA), writer=writer, batch=batches)
            batches += 1
    return Result("samples", sent, batches, time.monotonic() - started, details={"seed": config.seed})
