"""A setting: its default, what it means and what it may be."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def setting(default: Any, text: str, low: float | None = None, high: float | None = None,
            choices: tuple[str, ...] = ()) -> Any:  # fmt: skip
    """A setting with what it means and what it may be."""
    about = {"text": text, "low": low, "high": high, "choices": choices}
    return field(default=default, metadata=about)


def port(default: int, text: str) -> Any:
    return setting(default, text, 0, 65535)
