"""A data directory of its own for each test, and `lior` in this process or as a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lior.cli.main import cli

QUEUE = r".\private$\orders"
PLAIN = r".\private$\mail"
ROOT = Path(__file__).resolve().parent.parent.parent

Lior = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "data"
    monkeypatch.setenv("LIOR_DATA", str(directory))
    monkeypatch.delenv("LIOR_SERVER", raising=False)
    return directory


@pytest.fixture
def lior(data: Path) -> Lior:
    """Run a command; its exit code must be `code`."""

    def run(*arguments: str, code: int = 0, input: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(cli, list(arguments), input=input)
        assert result.exit_code == code, f"{arguments}: {result.exit_code}\n{result.output}\n{result.exc_info}"
        return result

    return run


@pytest.fixture
def shop(lior: Lior) -> Lior:
    """With a transactional queue that keeps a journal, and a plain one."""
    lior("queue", "create", QUEUE, "--transactional", "--journal")
    lior("queue", "create", PLAIN)
    return lior


def records(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def process(data: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """A real `lior`."""
    environment = {**os.environ, "LIOR_DATA": str(data), "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen([sys.executable, "-m", "lior.cli.main", *arguments], env=environment, text=True, **streams)


def finished(running: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    out, err = running.communicate(timeout=240)
    assert running.returncode == code, (running.returncode, out, err)
    return out, err
