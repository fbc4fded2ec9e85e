"""What writers put aside and nobody published."""

import os
from pathlib import Path
from uuid import uuid4

import pytest

from lior.errors import InvalidParameter
from lior.message import Message
from lior.server.bulk.sweeping import LONGEST, Sweeper
from lior.store import stages
from lior.store.stages import Staged, StageWriter
from lior.testing.clock import FakeClock


def put_aside(data: Path, clock: FakeClock, *, whole: bool = True) -> str:
    stage = StageWriter(data, str(uuid4()), 1 << 20)
    stage.add(Staged(r"DIRECT=OS:.\private$\q", Message(b"x"), False))
    if whole:
        stage.finish()
    path = stage.path
    del stage  # closes its file
    os.utime(path if whole else path.with_suffix(".part"), (clock.wall(), clock.wall()))
    return path.stem


def test_a_stage_that_nobody_published_in_time_goes_away(tmp_path: Path) -> None:
    clock = FakeClock()
    sweeper = Sweeper(tmp_path, 3600.0, clock.wall)
    assert sweeper.sweep() == 0  # there is not even a directory
    old = put_aside(tmp_path, clock)
    put_aside(tmp_path, clock, whole=False)  # its task was killed
    clock.advance(1800)
    young = put_aside(tmp_path, clock)
    clock.advance(1800)
    assert sweeper.sweep() == 0
    clock.advance(1)
    assert sweeper.sweep() == 2
    with pytest.raises(InvalidParameter):
        stages.read(tmp_path, old)
    assert [each.message.body for each in stages.read(tmp_path, young)] == [b"x"]
    clock.advance(1800)
    assert sweeper.sweep() == 1
    assert stages.used(tmp_path) == 0


@pytest.mark.parametrize(("timeout", "interval"), [(1.0, 0.5), (3600.0, LONGEST), (86400.0, LONGEST)])
def test_nothing_stays_much_longer_than_it_may(tmp_path: Path, timeout: float, interval: float) -> None:
    assert Sweeper(tmp_path, timeout, FakeClock().wall).interval == interval


def test_a_directory_that_cannot_be_read_ends_no_sweeper(tmp_path: Path) -> None:
    (tmp_path / stages.DIRECTORY).write_text("a file in its place")
    assert Sweeper(tmp_path, 1.0, FakeClock().wall).sweep() == 0
