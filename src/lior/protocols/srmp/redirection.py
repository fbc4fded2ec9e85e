"""Redirections of URLs, an administrator's ([MC-MQSRM] 3.1.1.1.9, 3.1.1.1.10)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

ANYTHING: Final = "*"  # at the end of a pattern; anywhere else it is a character like others


def folded(url: str) -> str:
    """A URL as it compares: no case, `\\` like `/`, its default port left out."""
    url = url.replace("\\", "/").casefold()
    try:
        parts = urlsplit(url)
        default = {"http": 80, "https": 443}.get(parts.scheme)
        if parts.port is not None and parts.port == default:
            url = url.replace(f":{default}", "", 1)
    except ValueError:  # a pattern may be less than a URL
        pass
    return url


def matches(pattern: str, url: str) -> bool:
    wanted, given = folded(pattern), folded(url)
    return given.startswith(wanted[:-1]) if wanted.endswith(ANYTHING) else given == wanted


@dataclass(frozen=True, slots=True)
class Redirection:
    source: str  # From
    target: str  # To


class Redirections:
    """The first that matches, in the order in which they were given; none for an exempt URL."""

    def __init__(self, entries: Iterable[Redirection] = (), exempt: Iterable[str] = ()) -> None:
        self._entries = tuple(entries)
        self._exempt = tuple(exempt)

    def target(self, url: str) -> str | None:
        if any(matches(pattern, url) for pattern in self._exempt):
            return None
        return next((entry.target for entry in self._entries if matches(entry.source, url)), None)
