"""What a user sees of an error in Spark: what, where and remedy, in place of the stacks of two languages."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from lior.errors import (
    BadConfiguration,
    InvalidParameter,
    LiorError,
    ServiceNotAvailable,
    StoreUnusable,
    error_from_code,
)

LONGEST: Final = 300  # of what a stranger's error says
# An error of ours as the last lines of a traceback have it, from a worker or the driver's other half.
_OURS: Final = re.compile(r"lior\.errors\.\w+: (.*) \(\w+ 0x([0-9A-Fa-f]{8})\)(?:[ \t]*\r?\n\s*do: (.*))?")


class Known(NamedTuple):
    pattern: re.Pattern[str]  # its groups, if it has any: what, where
    kind: type[LiorError]
    what: str
    remedy: str


def _known(pattern: str, kind: type[LiorError], what: str, remedy: str) -> Known:
    return Known(re.compile(pattern), kind, what, remedy)


_SQL: Final = "UNRESOLVED_COLUMN|UNRESOLVED_ROUTINE|PARSE_SYNTAX_ERROR|DATATYPE_MISMATCH|TABLE_OR_VIEW_NOT_FOUND"
_STARTED: Final = "Spark did not start"
KNOWN: Final = (
    _known(r"\[PATH_NOT_FOUND\] Path does not exist: (?P<where>\S+?)\.? ", BadConfiguration, "there is nothing here",
           "check the path; `lior pipeline ingest` makes a lake"),
    _known(r"\[UNABLE_TO_INFER_SCHEMA\]", BadConfiguration, "there are no files of this format, or they are empty",
           "check the path and --format"),
    _known(rf"\[(?:{_SQL})[\w.]*\] (?P<what>[^\n]*)", InvalidParameter, "the condition or query is wrong",
           "correct --where or --sql"),
    _known(r"\[CONCURRENT_(?:STREAM_LOG_UPDATE|QUERY)\w*\]", BadConfiguration, "another run uses this checkpoint",
           "stop the other run, or name another --subscription and --checkpoint"),
    _known(r"(?:Mkdirs failed to create|mkdir of) (?:file:)?(?P<where>/\S+)", StoreUnusable,
           "the directory cannot be made", "make the directory above it writable for the user who runs Spark"),
    _known(r"(?P<where>/[^\s:]+)[^\n]{0,40}(?P<what>Permission denied|Read-only file system|No space left on device)",
           StoreUnusable, "it cannot be written", "make it writable for the user of Spark, or choose another path"),
    _known(r"(?P<what>No space left on device)", StoreUnusable, "", "free space on the disk, or set spark.local.dir"),
    _known(r"No module named '(?P<where>lior|pyspark_msmq\w*|pyarrow)\b", BadConfiguration,
           "Spark's own Python does not find this package",
           "install lior[spark] where driver and executors run, or set PYTHONPATH for both"),
    _known(r"\[DATA_SOURCE_NOT_FOUND\][^\n]*msmq", BadConfiguration, "Spark does not find the format msmq",
           "install lior[spark] where the driver runs, or set PYTHONPATH there"),
    _known(r"Python worker (?:failed to connect back|exited unexpectedly)", ServiceNotAvailable,
           "a Python worker of Spark did not start in time, or ended",
           "run it again when the machine is less busy; PYSPARK_PYTHON must name a Python with lior[spark]"),
    _known(r"All masters are unresponsive|Failed to connect to master (?P<where>\S+)", ServiceNotAvailable,
           "the Spark master does not answer", "check --master, and that the master is up"),
    _known(r"MASTER_URL|Could not parse Master URL: '?(?P<where>[^'\s]+)", BadConfiguration, "this is no Spark master",
           "use local[*], spark://host:7077, yarn, k8s://... or sc://host"),
    _known(r"UNAVAILABLE|failed to connect to all addresses", ServiceNotAvailable,
           "the server of Spark Connect does not answer", "check --master, and that the server is up"),
    _known(r"UnsupportedClassVersionError|class file version", BadConfiguration,
           f"{_STARTED}: this Java is too old for it", "apt-get install openjdk-17-jre-headless, or set JAVA_HOME"),
    _known(r"JAVA_GATEWAY_EXITED", BadConfiguration, _STARTED, "it needs Java 17 or newer; its own words are in {log}"),
    _known(r"OutOfMemoryError", BadConfiguration, "Spark has too little memory",
           'raise "spark.driver.memory" or "spark.executor.memory" under [spark] in the --config file'),
    _known(r"Answer from Java side is empty|Py4JNetworkError|Connection (?:refused|reset)|SparkContext was shut down",
           ServiceNotAvailable, "the process of Spark ended", "its last words are in {log}; run the command again"),
)  # fmt: skip


def explained(error: Exception, log: str = "") -> LiorError:
    """`log` is the file with what Spark printed."""
    if isinstance(error, LiorError):
        return error
    text = "\n".join(_texts(error))
    every = list(_OURS.finditer(text))
    if every:
        ours = every[-1]  # what came of the others
        return error_from_code(int(ours[2], 16), ours[1], remedy=(ours[3] or "").strip())
    place = log or "the log of Spark"
    for known in KNOWN:
        found = known.pattern.search(text)
        if found:
            groups = found.groupdict()
            what = groups.get("what") or known.what
            where = (groups.get("where") or "").removeprefix("file:")
            return known.kind(what[:LONGEST], where=where, remedy=known.remedy.format(log=place))
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return LiorError(first[:LONGEST], where="Spark", remedy=f"the rest is in {place}; with --verbose it is shown")


def _texts(error: BaseException) -> list[str]:
    """What it says, and what led to it."""
    found, seen = [], set[int]()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        found.append(f"{type(at).__name__}: {at} ")
        at = at.__cause__ or at.__context__
    return found
