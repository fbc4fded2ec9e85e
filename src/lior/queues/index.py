"""The order of a queue: lookup ids, ascending, which is priority descending and arrival ascending.

[MS-MQDMPR] 3.1.1.2 MessagePositionList. Only numbers are kept (eight bytes a message), in chunks, so
that a backlog of millions stays small and taking the head stays cheap at any depth.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import gt

CHUNK = 512


class LookupIndex:
    """A sorted set of lookup ids."""

    __slots__ = ("_chunks", "_count", "_lasts")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        """`ids` must be ascending."""
        self._chunks: list[array[int]] = []
        self._lasts: list[int] = []  # the greatest id of each chunk
        self._count = 0
        chunk: array[int] = array("Q")
        for lookup_id in ids:
            chunk.append(lookup_id)
            if len(chunk) == CHUNK:
                self._append_chunk(chunk)
                chunk = array("Q")
        if chunk:
            self._append_chunk(chunk)

    def _append_chunk(self, chunk: "array[int]") -> None:
        self._chunks.append(chunk)
        self._lasts.append(chunk[-1])
        self._count += len(chunk)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, lookup_id: int) -> bool:
        at = bisect_left(self._lasts, lookup_id)
        if at == len(self._chunks):
            return False
        chunk = self._chunks[at]
        return chunk[bisect_left(chunk, lookup_id)] == lookup_id

    def __iter__(self) -> Iterator[int]:
        for chunk in self._chunks:
            yield from chunk

    def add(self, lookup_id: int) -> None:
        """Insert an id that is not there yet."""
        self._count += 1
        lasts = self._lasts
        if not lasts:
            self._chunks.append(array("Q", (lookup_id,)))
            lasts.append(lookup_id)
            return
        if lookup_id > lasts[-1]:
            at = len(lasts) - 1
            chunk = self._chunks[at]
            chunk.append(lookup_id)
            lasts[at] = lookup_id
        else:
            at = bisect_left(lasts, lookup_id)
            chunk = self._chunks[at]
            insort(chunk, lookup_id)
        if len(chunk) > 2 * CHUNK:
            self._split(at)

    def _split(self, at: int) -> None:
        chunk = self._chunks[at]
        self._chunks[at : at + 1] = [chunk[:CHUNK], chunk[CHUNK:]]
        self._lasts.insert(at, chunk[CHUNK - 1])

    def discard(self, lookup_id: int) -> bool:
        """Remove an id; False if it was not there."""
        at = bisect_left(self._lasts, lookup_id)
        if at == len(self._chunks):
            return False
        chunk = self._chunks[at]
        place = bisect_left(chunk, lookup_id)
        if chunk[place] != lookup_id:
            return False
        del chunk[place]
        self._count -= 1
        if not chunk:
            del self._chunks[at]
            del self._lasts[at]
        elif place == len(chunk):
            self._lasts[at] = chunk[-1]
        return True

    def extend(self, lookup_ids: Sequence[int]) -> None:
        """Insert ids that are not there yet; nearly always ascending and above all others."""
        lasts = self._lasts
        if not lasts or lookup_ids[0] < lasts[-1] or len(self._chunks[-1]) + len(lookup_ids) > 2 * CHUNK or any(
                map(gt, lookup_ids, islice(lookup_ids, 1, None))):
            for lookup_id in lookup_ids:
                self.add(lookup_id)
            return
        self._chunks[-1].extend(lookup_ids)
        lasts[-1] = lookup_ids[-1]
        self._count += len(lookup_ids)

    def head(self, count: int) -> list[int]:
        """The first ids, at most `count`."""
        found: list[int] = []
        for chunk in self._chunks:
            found += chunk[: count - len(found)]
            if len(found) == count:
                break
        return found

    def discard_head(self, count: int) -> None:
        """Remove the first `count` ids, which are there."""
        self._count -= count
        while count:
            chunk = self._chunks[0]
            if count < len(chunk):
                del chunk[:count]
                return
            count -= len(chunk)
            del self._chunks[0], self._lasts[0]

    def first(self) -> int | None:
        return self._chunks[0][0] if self._chunks else None

    def last(self) -> int | None:
        return self._lasts[-1] if self._chunks else None

    def after(self, lookup_id: int) -> int | None:
        """The smallest id above `lookup_id`."""
        at = bisect_right(self._lasts, lookup_id)
        if at == len(self._chunks):
            return None
        chunk = self._chunks[at]
        return chunk[bisect_right(chunk, lookup_id)]

    def before(self, lookup_id: int) -> int | None:
        """The greatest id below `lookup_id`."""
        at = bisect_left(self._lasts, lookup_id)
        if at < len(self._chunks):
            chunk = self._chunks[at]
            place = bisect_left(chunk, lookup_id)
            if place:
                return chunk[place - 1]
        return self._lasts[at - 1] if at else None
