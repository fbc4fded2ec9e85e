"""What `lior serve` can be told: a TOML file and `--set section.key=value`, read into frozen dataclasses.

docs/configuration.md lists every setting; tests compare it with the classes here. Durations are seconds,
sizes bytes, and a port of 0 is off.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints
from uuid import UUID

from lior.errors import BadConfiguration
from lior.protocols.binary.settings import SessionSettings
from lior.protocols.security.policy import SecurityPolicy
from lior.server.bulk.settings import BulkSection
from lior.server.fates import ALL, LEVELS
from lior.server.rpc.settings import RpcSection
from lior.server.setting import port, setting
from lior.store.fates import DAYS, MOST_ROWS

Routes = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ServerSection:
    """The queue manager and its data."""

    data: str = setting("", "Data directory, if the command line names none.")
    bind: tuple[str, ...] = setting(("127.0.0.1",), "Addresses to listen on, and the queue manager's own. "
                                    "`0.0.0.0` and `::` stand for all that the computer has.")  # fmt: skip
    name: str = setting("", "Computer name in path names; empty: the computer's own.")
    cache_bytes: int = setting(64 << 20, "Content of messages held in memory for readers who come soon.", 0)
    low_disk_bytes: int = setting(64 << 20, "New messages are refused while less is free on the disk.", 0)
    stop_timeout: float = setting(30.0, "How long a stop waits for calls under way.", 0)


@dataclass(frozen=True, slots=True)
class BinarySection:
    """The binary protocol between queue managers ([MS-MQQB])."""

    port: int = port(1801, "TCP port to listen on.")
    peer_port: int = setting(1801, "TCP port on which the other queue managers listen.", 1, 65535)
    max_sessions: int = setting(1024, "Most connections at a time.", 1)
    max_half_open: int = setting(64, "Most unfinished handshakes of one address at a time.", 1)
    connect_timeout: float = setting(30.0, "How long an attempt to connect may take.", 0.001)
    session: SessionSettings = field(default_factory=SessionSettings)  # whose settings are settings of the section


@dataclass(frozen=True, slots=True)
class PingSection:
    """The ping service of the binary protocol."""

    port: int = port(3527, "UDP port on which pings are answered.")
    before_connecting: bool = setting(False, "Ping another queue manager before connecting to it.")
    response_timeout: float = setting(1.0, "How long to wait for the answer to a ping.", 0.001)


@dataclass(frozen=True, slots=True)
class SrmpSection:
    """SOAP reliable messaging over HTTP and HTTPS ([MC-MQSRM])."""

    http_port: int = port(80, "TCP port for HTTP.")
    https_port: int = port(443, "TCP port for HTTPS. Without `srmp.certificate` there is none.")
    certificate: str = setting("", "PEM file with the server's certificate and those above it.")
    key: str = setting("", "PEM file with its private key; empty: it is in the same file.")
    client_ca_file: str = setting("", "PEM file with the authorities whose certificates HTTPS clients must show; "
                                  "empty: none is asked for.")  # fmt: skip
    ca_file: str = setting("", "PEM file with the authorities that the servers of others are believed by; empty: the "
                           "computer's.")  # fmt: skip
    max_body: int = setting(4 << 20, "Longest body that is taken.", 1)
    max_envelope: int = setting(256 << 10, "Longest SOAP envelope that is taken.", 1024)
    max_connections: int = setting(1024, "Most connections of others at a time.", 1)
    header_timeout: float = setting(30.0, "How long the header of a request may take to come in.", 0.001)
    body_timeout: float = setting(60.0, "How long its body may take.", 0.001)
    send_timeout: float = setting(20.0, "How long to wait for an answer.", 0.001)
    connect_timeout: float = setting(20.0, "How long an attempt to connect may take.", 0.001)
    pipeline: int = setting(64, "Most requests without an answer on one connection, to servers that say they take so "
                            "many; 1: one at a time.", 1, 1024)  # fmt: skip
    retransmission_timeout: float = setting(20.0, "After a failure, how long until the next attempt.", 0.001)
    session_cleanup: float = setting(300.0, "A connection that is idle for so long is closed.", 0.001)
    receipt_delay: float = setting(0.5, "How long a stream receipt waits for more messages to acknowledge.", 0)
    longest_receipt_delay: float = setting(10.0, "And at the longest.", 0)
    resend_short: float = setting(30.0, "How long a sent message of a stream waits for its receipt before it is sent "
                                  "again, the first three times.", 0.001)  # fmt: skip
    resend_medium: float = setting(300.0, "The same, the fourth to the sixth time.", 0.001)
    resend_long: float = setting(1800.0, "The same, the seventh to the ninth time.", 0.001)
    resend_final: float = setting(21600.0, "The same, from then on.", 0.001)
    text_form: bool = setting(False, "Write `<stream>`, `expiresAt` and zeros as the document's text says, not as its "
                              "examples, which existing queue managers made.")  # fmt: skip
    store_and_forward: bool = setting(False, "Take messages for other computers, and pass them on.")
    receipts_allowed: tuple[str, ...] = setting((), "URLs that receipts may be sent to, `*` at the end for anything; "
                                                "empty: wherever messages want them.")  # fmt: skip
    receipts_host: str = setting("", "Host, or host:port, under which others reach this server with receipts; empty: "
                                 "the address it listens on.")  # fmt: skip
    receipt_url: str = setting("", "URL to have stream receipts sent to; empty: this server's.")
    exempt: tuple[str, ...] = setting((), "URLs that are never redirected when sending; `*` at the end stands for "
                                      "anything.")  # fmt: skip


@dataclass(frozen=True, slots=True)
class MulticastSection:
    """Messages to and from multicast addresses, over PGM ([MC-MQSRM] 2.1.2). The raw socket that it needs is opened
    when a queue with a multicast address is there or a message to one is sent."""

    interface: str = setting("", "This computer's address on the network of the groups; empty: the first IPv4 address "
                             "of `server.bind`.")  # fmt: skip
    ttl: int = setting(16, "How many routers a packet passes.", 1, 255)
    rate: int = setting(70_000, "Octets a second that are sent to a group at the most.", 1500)
    window: float = setting(300.0, "How long what was sent can be repaired.", 1)
    mtu: int = setting(1500, "Longest IP packet.", 576, 65535)
    session_cleanup: float = setting(300.0, "After so long without a message a session ends.", 0.001)


@dataclass(frozen=True, slots=True)
class AdminSection:
    """The admin API: JSON over HTTP, for the command line, programs and monitoring."""

    port: int = port(15801, "TCP port. The Unix socket `admin.sock` in the data directory is always there.")
    bind: str = setting("", "Address; empty: the first of `server.bind` that is a loopback address, else 127.0.0.1.")
    token_file: str = setting("", "File with the token that TCP clients present; empty: `admin.token` in the data "
                              "directory, made at the first start.")  # fmt: skip
    open_paths: str = setting("loopback", "Who reads /healthz and /metrics without the token: `loopback` (on a "
                              "loopback address only), `everybody` or `nobody`.",
                              choices=("loopback", "everybody", "nobody"))  # fmt: skip
    hosts: tuple[str, ...] = setting((), "More names under which TCP clients may address the API (Host header).")
    max_request_bytes: int = setting(16 << 20, "Longest request, and longest frame of a client's session.", 1 << 16)
    max_sessions: int = setting(256, "Most client sessions at a time.", 1)
    max_calls: int = setting(1024, "Most calls of one session under way at a time.", 1)
    max_handles: int = setting(4096, "Most handles, cursors and transactions of one session.", 1)
    idle_timeout: float = setting(30.0, "A client that answers no ping for so long is gone.", 0.1)


@dataclass(frozen=True, slots=True)
class RecordSection:
    """What became of messages, for `lior trace`."""

    messages: str = setting(ALL, "Which messages are recorded: `all`, `failures` or `off`.", choices=LEVELS)
    days: float = setting(DAYS, "How long it is kept.", 0)
    max_rows: int = setting(MOST_ROWS, "Most steps of messages that are kept; the oldest go first.", 1)


@dataclass(frozen=True, slots=True)
class LogSection:
    """The log, on standard error."""

    level: str = setting("info", "Least severity: `debug`, `info`, `warning`, `error` or `critical`.",
                         choices=("debug", "info", "warning", "error", "critical"))  # fmt: skip
    format: str = setting("text", "`text` (key=value) or `json`.", choices=("text", "json"))
    fill_interval: float = setting(5.0, "How often quotas are compared with what is used, to warn at 80 % and 95 %.",
                                   0.01)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything; the sections of the file."""

    server: ServerSection = field(default_factory=ServerSection)
    binary: BinarySection = field(default_factory=BinarySection)
    ping: PingSection = field(default_factory=PingSection)
    srmp: SrmpSection = field(default_factory=SrmpSection)
    multicast: MulticastSection = field(default_factory=MulticastSection)
    admin: AdminSection = field(default_factory=AdminSection)
    rpc: RpcSection = field(default_factory=RpcSection)
    bulk: BulkSection = field(default_factory=BulkSection)
    record: RecordSection = field(default_factory=RecordSection)
    log: LogSection = field(default_factory=LogSection)
    security: SecurityPolicy = field(default_factory=SecurityPolicy)
    routes: Routes = field(default_factory=dict)  # next hops: host or queue manager GUID -> host or host:port
    trace_queues: Routes = field(default_factory=dict)  # GUID of a tracing queue -> its path name
    srmp_inbound: Routes = field(default_factory=dict)  # URL or URL* of arrivals -> URL of the queue they go to
    srmp_outbound: Routes = field(default_factory=dict)  # URL or URL* to send to -> URL to connect to
    srmp_receipts: Routes = field(default_factory=dict)  # URL or URL* to send to -> URL for its stream receipts


