"""JSON bodies: UTF-8, one form for each value, body type 0."""

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from lior.client.formatters.body_type import BodyType
from lior.client.formatters.text import document_text
from lior.errors import FormatterError

MAX_DEPTH: Final = 64
MAX_SIZE: Final = 0x00400000  # no body is larger
MAX_DIGITS: Final = 4300  # converting digits to an int takes quadratic time
# A string (also one without its end, so that the search stays linear), or a bracket.
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.S)


@dataclass(frozen=True, slots=True)
class JsonFormatter:
    """Objects, arrays, strings, numbers, booleans and null; keys are sorted, so equal values have equal bodies."""

    name: str = "json"

    def encode(self, value: object) -> tuple[bytes, int]:
        _check_value(value, 0)
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
            return text.encode(), int(BodyType.VT_EMPTY)
        except (ValueError, TypeError, RecursionError) as error:  # a UnicodeError is a ValueError
            raise FormatterError(f"no JSON form: {error}", where="json") from None

    def decode(self, body: bytes, body_type: int) -> object:
        text, _ = document_text(body, body_type, "json", MAX_SIZE)
        _check_depth(text)
        try:
            value: object = json.loads(
                text, parse_constant=_constant, parse_float=_float, parse_int=_int, object_pairs_hook=_object
            )
            if "\\ud" in text or "\\uD" in text:  # half a surrogate pair would fail later, far from its cause
                json.dumps(value, ensure_ascii=False).encode()
            return value
        except (ValueError, RecursionError) as error:
            raise FormatterError(f"the body is no JSON: {error}", where="json", remedy="use the 'bytes' formatter") \
                from None


def _check_value(value: object, depth: int) -> None:
    """Refuse what json.dumps would change without a word: keys that are no strings, and cycles by their depth."""
    if depth > MAX_DEPTH:
        raise FormatterError(f"nested deeper than {MAX_DEPTH} levels", where="json")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise FormatterError(f"a JSON key is a str, not {type(key).__name__}", where="json")
            _check_value(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_value(item, depth + 1)
    elif value is not None and not isinstance(value, str | int | float):
        raise FormatterError(
            f"{type(value).__name__} has no JSON form", where="json", remedy="convert it, a Decimal or date to str"
        )


def _check_depth(text: str) -> None:
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise FormatterError(f"nested deeper than {MAX_DEPTH} levels", where="json")
        elif token in "]}":
            depth -= 1


def _constant(name: str) -> NoReturn:
    raise FormatterError(f"{name} is no JSON", where="json")


def _int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise FormatterError(f"a number of {len(digits)} digits", where="json")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise FormatterError("a number is too large for a double", where="json")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise FormatterError("an object has the same key twice", where="json")
    return result
