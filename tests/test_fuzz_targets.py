"""Each fuzz target over its corpus and some seeded mutations; `make fuzz` goes further with atheris."""

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import harness

TARGETS = sorted(harness.HERE.glob("fuzz_*.py"))
MUTATIONS = 2000


def refused_as_it_should(data: bytes) -> None:
    if data[:1] == b"\xff":
        raise ZeroDivisionError


@pytest.mark.parametrize("file", TARGETS, ids=lambda file: file.stem)
def test_target_survives_its_corpus_and_mutations(file: Path, seed: int) -> None:
    target = harness.load(file)
    seeds = harness.corpus(harness.name_of(file))
    mutated = itertools.islice(harness.mutations(seeds, random.Random(seed)), MUTATIONS)
    for data in itertools.chain(seeds, mutated):
        try:
            target(data)
        except Exception as error:
            kept = harness.keep_finding(harness.name_of(file), data)
            raise AssertionError(f"{kept.name} ({len(data)} bytes) raised {error!r}") from error


@pytest.mark.parametrize("file", TARGETS, ids=lambda file: file.stem)
def test_target_can_be_run_by_the_harness(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert 'if __name__ == "__main__":' in text
    assert "from harness import run" in text
    assert "run(target)" in text


def test_every_corpus_belongs_to_a_target() -> None:
    names = {harness.name_of(file) for file in TARGETS}
    assert {entry.name for entry in (harness.HERE / "corpus").glob("*/")} <= names


def test_mutations_repeat_with_their_seed_and_differ_with_another() -> None:
    def some(seed: int) -> list[bytes]:
        return list(itertools.islice(harness.mutations([b"LIOR" * 20, b"x"], random.Random(seed)), 200))

    assert some(1) == some(1)
    assert some(1) != some(2)
    assert len(set(some(1))) > 100


def test_mutations_stay_below_the_longest_input() -> None:
    seeds = [bytes(harness.MAX_LENGTH)]
    for data in itertools.islice(harness.mutations(seeds, random.Random(3)), 200):
        assert len(data) <= harness.MAX_LENGTH


def test_plain_mutation_keeps_the_input_that_breaks_a_target(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        harness.run_plain("none", refused_as_it_should, seconds=60, seed=1, findings=tmp_path)
    (kept,) = tmp_path.iterdir()
    assert kept.read_bytes()[:1] == b"\xff"


def test_plain_mutation_tries_the_whole_corpus_before_it_looks_at_the_time() -> None:
    tried: list[bytes] = []
    assert harness.run_plain("none", tried.append, seconds=0, seed=1) == 2
    assert tried == [b"", bytes(256)]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="atheris has no build for this Python")
@pytest.mark.parametrize(("body", "code"), [("pass", 0), ("assert len(data) < 3", 77)])
def test_atheris_ends_with_success_only_when_nothing_broke(tmp_path: Path, body: str, code: int) -> None:
    for file in ("harness.py",):
        (tmp_path / file).write_text((harness.HERE / file).read_text())
    program = tmp_path / "fuzz_probe.py"
    program.write_text(
        f"def target(data: bytes) -> None:\n    {body}\n"
        'if __name__ == "__main__":\n    from harness import run\n    run(target)\n'
    )
    environment = os.environ | {"FUZZ_SECONDS": "2", "LIOR_SEED": "7"}
    run = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, timeout=100)
    assert run.returncode == code, run.stderr
    assert "probe: seed 7, 2 s, atheris" in run.stdout
    assert len(list((tmp_path / "findings").iterdir())) == (1 if code else 0)
