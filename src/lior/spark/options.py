"""Options of the source and the sink, read into frozen dataclasses. An option that nobody knows is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final, Self

from lior.client import bulk_names as bulk
from lior.errors import BadConfiguration

SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname", "outputmode", "__default__"})
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True)
class _Options:
    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Names in any case, as Spark hands them over."""
        known = {camel(each.name).casefold(): each for each in fields(cls)}
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name.casefold() in SPARKS_OWN:
                continue
            each = known.get(name.casefold())
            if each is None:
                raise unknown(name, (camel(field.name) for field in fields(cls)))
            values[each.name] = converted(camel(each.name), str(text), str(each.type))
        options = cls(**values)
        options.check()
        return options

    def check(self) -> None:
        raise NotImplementedError


@dataclass(frozen=True)
class ReadOptions(_Options):
    address: str = ""
    queue: str = ""
    queues: str = ""
    subscription: str = ""
    read_mode: str = "claim"
    starting_position: str = "resume"
    max_messages_per_trigger: int = 100_000
    max_bytes_per_trigger: int = 256 << 20
    min_messages_per_trigger: int = 0
    max_trigger_delay: float = 60.0
    min_partitions: int = 1
    max_bytes_per_partition: int = 64 << 20
    columns: str = ""
    include_raw: bool = False
    files_to: str = ""  # tasks write their messages there, and the rows of the stream say where
    mode: str = "PERMISSIVE"
    push_down_predicate: bool = False
    fail_on_data_loss: bool = True
    claim_timeout: float = 0.0
    fetch_timeout: float = 60.0
    credentials_file: str = ""
    ca_file: str = ""
    broker: str = "flight"

    def check(self) -> None:
        if not self.address:
            raise missing("address", "the data directory or host:port of a queue manager")
        if bool(self.queue) == bool(self.queues):
            raise BadConfiguration("give one of the options queue and queues", where="queue",
                                   remedy=r'for example .option("queue", r"private$\orders")')
        one_of("readMode", self.read_mode, ("claim", "peek"))
        one_of("startingPosition", self.starting_position, ("resume", "takeover"))
        one_of("mode", self.mode, ("PERMISSIVE", "FAILFAST", "DROPMALFORMED"))
        one_of("broker", self.broker, ("flight", "subqueue"))
        for name in ("max_messages_per_trigger", "max_bytes_per_trigger", "min_partitions", "max_bytes_per_partition"):
            positive(name, getattr(self, name))

    @property
    def queue_names(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in (self.queue or self.queues).split(",") if name.strip())

    @property
    def column_names(self) -> tuple[str, ...]:
        wanted = [name.strip() for name in self.columns.split(",") if name.strip()]
        names = list(bulk.checked_columns(wanted))
        if self.include_raw and "raw" not in names:
            names.append("raw")
        return tuple(names)


@dataclass(frozen=True)
class WriteOptions(_Options):
    address: str = ""
    queue: str = ""
    writer_id: str = ""
    delivery: str = "recoverable"
    priority: int = 3
    label: str = ""
    time_to_reach_queue: int = -1
    time_to_be_received: int = -1
    journal: bool = False
    dead_letter: bool = True
    admin_queue: str = ""
    acknowledge: int = 0
    response_queue: str = ""
    batch_bytes: int = 4 << 20
    credentials_file: str = ""
    ca_file: str = ""
    broker: str = "flight"

    def check(self) -> None:
        if not self.address:
            raise missing("address", "the data directory or host:port of a queue manager")
        one_of("delivery", self.delivery, ("express", "recoverable", "transactional"))
        one_of("broker", self.broker, ("flight",))
        if not 0 <= self.priority <= 7:
            raise BadConfiguration(f"{self.priority} is no priority", where="priority", remedy="use 0 to 7")

    def defaults(self) -> dict[str, Any]:
        """What a row says that has no column for it."""
        journal = (bulk.JOURNAL_DEAD_LETTER if self.dead_letter else 0) | (bulk.JOURNAL_COPY if self.journal else 0)
        found: dict[str, Any] = {
            "destination": self.queue or None,
            "delivery_mode": 0 if self.delivery == "express" else 1,
            "transactional": self.delivery == "transactional",
            "priority": self.priority,
            "label": self.label or None,
            "journal": journal,
            "acknowledge": self.acknowledge,
            "admin_queue": self.admin_queue or None,
            "response_queue": self.response_queue or None,
            "time_to_reach_queue": self.time_to_reach_queue if self.time_to_reach_queue >= 0 else None,
            "time_to_be_received": self.time_to_be_received if self.time_to_be_received >= 0 else None,
        }
        return {name: value for name, value in found.items() if value is not None}


def converted(name: str, text: str, kind: str) -> Any:
    try:
        if kind == "int":
            return int(duration(text)) if name.startswith("timeTo") else size(text)
        if kind == "float":
            return duration(text)
        if kind == "bool":
            if text.casefold() not in (*_TRUE, *_FALSE):
                raise ValueError
            return text.casefold() in _TRUE
    except ValueError:
        what = {"int": "whole number", "float": "number of seconds", "bool": "true or false"}[kind]
        raise BadConfiguration(f"{text!r:.60} is no {what}", where=name, remedy="correct the option") from None
    return text.upper() if name == "mode" else text


def size(text: str) -> int:
    """`64m` is 64 MiB."""
    units = {"k": 10, "m": 20, "g": 30}
    text = text.strip().casefold()
    return int(text[:-1]) << units[text[-1]] if text[-1:] in units else int(text)


def duration(text: str) -> float:
    """`15m` is 900 seconds; a number alone is seconds."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    text = text.strip().casefold()
    return float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)


def unknown(name: str, known: Iterable[str]) -> BadConfiguration:
    names = {each.casefold(): each for each in known}
    near = get_close_matches(name.casefold(), list(names), 1, 0.5)
    remedy = f"did you mean {names[near[0]]}?" if near else f"there are {', '.join(sorted(names.values()))}"
    return BadConfiguration(f"there is no option {name}", where="msmq", remedy=remedy)


def missing(name: str, what: str) -> BadConfiguration:
    return BadConfiguration(f"the option {name} is missing", where="msmq", remedy=f"give {what}")


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise BadConfiguration(f"{value!r:.60} is no {name}", where=name, remedy=f"use {', '.join(choices)}")


def positive(name: str, value: int) -> None:
    if value < 1:
        raise BadConfiguration(f"{value} is too little", where=camel(name), remedy="use 1 or more")