SECTIONS: Final[dict[str, Field[Any]]] = {each.name: each for each in fields(Settings)}
TABLES: Final = frozenset(  # sections whose keys are the user's
    {"routes", "trace_queues", "srmp_inbound", "srmp_outbound", "srmp_receipts"}
)
ELSEWHERE: Final = frozenset(  # told in other sections, or for developers
    {"send_pings", "answer_pings", "ping_response", "receive_keys", "send_keys", "key_age", "certificates",
     "certificate_age", "digest_form", "signature_order"}
)  # fmt: skip


def load(file: str | Path | None = None, assignments: Iterable[str] = ()) -> Settings:
    """The defaults, then the file, then the assignments `section.key=value`."""
    settings = Settings()
    if file is not None:
        settings = merged(settings, read(file), str(file))
    for assignment in assignments:
        settings = merged(settings, parsed(assignment), f"--set {assignment}")
    return settings


def read(file: str | Path) -> dict[str, Any]:
    try:
        with Path(file).open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise BadConfiguration(error.strerror or str(error), where=str(file),
                               remedy="give the right file with --config") from error
    except ValueError as error:  # of TOML or of UTF-8
        raise BadConfiguration(f"not TOML: {error}", where=str(file),
                               remedy="see docs/configuration.md for an example") from error


