"""The way of a newcomer, as docs/pipeline.md writes it: start a queue manager, make traffic, ingest it, look at the
report."""

from pathlib import Path

import pytest

from tests.spark.processes import ROOT, SOURCE
from tests.test_docs import blocks, console_failures, sandbox, serve_failures, with_own_addresses

SECONDS = 300  # for the commands of a block, each of which starts Spark


@pytest.mark.timeout(3 * SECONDS)
def test_what_a_newcomer_types_works_as_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    section = page.partition("## In a minute\n")[2].partition("\n## ")[0]
    found: list[str] = []
    with sandbox(tmp_path) as box:
        box.seconds = SECONDS
        box.environment["PYTHONPATH"] = str(SOURCE)
        for block in blocks(with_own_addresses(section)):
            found += (serve_failures if block.option == "serve" else console_failures)(block, box)
        found += box.stop_servers()
        assert not found, "\n".join(found)
        report = (box.directory / "lake" / "report.html").read_text(encoding="utf-8")
        assert "private$\\orders" in report and "2,000" in report and report.count("<svg") >= 8
