"""Reads the rows of an SQLite file that SQLite itself may refuse to open, page by page.

From the published file format: pages, cells, records, overflow chains, the pointer map and the write-ahead log.
Nothing here trusts a number before checking it against the file; whether a row is right is for its checksums,
which `salvage` knows.
"""

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from struct import Struct, error, unpack
from typing import BinaryIO, Final, NamedTuple

INDEX_INTERIOR, TABLE_LEAF, INDEX_LEAF = 0x02, 0x0D, 0x0A
FREE_PAGE, OVERFLOW_KINDS = 2, (3, 4)  # pointer map entries
_MAX_PAYLOAD: Final = 1 << 30  # SQLite's own bound of a row
_LOG_HEADER: Final = Struct(">IIIIIIII")
_FRAME_HEADER: Final = Struct(">IIIIII")

Value = int | float | str | bytes | None


class Cell(NamedTuple):
    """One row as found. `values` is None when the record cannot be read; `live` is False for a page that
    may be free, or that comes from a part of the log that was never in force: such a row may be an old one."""

    page: int
    rowid: int
    table: bool
    values: list[Value] | None
    raw: bytes
    live: bool
    problem: str = ""


class Damage(ValueError):
    """What stopped the reading of one cell or page."""


class PageFile:
    """A store file with its write-ahead log laid over it. Only for files that no SQLite connection of this
    process has open (a close here would drop SQLite's locks)."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb")
        self._log: BinaryIO | None = None
        self.problems: list[str] = []
        try:
            self._read_header()
            self._frames: dict[int, int] = {}  # page number: offset of its newest committed version in the log
            self.late_frames: list[tuple[int, int]] = []  # beyond a damaged frame
            log = path.with_name(path.name + "-wal")
            if log.exists() and log.stat().st_size > _LOG_HEADER.size:
                self._log = log.open("rb")
                self._read_log(self._log)
            self._free = self._free_pages()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()
        if self._log is not None:
            self._log.close()

    def _read_header(self) -> None:
        head = self._file.read(100)
        size = os.fstat(self._file.fileno()).st_size
        page_size = int.from_bytes(head[16:18], "big")
        page_size = 65536 if page_size == 1 else page_size
        if page_size not in (512 << shift for shift in range(8)) or not head.startswith(b"SQLite format 3\0"):
            self.problems.append("the file header is damaged; taking a page size of 4096")
            page_size = 4096
        self.page_size = page_size
        reserved = head[20] if len(head) > 20 and head[20] <= 32 else 0
        self.usable = page_size - reserved
        self.pages = -(-size // page_size)
        said = int.from_bytes(head[28:32], "big")
        if said > self.pages and not self.problems:
            self.problems.append(f"the file is cut off: {self.pages} of {said} pages are left")

    def _read_log(self, log: BinaryIO) -> None:
        head = log.read(_LOG_HEADER.size)
        magic, _, page_size, _, salt_1, salt_2, *_ = _LOG_HEADER.unpack(head)
        if magic & ~1 != 0x377F0682 or page_size != self.page_size:
            self.problems.append("the header of the write-ahead log is damaged")
            return
        words = Struct(("<" if magic == 0x377F0682 else ">") + f"{(8 + page_size) // 4}I")
        sums = _checksum(Struct(words.format[:1] + "6I").unpack(head[:24]), (0, 0))
        if sums != _LOG_HEADER.unpack(head)[6:]:
            self.problems.append("the header of the write-ahead log is damaged")
            return
        pending: dict[int, int] = {}
        broken, at = False, _LOG_HEADER.size
        while len(frame := log.read(_FRAME_HEADER.size + page_size)) == _FRAME_HEADER.size + page_size:
            page, commit, salt_a, salt_b, sum_1, sum_2 = _FRAME_HEADER.unpack_from(frame)
            place, at = at + _FRAME_HEADER.size, at + len(frame)
            if (salt_a, salt_b) != (salt_1, salt_2):
                if not broken:  # the rest is from before the log last started over
                    break
                continue
            sums = sums if broken else _checksum(words.unpack(frame[:8] + frame[24:]), sums)
            if broken or sums != (sum_1, sum_2):
                broken = True
                self.late_frames.append((page, place))
                continue
            pending[page] = place
            if commit:
                self._frames |= pending
                self.pages, pending = commit, {}
        if len(self.late_frames) > 1:
            self.problems.append(f"the write-ahead log is damaged {len(self.late_frames)} frames before its end")

    def page(self, number: int) -> bytes:
        """One page as last committed; shorter, or empty, beyond the end of the file."""
        if self._log is not None and number in self._frames:
            self._log.seek(self._frames[number])
            return self._log.read(self.page_size)
        self._file.seek((number - 1) * self.page_size)
        return self._file.read(self.page_size)

    # Which pages are free

    def pointer_kind(self, number: int) -> int:
        """What the pointer map says a page is: 1 root, 2 free, 3 and 4 overflow, 5 other tree page; 0 unknown."""
        per_map = self.usable // 5
        place = 2 + (number - 2) // (per_map + 1) * (per_map + 1)
        if number <= 2 or number == place:
            return 0
        at = (number - place - 1) * 5
        data = self.page(place)
        return data[at] if at < len(data) and data[at] <= 5 else 0

    def _free_pages(self) -> set[int]:
        """The free list, as far as it can be followed."""
        free: set[int] = set()
        head = self.page(1)
        trunk = int.from_bytes(head[32:36], "big")
        while 1 < trunk <= self.pages and trunk not in free:
            free.add(trunk)
            data = self.page(trunk)
            count = int.from_bytes(data[4:8], "big")
            if count > self.usable // 4 - 2 or len(data) < 8 + 4 * count:
                break
            free.update(unpack(f">{count}I", data[8:8 + 4 * count]))
            trunk = int.from_bytes(data[:4], "big")
        return free

    def is_live(self, number: int) -> bool | None:
        """None when the free list and the pointer map disagree, so that one of them is damaged."""
        listed, mapped = number in self._free, self.pointer_kind(number) == FREE_PAGE
        return None if listed != mapped else not listed

    # Rows

    def cells(self) -> Iterator[Cell]:
        """Every row of every tree page, those of doubtful pages last."""
        doubtful = []
        for number in range(1, self.pages + 1):
            if number == 2 or self.pointer_kind(number) in OVERFLOW_KINDS:
                continue
            live, page = self.is_live(number), self.page(number)
            if live and self._is_sound(page, 100 if number == 1 else 0):
                yield from self._cells_of(number, page, True)
            elif live is not False:
                doubtful.append(number)
        for number in doubtful:
            yield from self._cells_of(number, self.page(number), False)
            if self.is_live(number):
                yield Cell(number, 0, False, None, self.page(number), True, "the page's cells do not fill it")
        for number, place in self.late_frames:
            if self._log is not None:
                self._log.seek(place)
                yield from self._cells_of(number, self._log.read(self.page_size), False)

    def _is_sound(self, page: bytes, start: int) -> bool:
        """Whether cells, free blocks and fragments of a tree page fill it exactly: else a changed cell count or
        pointer may show a row that was deleted. True for pages that are no tree pages."""
        kind = page[start] if len(page) == self.page_size else -1
        if kind not in (TABLE_LEAF, INDEX_LEAF, INDEX_INTERIOR):
            return True
        free, count, content = unpack(">HHH", page[start + 1:start + 7])
        content = content or 65536
        first = start + (12 if kind == INDEX_INTERIOR else 8)
        if first + 2 * count > content or content > self.usable:
            return False
        extents = []
        try:
            for at in unpack(f">{count}H", page[first:first + 2 * count]):
                extents.append((at, at + max(4, self._extent(page, at, kind))))
            while free:
                following, size = unpack(">HH", page[free:free + 4])
                extents.append((free, free + size))
                if following and following < free + size:
                    return False
                free = following
        except (Damage, IndexError, error):
            return False
        extents.sort()
        apart = all(before[1] <= after[0] for before, after in pairwise(extents))
        covered = sum(stop - begin for begin, stop in extents) + page[start + 7]
        return apart and covered == self.usable - content and (not extents or extents[-1][1] <= self.usable)

    def _extent(self, page: bytes, at: int, kind: int) -> int:
        """How many bytes of the page a cell takes."""
        start = at
        if kind == INDEX_INTERIOR:
            at += 4
        size, at = _varint(page, at)
        if kind == TABLE_LEAF:
            _, at = _varint(page, at)
        local = self._local(size, kind == TABLE_LEAF)
        return at - start + local + (4 if local < size else 0)

    def _cells_of(self, number: int, page: bytes, live: bool) -> Iterator[Cell]:
        start = 100 if number == 1 else 0
        kind = page[start] if len(page) > start + 8 else -1
        if kind not in (TABLE_LEAF, INDEX_LEAF, INDEX_INTERIOR):
            if live and kind not in (-1, 0x05) and self.pointer_kind(number) in (1, 5):
                yield Cell(number, 0, False, None, page, True, f"a tree page of kind {kind}")
            elif live and len(page) < self.page_size:
                yield Cell(number, 0, False, None, page, True, "the page is cut off")
            return
        count = int.from_bytes(page[start + 3:start + 5], "big")
        first = start + (12 if kind == INDEX_INTERIOR else 8)
        if first + 2 * count > self.usable or len(page) < self.usable:
            yield Cell(number, 0, kind == TABLE_LEAF, None, page, live, f"a tree page of {count} cells")
            return
        for at in unpack(f">{count}H", page[first:first + 2 * count]):
            yield self._cell(number, page, at, kind, live)

    def _cell(self, number: int, page: bytes, at: int, kind: int, live: bool) -> Cell:
        rowid, payload = 0, b""
        try:
            if kind == INDEX_INTERIOR:
                at += 4
            size, at = _varint(page, at)
            if kind == TABLE_LEAF:
                rowid, at = _varint(page, at)
            payload, whole = self._payload(page, at, size, kind == TABLE_LEAF)
            if not whole:
                raise Damage("its overflow pages are cut off")
            return Cell(number, _signed(rowid), kind == TABLE_LEAF, _record(payload), payload, live)
        except (Damage, IndexError, error, UnicodeDecodeError) as found:
            return Cell(number, _signed(rowid), kind == TABLE_LEAF, None, payload, live, str(found))

    def _local(self, size: int, table: bool) -> int:
        """How much of a payload its own page holds."""
        limit = self.usable - 35 if table else (self.usable - 12) * 64 // 255 - 23
        if size <= limit:
            return size
        least = (self.usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (self.usable - 4)
        return local if local <= limit else least

    def _payload(self, page: bytes, at: int, size: int, table: bool) -> tuple[bytes, bool]:
        usable = self.usable
        if size > min(_MAX_PAYLOAD, self.pages * usable):
            raise Damage(f"a row of {size} bytes")
        local = self._local(size, table)
        if at + local > len(page):
            raise Damage("a cell beyond its page")
        parts, left = [page[at:at + local]], size - local
        following = int.from_bytes(page[at + local:at + local + 4], "big") if left else 0
        while left:
            data = self.page(following) if 1 < following <= self.pages else b""
            if len(data) < 4 + min(left, usable - 4):
                return b"".join(parts), False
            parts.append(data[4:4 + min(left, usable - 4)])
            left -= len(parts[-1])
            following = int.from_bytes(data[:4], "big")
        return b"".join(parts), True


def _checksum(words: tuple[int, ...], sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) & 0xFFFFFFFF
        second = (second + words[at + 1] + first) & 0xFFFFFFFF
    return first, second


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for _ in range(8):
        byte = data[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return value << 8 | data[at], at + 1


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


_SIZES: Final = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)
_CONSTANTS: Final[dict[int, Value]] = {0: None, 8: 0, 9: 1}
_real: Final[Callable[[bytes], tuple[float]]] = Struct(">d").unpack


def _record(data: bytes) -> list[Value]:
    end, at = _varint(data, 0)
    if end > len(data) or end > 200:
        raise Damage("a record header beyond its row")
    kinds = []
    while at < end:
        kind, at = _varint(data, at)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        size = _SIZES[kind] if kind < 10 else (kind - 12) // 2
        if kind in (10, 11) or at + size > len(data):
            raise Damage("a column beyond its row")
        piece = data[at:at + size]
        at += size
        if kind in _CONSTANTS:
            values.append(_CONSTANTS[kind])
        elif kind < 7:
            values.append(int.from_bytes(piece, "big", signed=True))
        elif kind == 7:
            values.append(_real(piece)[0])
        else:
            values.append(piece.decode("utf-8", "surrogatepass") if kind & 1 else piece)
    return values
