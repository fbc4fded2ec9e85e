"""Caches of keys and certificates: their bounds and lifetimes, in seconds of a clock that is handed in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lior.protocols.security.caches import AgingCache
from lior.protocols.security.policy import SecurityPolicy


@pytest.mark.spec("QB-090")
def test_an_entry_lives_for_its_lifetime_in_seconds_however_often_it_is_used() -> None:
    cache: AgingCache[str, int] = AgingCache(10, 600)
    cache.add("key", 1, 1000.0)
    for now in (1000.0, 1300.0, 1599.0, 1600.0):
        assert cache.get("key", now) == 1
    assert cache.get("key", 1600.5) is None
    assert cache.get("key", 1000.0) is None


@pytest.mark.spec("QB-090")
def test_one_too_many_drops_the_oldest_half() -> None:
    cache: AgingCache[int, int] = AgingCache(6, 600)
    for number in range(6):
        cache.add(number, number, float(number))
    cache.add(6, 6, 6.0)
    assert [number for number in range(7) if cache.get(number, 7.0) is not None] == [3, 4, 5, 6]


@pytest.mark.spec("QB-116", "QB-117", "QB-118")
def test_the_cleanup_timer_drops_what_is_old_and_comes_back_for_the_oldest_of_the_rest() -> None:
    cache: AgingCache[str, int] = AgingCache(10, 600)
    assert cache.deadline is None
    cache.add("first", 1, 0.0)
    assert cache.deadline == 600.0
    cache.add("second", 2, 500.0)
    assert cache.deadline == 600.0  # it runs already
    cache.tick(599.0)
    assert len(cache) == 2
    cache.tick(601.0)
    assert len(cache) == 1
    assert cache.deadline == 500.0 + 600 + 60
    cache.tick(1160.0)
    assert len(cache) == 0
    assert cache.deadline is None
    cache.add("third", 3, 2000.0)
    assert cache.deadline == 2600.0


@pytest.mark.spec("QB-090")
def test_sizes_and_lifetimes_are_the_documents() -> None:
    policy = SecurityPolicy()
    assert (policy.receive_key_cache_size, policy.send_key_cache_size, policy.certificate_cache_size) == (127, 53, 53)
    assert (policy.symmetric_key_lifetime, policy.certificate_lifetime) == (600.0, 1200.0)


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 100)), max_size=200), st.integers(1, 9))
def test_never_holds_more_than_its_size_nor_anything_too_old(steps: list[tuple[int, float]], size: int) -> None:
    cache: AgingCache[int, float] = AgingCache(size, 150)
    now = 0.0
    for key, wait in steps:
        now += wait
        cache.tick(now)
        cache.add(key, now, now)
        assert len(cache) <= size
        assert cache.get(key, now) == now
        for other in range(31):
            added = cache.get(other, now)
            assert added is None or now - added <= 150


def test_clearing_stops_the_timer() -> None:
    cache: AgingCache[int, int] = AgingCache(2, 1)
    cache.add(1, 1, 0.0)
    cache.clear()
    assert (len(cache), cache.deadline) == (0, None)
