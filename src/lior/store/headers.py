"""Many headers at once, as columns of what their fields hold.

Messages that came the same way have the same fields of the same lengths. So headers are put together by their length;
the first of them says where each field is, and one compiled structure takes all of them apart, a call for each. What
then shows another tag or length where one was expected begins a group of its own; what fits nowhere is left to
`record.decode`, which knows everything and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

from lior.store.record import VERSION

ROUNDS: Final = 16  # groups that headers of one length may fall into
_IDENTIFIER: Final = 19
NUMBER: Final = _IDENTIFIER << 8  # the second half of an identifier, as if it were a field
_NESTED: Final = 26  # a transaction is fields within a field
_LONG: Final = 255
_NUMBERS: Final = {  # tags of store/record.py whose values are numbers, and how they are stored
    2: "I", 4: "I", 6: "H", 7: "B", 8: "B", 9: "B", 10: "B", 11: "B", 12: "I", 13: "I", 20: "d", 21: "B", 23: "B",
    24: "B", 28: "I",
}  # fmt: skip
_NESTED_NUMBERS: Final = {2: "Q", 3: "I", 4: "I", 5: "I", 6: "B", 7: "B", 8: "B"}
_FLAGS: Final = frozenset({10, 11, 21, 24, 26 << 8 | 6, 26 << 8 | 7, 26 << 8 | 8})
_SIZES: Final = {5: 20, 19: 20, 22: 16, 40: 16, 41: 16, _NESTED << 8 | 1: 16, _NESTED << 8 | 9: 16}
_WIDTHS: Final = {"B": 1, "H": 2, "I": 4, "Q": 8, "d": 8}


class Group(NamedTuple):
    """Headers with the same fields."""

    rows: list[int]  # their places among all that were given
    checksums: Sequence[int]
    # By tag; fields within a transaction by 26 << 8 | tag. What is not here has its default in all of them.
    fields: dict[int, Sequence[Any]]

    def without(self, bad: set[int]) -> Group:
        """`bad` are places among all."""
        kept = [at for at, row in enumerate(self.rows) if row not in bad]
        return Group([self.rows[at] for at in kept], [self.checksums[at] for at in kept],
                     {tag: [values[at] for at in kept] for tag, values in self.fields.items()})  # fmt: skip


class _Shape(NamedTuple):
    unpack: Any
    expected: list[tuple[int, int]]  # (place among the values, value): tags and lengths
    places: dict[int, int]  # of values, by tag


def grouped(headers: Sequence[bytes]) -> tuple[list[Group], list[int]]:
    """Groups, and the places of headers that are in none."""
    by_length: dict[int, list[int]] = {}
    for at, header in enumerate(headers):
        by_length.setdefault(len(header), []).append(at)
    groups: list[Group] = []
    odd: list[int] = []
    for rows in by_length.values():
        for _ in range(ROUNDS):
            if not rows:
                break
            shape = _shape_of(headers[rows[0]])
            if shape is None:
                odd.append(rows.pop(0))
                continue
            group, rows = _split(shape, rows, headers)
            groups.append(group)  # it has the first row, at least
        odd += rows
    return groups, sorted(odd)


def _split(shape: _Shape, rows: list[int], headers: Sequence[bytes]) -> tuple[Group, list[int]]:
    columns: list[Sequence[Any]] = list(zip(*map(shape.unpack, [headers[row] for row in rows]), strict=True))
    others: set[int] = set()
    for place, value in shape.expected:
        column = columns[place]
        if column.count(value) != len(rows):
            others.update(rows[at] for at, found in enumerate(column) if found != value)
    for tag in _FLAGS & shape.places.keys():
        column = columns[shape.places[tag]]
        if max(column) > 1:
            others.update(rows[at] for at, found in enumerate(column) if found > 1)
    group = Group(rows, columns[1], {tag: columns[place] for tag, place in shape.places.items()})
    return (group.without(others), sorted(others)) if others else (group, [])


def _shape_of(header: bytes) -> _Shape | None:
    """None for a header that is damaged or of another version."""
    if len(header) < 5 or header[0] != VERSION:
        return None
    layout: list[str] = ["<BI"]
    expected: list[tuple[int, int]] = [(0, VERSION)]
    places: dict[int, int] = {}
    try:
        _walk(header, 5, len(header), 0, layout, expected, places)
        shape = _Shape(_compiled("".join(layout)), expected, places)
        values = shape.unpack(header)
    except (ValueError, IndexError, StructError):
        return None
    if any(values[places[tag]] > 1 for tag in _FLAGS & places.keys()):
        return None
    return shape


@lru_cache(maxsize=1024)
def _compiled(layout: str) -> Any:
    return Struct(layout).unpack


def _walk(header: bytes, at: int, end: int, within: int, layout: list[str], expected: list[tuple[int, int]],
          places: dict[int, int]) -> None:  # fmt: skip
    """The fields from `at` to `end`: each a tag and a length that must be the same, and a value."""
    last, count = -1, _count(layout)
    while at < end:
        tag, size = header[at], header[at + 1]
        if tag <= last:
            raise ValueError("tags ascend")
        last = tag
        expected.append((count, tag | size << 8))
        layout.append("H")
        count, at = count + 1, at + 2
        if size == _LONG:
            size = int.from_bytes(header[at : at + 4], "little")
            expected.append((count, size))
            layout.append("I")
            count, at = count + 1, at + 4
        if at + size > end:
            raise ValueError("a field ends behind its header")
        key = within | tag
        if key == _NESTED:
            places[key] = count - 1  # there is one: any value will do
            _walk(header, at, at + size, _NESTED << 8, layout, expected, places)
            count = _count(layout)
        elif key == _IDENTIFIER and size == 20:
            layout += "16s", "I"
            places[key], places[NUMBER] = count, count + 1
            count += 2
        else:
            layout.append(_code(key, size))
            places[key] = count
            count += 1
        at += size


def _count(layout: list[str]) -> int:
    """The values before this place."""
    return len(layout) + 1  # "<BI" are two


def _code(key: int, size: int) -> str:
    number = _NESTED_NUMBERS.get(key & 0xFF) if key >> 8 else _NUMBERS.get(key)
    wanted = _SIZES.get(key) if number is None else _WIDTHS[number]
    if wanted is not None and wanted != size:
        raise ValueError("a field of another length than its kind has")
    return number or f"{size}s"
