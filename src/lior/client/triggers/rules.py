"""Triggers and their rules: what a message must be like, and what is done then. docs/triggers.md explains them."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Final
from urllib.parse import urlsplit

from lior.client.triggers.checking import (
    check_choice,
    check_seconds,
    check_text,
    check_texts,
    check_truth,
    check_whole,
    shown,
)
from lior.client.triggers.properties import Template
from lior.errors import BadConfiguration, LiorError
from lior.message import MAX_LABEL_LENGTH, MessageClass
from lior.names import DirectName, parse_format_name, parse_path_name
from lior.security import Sid

MODES: Final = ("peek", "receive", "transaction")
BODIES: Final = ("raw", "text")
METHODS: Final = ("POST", "PUT", "PATCH")
DEFAULT_TIMEOUT: Final = 60.0
LONGEST_TIMEOUT: Final = 86400.0
LONGEST_PATTERN: Final = 1000
LONGEST_URL: Final = 2000
LONGEST_TEXT: Final = 65536
MOST_ARGUMENTS: Final = 256
MOST_RULES: Final = 1000
MOST_CONCURRENT: Final = 64

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,23}")  # with "trigger-" it is a subqueue's name
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")  # RFC 9110 5.6.2
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_OURS: Final = ("host", "content-length", "transfer-encoding", "connection", "expect", "upgrade", "te", "trailer")


def check_name(where: str, name: object) -> None:
    check_text(where, name, LONGEST_TEXT)
    if not _NAME.fullmatch(str(name)):
        raise BadConfiguration(
            f"{shown(name)} is no name", where=where,
            remedy="1 to 24 letters, digits and -_. with a letter or digit first",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What a message must be like; every one that is given must hold. Text compares exactly, case included."""

    label_equals: str | None = None
    label_contains: str | None = None
    label_matches: str | None = None  # regular expression, found anywhere
    priority_min: int | None = None
    priority_max: int | None = None
    application_tag_equals: int | None = None
    body_contains: str | None = None
    body_matches: str | None = None
    message_class: str | int | None = None
    sender: str | None = None  # SID; a claim unless `authenticated` is asked for too
    authenticated: bool | None = None

    def __post_init__(self) -> None:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        for name, value in given.items():
            if name.endswith("_matches"):
                check_pattern(name, value)
            elif name.startswith("label_"):
                check_text(name, value, MAX_LABEL_LENGTH, empty=name == "label_equals")
            elif name == "body_contains":
                check_text(name, value, LONGEST_TEXT)
            elif name.startswith("priority_"):
                check_whole(name, value, 0, 7)
            elif name == "application_tag_equals":
                check_whole(name, value, 0, 0xFFFFFFFF)
            elif name == "authenticated":
                check_truth(name, value)
        self._check_class()
        self._check_sender()
        if self.priority_min is not None and self.priority_max is not None and self.priority_min > self.priority_max:
            raise BadConfiguration("it is above priority_max: no message is like that", where="priority_min")

    def _check_class(self) -> None:
        if isinstance(self.message_class, str):
            check_choice("message_class", self.message_class, MessageClass.__members__)
        elif self.message_class is not None:
            check_whole("message_class", self.message_class, 0, 0xFFFF)

    def _check_sender(self) -> None:
        if self.sender is None:
            return
        check_text("sender", self.sender, LONGEST_TEXT)
        try:
            Sid.parse(self.sender)
        except LiorError as error:
            raise BadConfiguration(error.what, where="sender", remedy=error.remedy) from None

    @cached_property
    def class_number(self) -> int | None:
        known = self.message_class
        return MessageClass[known].value if isinstance(known, str) else known

    @cached_property
    def sender_sid(self) -> str:
        return str(Sid.parse(self.sender)) if self.sender is not None else ""


def check_pattern(where: str, pattern: object) -> None:
    check_text(where, pattern, LONGEST_PATTERN)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(str(pattern))
    except (re.error, OverflowError, RecursionError) as error:
        raise BadConfiguration(
            f"{shown(pattern)} is no regular expression: {error}", where=where, remedy="see Python's re module"
        ) from None


@dataclass(frozen=True)
class Command:
    """A program to run, without a shell. The body is its standard input, the properties are LIOR_ variables."""

    arguments: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)
    directory: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.arguments, tuple) or not 1 <= len(self.arguments) <= MOST_ARGUMENTS:
            raise BadConfiguration(
                f"{shown(self.arguments)} is no list of 1 to {MOST_ARGUMENTS} texts", where="command",
                remedy='write the program and each argument: ["program", "--label", "{label}"]; there is no shell',
            )  # fmt: skip
        for number, argument in enumerate(self.arguments):
            check_text(f"command[{number}]", argument, LONGEST_TEXT, empty=number > 0)
        if not self.templates[0].is_literal:
            raise BadConfiguration(
                "the program depends on the message", where="command[0]",
                remedy="name the program; placeholders go into its arguments",
            )  # fmt: skip
        check_texts("environment", self.environment, MOST_ARGUMENTS, LONGEST_TEXT)
        for name in self.environment:
            if not _VARIABLE.fullmatch(name) or name.startswith("LIOR_"):
                raise BadConfiguration(
                    f"{shown(name)} cannot be set", where="environment",
                    remedy="letters, digits and _; LIOR_ is for the message's properties",
                )  # fmt: skip
        if self.directory is not None:
            check_text("directory", self.directory, LONGEST_TEXT)

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        return tuple(Template.parse(text, f"command[{number}]") for number, text in enumerate(self.arguments))

    @property
    def kind(self) -> str:
        return "command"