def parsed(assignment: str) -> dict[str, Any]:
    """`section.key=value`; the value as in TOML, or else plain text."""
    name, equals, text = assignment.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and section and key):
        raise BadConfiguration("this is no assignment", where=f"--set {assignment}",
                               remedy="write --set section.key=value, for example --set log.level=debug")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        value = text
    return {section: {key: value}}


def merged(settings: Settings, given: Mapping[str, Any], where: str) -> Settings:
    for name, values in given.items():
        if name not in SECTIONS:
            raise unknown(name, SECTIONS, where, "section")
        if not isinstance(values, Mapping):
            raise BadConfiguration(f"{name} is a section", where=where, remedy=f"write [{name}] and its settings")
        known = getattr(settings, name)
        new = {**known, **table(name, values, where)} if name in TABLES else section(known, name, values, where)
        changes: dict[str, Any] = {name: new}
        settings = replace(settings, **changes)
    return settings


def settable(known: Any) -> dict[str, Field[Any]]:
    """The settings of a section, those of a class inside it included."""
    found: dict[str, Field[Any]] = {}
    for each in fields(known):
        if is_dataclass(getattr(known, each.name)):
            found |= settable(getattr(known, each.name))
        elif each.name not in ELSEWHERE:
            found[each.name] = each
    return found


