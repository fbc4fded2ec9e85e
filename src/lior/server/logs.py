"""The log: one line an event on standard error, `key=value` or JSON.

Code that logs gives the event as the message and what belongs to it as `extra={"fields": {...}}`; a line about a
message has its identifier as `message`. Under journald each line starts with its priority.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final

from lior.errors import LiorError
from lior.server.config import LogSection

_BARE: Final = re.compile(r"[\w./:@;,+*{}\\$\[\]()-]+")  # stands without quotes
_PRIORITIES: Final = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


class LineFormatter(logging.Formatter):
    """A record as one line, whatever is in it."""

    def __init__(self, *, as_json: bool, journal: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        data = self._fields(record)
        if self._as_json:
            line = json.dumps(data, default=str)
        else:
            line = " ".join(f"{name}={_quoted(value)}" for name, value in data.items())
        return f"<{_priority(record.levelno)}>{line}" if self._journal else line

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        data: dict[str, Any] = {}
        if not self._journal:  # which has the time itself
            data["time"] = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        data["level"] = record.levelname.lower()
        data["part"] = record.name.removeprefix("lior.")
        data["event"] = record.getMessage()
        data.update(getattr(record, "fields", {}))
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, LiorError):
            data["error"] = str(error)
        elif record.exc_info:
            data["error"] = self.formatException(record.exc_info)
        return data


def _quoted(value: Any) -> str:
    text = str(value)
    return text if _BARE.fullmatch(text) and text.isascii() else json.dumps(text, ensure_ascii=False)


def _priority(level: int) -> int:
    return next((priority for least, priority in _PRIORITIES if level >= least), 7)


def start_logging(settings: LogSection) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(as_json=settings.format == "json", journal="JOURNAL_STREAM" in os.environ))
    logging.raiseExceptions = False  # nobody reads standard error any more: go on
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("lior").setLevel(settings.level.upper())