@dataclass(frozen=True)
class Http:
    """A request with the message's body; it succeeded when the answer is 200 to 299. Redirects are not followed."""

    url: str
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text("url", self.url, LONGEST_URL)
        check_choice("method", self.method, METHODS)
        self._check_url()
        check_texts("headers", self.headers, 100, 8192)
        for name, value in self.headers.items():
            if not _TOKEN.fullmatch(name) or name.lower() in _OURS or name.lower().startswith("x-lior-"):
                raise BadConfiguration(
                    f"{shown(name)} cannot be set", where="headers",
                    remedy=f"not {', '.join(_OURS)} or X-Lior-...; letters, digits and -",
                )  # fmt: skip
            if not value.isascii() or not (value.isprintable() or not value):
                raise BadConfiguration("it is not plain ASCII text on one line", where=f"headers.{name}")

    def _check_url(self) -> None:
        remedy = "write http://host:port/path or https://host/path"
        try:
            parts = urlsplit(self.url)
            port = parts.port
        except ValueError as error:
            raise BadConfiguration(f"{shown(self.url)}: {error}", where="url", remedy=remedy) from None
        if parts.username is not None or parts.password is not None:
            raise BadConfiguration(
                "it holds a user name or password, which logs would show", where="url",
                remedy='put them into headers: { Authorization = "..." }',
            )  # fmt: skip
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise BadConfiguration(f"{shown(self.url)} cannot be called", where="url", remedy=remedy)
        if parts.fragment or not re.fullmatch(r"[!#$%&'()*+,\-./:;=?@\[\]_~0-9A-Za-z]+", self.url):
            raise BadConfiguration(
                f"{shown(self.url)} has characters that are not for URLs", where="url",
                remedy="percent-encode them; a URL takes no placeholders, the properties are header fields",
            )  # fmt: skip

    @property
    def kind(self) -> str:
        return "http"


Action = Command | Http


@dataclass(frozen=True, kw_only=True)
class Rule:
    """When the conditions hold, the action is done; with `stop`, no later rule is looked at then. The action gets
    the body's bytes as they are ("raw"), or its text in UTF-8."""

    name: str
    action: Action
    when: Conditions = field(default_factory=Conditions)
    body: str = "raw"
    timeout: float = DEFAULT_TIMEOUT
    stop: bool = False

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_choice("body", self.body, BODIES)
        check_seconds("timeout", self.timeout, LONGEST_TIMEOUT)
        check_truth("stop", self.stop)


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """A queue, how its messages are taken, and the rules for them in order."""

    name: str
    queue: str
    rules: tuple[Rule, ...]
    mode: str = "peek"
    concurrency: int = 1
    enabled: bool = True
    retry_delay: float = 1.0  # seconds after a failure in mode transaction, doubled for each further one

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_text("queue", self.queue, LONGEST_TEXT)
        check_queue(self.queue)
        check_choice("mode", self.mode, MODES)
        check_whole("concurrency", self.concurrency, 1, MOST_CONCURRENT)
        check_truth("enabled", self.enabled)
        check_seconds("retry_delay", self.retry_delay, 3600.0)
        if not 1 <= len(self.rules) <= MOST_RULES:
            raise BadConfiguration(
                f"it has {len(self.rules)} rules", where="rule", remedy=f"write [[trigger.rule]], 1 to {MOST_RULES}"
            )
        check_distinct("rule", [rule.name for rule in self.rules])


def check_queue(text: str) -> None:
    """A path name or a direct format name: others have no subqueues to move messages into."""
    try:
        name = parse_format_name(text) if "=" in text else parse_path_name(text)
    except LiorError as error:
        remedy = error.remedy or r"write it like '.\private$\orders', in single quotes"
        raise BadConfiguration(f"{shown(text)}: {error.what}", where="queue", remedy=remedy) from None
    if "=" in text and not isinstance(name, DirectName):
        raise BadConfiguration(
            f"{shown(text)} is no direct format name", where="queue",
            remedy=r"use a path name like '.\private$\orders', or DIRECT=OS:host\queue",
        )  # fmt: skip


def check_distinct(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise BadConfiguration(f"two are named {name!r}", where=what, remedy="give each a name of its own")
        seen.add(name.casefold())