def section(known: Any, name: str, given: Mapping[str, Any], where: str) -> Any:
    allowed = settable(known)
    for key in given:
        if key not in allowed:
            raise unknown(key, allowed, f"{where}, section [{name}]", "setting")
    return changed(known, name, given, where)


def changed(known: Any, name: str, given: Mapping[str, Any], where: str) -> Any:
    hints = get_type_hints(type(known))
    values: dict[str, Any] = {}
    for each in fields(known):
        inner = getattr(known, each.name)
        if is_dataclass(inner) and set(given) & set(settable(inner)):
            values[each.name] = changed(inner, name, given, where)
        elif each.name in given:
            values[each.name] = checked(given[each.name], hints[each.name], each, f"{where}: {name}.{each.name}")
    if "bind" in values:
        check_addresses(values["bind"], f"{where}: {name}.bind")
    try:
        return replace(known, **values)
    except BadConfiguration as error:  # two settings that do not go together, or one out of its range
        raise BadConfiguration(error.what, where=f"{where}, section [{name}]", remedy=error.remedy) from None


def checked(value: Any, kind: Any, about: Field[Any], where: str) -> Any:
    value = converted(value, kind, where)
    low, high = about.metadata.get("low"), about.metadata.get("high")
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"from {low} to {high}" if high is not None else f"of at least {low}"
        raise BadConfiguration(f"{value} is out of range", where=where, remedy=f"use a value {bounds}")
    choices = about.metadata.get("choices")
    if choices and value not in choices:
        raise BadConfiguration(f"{value!r} is none of {', '.join(choices)}", where=where, remedy="use one of these")
    return value


def converted(value: Any, kind: Any, where: str) -> Any:
    if get_origin(kind) is tuple:
        values = [value] if isinstance(value, str) else value
        if isinstance(values, list) and all(isinstance(each, get_args(kind)[0]) for each in values):
            return tuple(values)
    elif kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    elif isinstance(value, kind) and not (kind is int and isinstance(value, bool)) and value == value:
        return value
    raise BadConfiguration(f"{value!r} is no {kind_name(kind)}", where=where, remedy="see docs/configuration.md")


def kind_name(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return "list of strings"
    return {int: "whole number", float: "number", bool: "true or false", str: "string"}[kind]


def check_addresses(given: str | tuple[str, ...], where: str) -> None:
    for address in (given,) if isinstance(given, str) else given:
        if not address and isinstance(given, str):
            continue
        try:
            ip_address(address)
        except ValueError:
            raise BadConfiguration(f"{address!r} is no IP address", where=where,
                                   remedy="give the address itself, such as 192.0.2.1, :: or 127.0.0.2") from None


def table(name: str, given: Mapping[str, Any], where: str) -> dict[str, str]:
    found = {}
    for key, value in flat(given).items():
        if not isinstance(value, str) or not value or not key:
            raise BadConfiguration(f"{value!r} is no address", where=f"{where}: {name}.{key}",
                                   remedy=f'write "{key}" = "host" or "host:port"')
        found[guid_or_host(key)] = value
    return found


def flat(given: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """TOML reads host.example.org = "x" without quotes as tables in tables."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{key}.")
        else:
            found[before + key.strip('"')] = value
    return found


def guid_or_host(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        return text.casefold()


def unknown(name: str, known: Iterable[str], where: str, what: str) -> BadConfiguration:
    near = get_close_matches(name, list(known), 1, 0.5)
    remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
    return BadConfiguration(f"there is no {what} {name}", where=where, remedy=remedy)

