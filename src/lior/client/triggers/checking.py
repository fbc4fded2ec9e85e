"""Checks of what a triggers file says; each failure is a BadConfiguration that names the place and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from lior.errors import BadConfiguration

SHOWN: Final = 60  # characters of a wrong value that an error repeats


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def nearest(word: str, known: Iterable[str]) -> str:
    """A remedy that names the word that was probably meant, and all that there are."""
    words = list(known)
    folded = {each.lower(): each for each in words}
    near = difflib.get_close_matches(word[:SHOWN].lower(), folded, n=1, cutoff=0.5)
    choice = f"did you mean {folded[near[0]]!r}? " if near else ""
    return f"{choice}There are {', '.join(words)}"


def check_choice(where: str, value: object, known: Iterable[str]) -> None:
    words = list(known)
    if value not in words:
        raise BadConfiguration(f"{shown(value)} is no value for it", where=where, remedy=nearest(str(value), words))


def check_text(where: str, value: object, longest: int, *, empty: bool = False) -> None:
    if not isinstance(value, str):
        raise BadConfiguration(f"{shown(value)} is no text", where=where, remedy='write it in quotes: "..."')
    if not value and not empty:
        raise BadConfiguration("it is empty", where=where, remedy="give it a value, or leave it out")
    if len(value) > longest:
        raise BadConfiguration(f"{len(value)} characters are too many", where=where, remedy=f"at most {longest}")
    if "\0" in value:
        raise BadConfiguration("it holds a NUL character", where=where, remedy="take it out")


def check_whole(where: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadConfiguration(f"{shown(value)} is no whole number from {least} to {most}", where=where)


def check_seconds(where: str, value: object, most: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= most:
        raise BadConfiguration(f"{shown(value)} is no number of seconds above 0, at most {most:g}", where=where)


def check_truth(where: str, value: object) -> None:
    if not isinstance(value, bool):
        raise BadConfiguration(f"{shown(value)} is neither true nor false", where=where)


def check_texts(where: str, value: object, most: int, longest: int) -> None:
    """A table of texts: header fields, environment variables."""
    if not isinstance(value, dict):
        raise BadConfiguration(f"{shown(value)} is no table", where=where, remedy='write { NAME = "value" }')
    if len(value) > most:
        raise BadConfiguration(f"{len(value)} entries are too many", where=where, remedy=f"at most {most}")
    for name, text in value.items():
        check_text(f"{where}.{name[:SHOWN]}", text, longest, empty=True)
