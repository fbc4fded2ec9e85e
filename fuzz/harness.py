"""What every fuzz target shares.

A target is fuzz/fuzz_<name>.py with `def target(data: bytes) -> None`, which returns or raises nothing but
what it catches itself. `run(target)` drives it with atheris, from the inputs in fuzz/corpus/<name>, for
FUZZ_SECONDS (60), with LIOR_SEED or a new seed, which it prints. Where atheris does not exist for a Python,
plain random mutation of the corpus takes its place. An input that breaks the target goes to fuzz/findings/.
"""

import hashlib
import importlib.util
import os
import random
import runpy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

Target = Callable[[bytes], None]

HERE = Path(__file__).resolve().parent
FINDINGS = HERE / "findings"
NEW_INPUTS = HERE.parent / ".build" / "fuzz"  # what atheris finds on its way; the corpus changes by hand only
MAX_LENGTH = 1 << 16
MEMORY_MB = 2048
SECONDS_AN_INPUT = 10

# Where lengths, counts and offsets break: the edges of each width.
EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00400000, 0x00400001)


def name_of(file: Path) -> str:
    return file.stem.removeprefix("fuzz_")


def load(file: Path) -> Target:
    """The target of a file, which is run but not as the main program."""
    target: Target = runpy.run_path(str(file), run_name=file.stem)["target"]
    return target


def corpus(name: str) -> list[bytes]:
    """The committed inputs of a target; a target without any starts from nothing and from zeros."""
    directory = HERE / "corpus" / name
    inputs = [file.read_bytes() for file in sorted(directory.iterdir()) if file.is_file()] if directory.is_dir() else []
    return inputs or [b"", bytes(256)]


def mutations(seeds: Sequence[bytes], rng: random.Random) -> Iterator[bytes]:
    """Inputs near the seeds, for ever; the same for the same rng."""
    while True:
        data = bytearray(rng.choice(seeds))
        for _ in range(1 + int(rng.expovariate(0.5))):
            _mutate(data, seeds, rng)
        yield bytes(data[:MAX_LENGTH])


def _mutate(data: bytearray, seeds: Sequence[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + 1 + int(rng.expovariate(0.1)))
    match rng.randrange(8):
        case 0 if at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        case 1 if at < len(data):
            data[at] = rng.randrange(256)
        case 2:  # a length or a count
            width = rng.choice((1, 2, 4))
            value = (rng.choice(EDGES) + rng.randrange(-1, 2)) % (1 << 8 * width)
            data[at : at + width] = value.to_bytes(width, rng.choice(("little", "big")))
        case 3:
            del data[at:end]
        case 4:
            data[at:at] = data[at:end] * rng.choice((1, 2, 16))
        case 5:
            data[at:at] = rng.randbytes(end - at + 1)
        case 6:
            del data[at:]
        case _:
            other = rng.choice(seeds)
            data[at:] = other[rng.randrange(len(other) + 1) :]


def keep_finding(name: str, data: bytes, directory: Path = FINDINGS) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}-{hashlib.sha256(data).hexdigest()[:16]}"
    file.write_bytes(data)
    return file


def run_plain(name: str, target: Target, seconds: float, seed: int, findings: Path = FINDINGS) -> int:
    """Corpus, then mutations until the time is over; the number of inputs tried."""
    seeds = corpus(name)
    source = mutations(seeds, random.Random(seed))
    end = time.monotonic() + seconds
    tried = 0
    while tried < len(seeds) or time.monotonic() < end:
        data = seeds[tried] if tried < len(seeds) else next(source)
        try:
            target(data)
        except BaseException:
            print(f"{name}: broken by {keep_finding(name, data, findings)}", file=sys.stderr)
            raise
        tried += 1
    return tried


def run_atheris(name: str, file: Path, seconds: int, seed: int) -> None:
    """Does not return: atheris ends the process."""
    import atheris

    # Coverage needs instrumented modules, so the target and what it imports are loaded again.
    for module in [m for m in sys.modules if m.partition(".")[0] == "lior"]:
        del sys.modules[module]
    with atheris.instrument_imports(include=["lior"]):
        target = load(file)
    new_inputs = NEW_INPUTS / name
    for directory in (new_inputs, FINDINGS):
        directory.mkdir(parents=True, exist_ok=True)
    seeds = HERE / "corpus" / name
    arguments = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={MAX_LENGTH}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-timeout={SECONDS_AN_INPUT}",
        f"-artifact_prefix={FINDINGS}/{name}-",
        "-print_final_stats=1",
        "-verbosity=0",
        str(new_inputs),
        *([str(seeds)] if seeds.is_dir() else []),
    ]
    atheris.Setup(arguments, target)
    atheris.Fuzz()


def run(target: Target) -> None:
    """Fuzz the target of the program that calls this."""
    file = Path(target.__code__.co_filename).resolve()
    name = name_of(file)
    seconds = int(os.environ.get("FUZZ_SECONDS", "60"))
    seed = int(os.environ.get("LIOR_SEED") or time.time_ns() & 0x7FFFFFFF)
    with_atheris = importlib.util.find_spec("atheris") is not None
    print(f"{name}: seed {seed}, {seconds} s, {'atheris' if with_atheris else 'plain mutation'}", flush=True)
    if with_atheris:
        run_atheris(name, file, seconds, seed)
    else:
        print(f"{name}: {run_plain(name, target, seconds, seed)} inputs")
