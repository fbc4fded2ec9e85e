"""LookupIndex against a plain sorted list."""

from bisect import bisect_left, bisect_right
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from lior.queues.index import CHUNK, LookupIndex

IDS = st.integers(0, 40)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "discard"]), IDS), max_size=60)


def agree(index: LookupIndex, ids: list[int], around: range) -> None:
    assert list(index) == ids
    assert len(index) == len(ids)
    assert index.first() == (ids[0] if ids else None)
    assert index.last() == (ids[-1] if ids else None)
    for value in around:
        at, past = bisect_left(ids, value), bisect_right(ids, value)
        assert (value in index) is (at != past)
        assert index.before(value) == (ids[at - 1] if at else None)
        assert index.after(value) == (ids[past] if past < len(ids) else None)


@given(STEPS)
def test_agrees_with_a_sorted_list_after_every_step(steps: list[tuple[str, int]]) -> None:
    index, ids = LookupIndex(), list[int]()
    for step, value in steps:
        if step == "discard":
            assert index.discard(value) is (value in ids)
            ids = [i for i in ids if i != value]
        elif value not in ids:
            index.add(value)
            ids = sorted([*ids, value])
        agree(index, ids, range(42))


@given(st.integers(0, 5), st.integers(0, 3))
def test_is_built_from_ascending_ids_at_every_chunk_boundary(extra: int, chunks: int) -> None:
    ids = [2 * i for i in range(chunks * CHUNK + extra)]
    agree(LookupIndex(ids), ids, range(0, 2 * len(ids) + 2, 7))


def test_agrees_with_a_sorted_list_over_many_chunks(seed: int) -> None:
    random = Random(seed)
    index, ids = LookupIndex(), set[int]()
    for _ in range(8 * CHUNK):
        value = random.randrange(20 * CHUNK)
        if value in ids or random.random() < 0.2:
            assert index.discard(value) is (value in ids)
            ids.discard(value)
        else:
            index.add(value)
            ids.add(value)
    agree(index, sorted(ids), range(0, 20 * CHUNK, 13))
    for value in sorted(ids):
        assert index.first() == value
        assert index.discard(value)
    assert len(index) == 0 and index.first() is None and index.last() is None


def test_holds_ids_of_all_eight_priorities() -> None:
    ids = [(7 - priority) << 56 | 1 for priority in range(8)]
    index = LookupIndex()
    for lookup_id in ids:
        index.add(lookup_id)
    agree(index, sorted(ids), range(0))
    assert index.before(1 << 63) == max(ids)

