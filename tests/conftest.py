"""What every test run shares: the conformance marks, hypothesis profiles, and one printed seed."""

import os
import signal

import hypothesis
import pytest

import conformance

# `slice` bounds `make test`; `long` is for `make torture` and for a parser one has just changed.
hypothesis.settings.register_profile("slice", max_examples=50, deadline=None, print_blob=True)
hypothesis.settings.register_profile("long", max_examples=5000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("LIOR_PROFILE", "slice"))


def pytest_addoption(parser: pytest.Parser) -> None:
    conformance.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    conformance.register(config)
    # What a shell starts in the background ignores Ctrl-C, and so would all that tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    return "lior: " + ", ".join(f"{name}={os.environ.get(name, 'unset')}" for name in ("LIOR_SEED", "LIOR_PROFILE"))


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run's random choices; the header of the report prints it."""
    return int(os.environ.get("LIOR_SEED", "1"))
