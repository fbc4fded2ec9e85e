"""The conformance ledger: which rule of the specifications which test proves.

The ledger is docs/conformance/*.csv, one rule a row. A test names the rows it proves:

    @pytest.mark.spec("QB-011", "QB-135")

`Recorder` is the pytest plugin (tests/conftest.py registers it). It refuses marks that name no row, and
writes what each marked test did. As a command, this module turns that record into docs/conformance/STATUS.md
and status.json (`write`), or compares it with the committed status.json (`check`).

A row is proven when at least one test that names it passed and none failed. A test that was deselected
neither proves a row nor loses it; a skipped test proves nothing.
"""

import argparse
import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

COLUMNS = ("id", "section", "kind", "level", "title", "requirement", "verify", "not_applicable")
DOCUMENTS = {
    "comqc": "[MC-COMQC] queued components",
    "dmpr": "[MS-MQDMPR] data model",
    "mqmp": "[MS-MQMP] client protocol",
    "mqmq": "[MS-MQMQ] data structures",
    "mqqb": "[MS-MQQB] binary protocol",
    "mqsrm": "[MC-MQSRM] SOAP reliable messaging",
}

STATUS_INTRODUCTION = (
    "Written by `make conformance`; do not edit. Each rule of the specifications is one row of the ledger beside "
    "this page. A row is proven when a test that fails without the rule names it and passes."
)

State = Literal["proven", "open", "not-applicable"]
Outcome = Literal["passed", "failed", "skipped", "deselected"]


class LedgerError(Exception):
    """The ledger or a recorded status does not hold together."""


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    document: str  # the stem of its file
    section: str
    kind: str
    level: str
    title: str
    not_applicable: str  # the reason; empty where the row applies


@dataclass(frozen=True, slots=True)
class Status:
    state: State
    tests: list[str] = field(default_factory=list)


@dataclass(slots=True)
class MarkedTest:
    """One test function; the cases of a parametrised one are taken together."""

    rows: list[str]
    outcome: Outcome
    reason: str = ""


Results = dict[str, MarkedTest]


def read_ledger(directory: Path) -> dict[str, Row]:
    """Every row of every file, by id."""
    ledger: dict[str, Row] = {}
    files = sorted(directory.glob("*.csv"))
    if not files:
        raise LedgerError(f"no ledger: {directory} holds no .csv file")
    for file in files:
        with file.open(newline="", encoding="utf-8") as lines:
            reader = csv.DictReader(lines, strict=True)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise LedgerError(f"{file.name}: columns are {reader.fieldnames}, wanted {list(COLUMNS)}")
            for record in reader:
                if None in record or None in record.values() or not record["id"]:
                    raise LedgerError(f"{file.name}, line {reader.line_num}: wrong number of columns")
                row = Row(record["id"], file.stem, record["section"], record["kind"], record["level"],
                          record["title"], record["not_applicable"].strip())  # fmt: skip
                if row.id in ledger:
                    raise LedgerError(f"{file.name}, line {reader.line_num}: {row.id} appears twice")
                ledger[row.id] = row
    return ledger


def spec_rows(item: pytest.Item) -> Iterator[str]:
    """The rows an item's marks name; what is not a string is passed on as text, to be refused."""
    for mark in item.iter_markers("spec"):
        yield from map(str, mark.args)
        yield from (f"{name}={value!r}" for name, value in mark.kwargs.items())


def function_name(nodeid: str) -> str:
    """The node id without the parameters of a case."""
    return nodeid.partition("[")[0]


# Of several cases the worst counts; a deselected case says nothing about the others.
_RANK: dict[Outcome, int] = {"deselected": 0, "passed": 1, "skipped": 2, "failed": 3}


class Recorder:
    """pytest plugin: check the marks at collection, record the outcome of each marked test."""

    def __init__(self, ledger: Mapping[str, Row], report: Path | None) -> None:
        self.ledger = ledger
        self.report = report
        self.rows: dict[str, list[str]] = {}  # by node id, everything collected
        self.outcomes: dict[str, tuple[Outcome, str]] = {}  # by node id, what ran
        self.complete = True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        problems = []
        for item in items:  # before -k and -m take items away
            rows = list(dict.fromkeys(spec_rows(item)))
            if rows:
                self.rows[item.nodeid] = rows
            elif item.get_closest_marker("spec"):
                problems.append(f"{item.nodeid}: spec() names no row")
            for name in rows:
                row = self.ledger.get(name)
                if row is None:
                    problems.append(f"{item.nodeid}: spec({name!r}) is no row of the ledger")
                elif row.not_applicable:
                    problems.append(f"{item.nodeid}: {name} is recorded as not applicable: {row.not_applicable}")
        if problems:
            raise pytest.UsageError("\n".join(dict.fromkeys(problems)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.complete &= not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid not in self.rows:
            return
        if report.failed:
            self.outcomes[report.nodeid] = "failed", ""
        elif report.skipped:  # xfail arrives here too
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(getattr(report, "wasxfail", ""))
            self.outcomes[report.nodeid] = "skipped", reason
        elif report.when == "call":
            self.outcomes[report.nodeid] = "passed", ""

    def results(self) -> Results:
        tests: Results = {}
        for nodeid, rows in self.rows.items():
            outcome, reason = self.outcomes.get(nodeid, ("deselected", ""))
            name = function_name(nodeid)
            test = tests.setdefault(name, MarkedTest([], "deselected"))
            test.rows += [row for row in rows if row not in test.rows]
            if _RANK[outcome] > _RANK[test.outcome]:
                test.outcome, test.reason = outcome, reason
        return tests

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.report is None:
            return
        whole = self.complete and session.config.args_source is not pytest.Config.ArgsSource.ARGS
        tests = {
            name: {"rows": test.rows, "outcome": test.outcome, "reason": test.reason}
            for name, test in sorted(self.results().items())
        }
        self.report.parent.mkdir(parents=True, exist_ok=True)
        self.report.write_text(json.dumps({"complete": whole, "tests": tests}, indent=1), encoding="utf-8")


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption("--conformance-ledger", type=Path, help="directory of the ledger (default: docs/conformance)")
    group.addoption("--conformance-report", type=Path, help="write what each test with a spec mark did to this file")


def register(config: pytest.Config) -> None:
    """Attach a Recorder to this run."""
    directory = config.getoption("--conformance-ledger") or config.rootpath / "docs" / "conformance"
    try:
        ledger = read_ledger(directory)
    except LedgerError as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(Recorder(ledger, config.getoption("--conformance-report")), "conformance")


def read_results(file: Path) -> tuple[bool, Results]:
    """Whether the run was over all tests, and what each marked test did."""
    record = json.loads(file.read_text(encoding="utf-8"))
    tests = {name: MarkedTest(test["rows"], test["outcome"], test["reason"]) for name, test in record["tests"].items()}
    return record["complete"], tests


def read_status(file: Path) -> dict[str, Status]:
    if not file.exists():
        return {}
    return {name: Status(s["state"], s["tests"]) for name, s in json.loads(file.read_text(encoding="utf-8")).items()}


def by_row(results: Results) -> dict[str, dict[str, MarkedTest]]:
    rows: dict[str, dict[str, MarkedTest]] = {}
    for name, test in results.items():
        for row in test.rows:
            rows.setdefault(row, {})[name] = test
    return rows


def evaluate(ledger: Mapping[str, Row], results: Results, before: Mapping[str, Status]) -> dict[str, Status]:
    """The status of every row after a run over all tests."""
    marked = by_row(results)
    status = {}
    for row in ledger.values():
        tests = marked.get(row.id, {})
        recorded = before.get(row.id, Status("open"))
        kept = set(recorded.tests) if recorded.state == "proven" else set()  # a proof not run now stays
        proofs = sorted(
            name for name, t in tests.items() if t.outcome == "passed" or (t.outcome == "deselected" and name in kept)
        )
        if row.not_applicable:
            status[row.id] = Status("not-applicable")
        elif proofs and all(test.outcome != "failed" for test in tests.values()):
            status[row.id] = Status("proven", proofs)
        else:
            status[row.id] = Status("open")
    return status


def lost_rows(ledger: Mapping[str, Row], results: Results, complete: bool, before: Mapping[str, Status]) -> list[str]:
    """What the run lost against the recorded status, one line a row."""
    marked = by_row(results)
    lines = []
    for name, recorded in before.items():
        if name not in ledger:
            lines.append(f"{name}: is in status.json and not in the ledger")
            continue
        if recorded.state != "proven":
            continue
        tests = marked.get(name, {})
        outcomes = {test.outcome for test in tests.values()}
        if "failed" in outcomes:
            failed = ", ".join(test for test, t in tests.items() if t.outcome == "failed")
            lines.append(f"lost {name}: {failed} failed")
        elif outcomes & {"passed", "deselected"}:
            continue
        elif outcomes:
            skipped = ", ".join(f"{test} ({t.reason})" for test, t in tests.items())
            lines.append(f"lost {name}: only skipped tests name it: {skipped}")
        elif complete:
            lines.append(f"lost {name}: no test names it any more; {', '.join(recorded.tests)} did")
    lines += [f"{name}: is in the ledger and not in status.json" for name in ledger if before and name not in before]
    return lines


def outdated(ledger: Mapping[str, Row], before: Mapping[str, Status], directory: Path) -> list[str]:
    """What is recorded beside the ledger and does not follow from it."""
    if before.keys() != ledger.keys():
        return []  # nothing recorded, or lost_rows names the rows
    lines = [
        f"{row.id}: status.json says {before[row.id].state}, the ledger {'not ' * bool(row.not_applicable)}applicable"
        for row in ledger.values()
        if (before[row.id].state == "not-applicable") != bool(row.not_applicable)
    ]
    page = directory / "STATUS.md"
    if not lines and (not page.exists() or page.read_text(encoding="utf-8") != status_page(ledger, before)):
        lines.append("STATUS.md is not what `make conformance` writes for status.json")
    return lines


def status_page(ledger: Mapping[str, Row], status: Mapping[str, Status]) -> str:
    """docs/conformance/STATUS.md."""
    parts = [
        "# Conformance",
        STATUS_INTRODUCTION,
        table("document", _counted(ledger.values(), status, lambda row: DOCUMENTS.get(row.document, row.document))),
    ]
    for document in dict.fromkeys(row.document for row in ledger.values()):
        rows = [row for row in ledger.values() if row.document == document]
        parts.append(f"## {DOCUMENTS.get(document, document)}")
        parts.append(table("kind", _counted(rows, status, lambda row: row.kind)))
        excluded = [row for row in rows if row.not_applicable]
        if excluded:
            parts.append("Not applicable:")
            parts.append("\n".join(f"- {row.id} {row.title}: {row.not_applicable}" for row in excluded))
        for level in dict.fromkeys(row.level for row in rows):
            names = [row.id for row in rows if row.level == level and status[row.id].state == "open"]
            if names:
                parts.append(f"Open, {level} ({len(names)}): {', '.join(names)}")
    return "\n\n".join(parts) + "\n"


Counts = dict[str, dict[State, int]]


def _counted(rows: Iterable[Row], status: Mapping[str, Status], key: Callable[[Row], str]) -> Counts:
    counts: Counts = {}
    for row in rows:
        line = counts.setdefault(key(row), {"proven": 0, "open": 0, "not-applicable": 0})
        line[status[row.id].state] += 1
    return dict(sorted(counts.items()))


def table(heading: str, counts: Mapping[str, Mapping[State, int]]) -> str:
    states: tuple[State, ...] = ("proven", "open", "not-applicable")
    lines = [f"| {heading} | rows | proven | open | not applicable |", "|---|---:|---:|---:|---:|"]
    for name, line in [*counts.items(), ("all", {s: sum(c[s] for c in counts.values()) for s in states})]:
        lines.append(f"| {name} | {sum(line.values())} | " + " | ".join(str(line[state]) for state in states) + " |")
    return "\n".join(lines)


def write(ledger: Mapping[str, Row], status: Mapping[str, Status], directory: Path) -> None:
    rows = {name: {"state": s.state, "tests": s.tests} for name, s in status.items()}
    body = ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    (directory / "status.json").write_text(f"{{\n{body}\n}}\n", encoding="utf-8")
    (directory / "STATUS.md").write_text(status_page(ledger, status), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="conformance", description="Record or check which rules are proven.")
    parser.add_argument("action", choices=("write", "check"))
    parser.add_argument("results", type=Path, help="what pytest --conformance-report wrote")
    parser.add_argument("--ledger", type=Path, default=Path(__file__).resolve().parent.parent / "docs" / "conformance")
    options = parser.parse_args(arguments)
    try:
        ledger = read_ledger(options.ledger)
        before = read_status(options.ledger / "status.json")
        complete, results = read_results(options.results)
        status = evaluate(ledger, results, before)
        if options.action == "write":
            if not complete:
                raise LedgerError("not a run over all tests: nothing written")
            write(ledger, status, options.ledger)
            print(summary(status))
            return 0
        lost = lost_rows(ledger, results, complete, before) + outdated(ledger, before, options.ledger)
    except (LedgerError, OSError, ValueError, KeyError) as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    print(summary(status))
    new = sum(1 for name, s in status.items() if s.state == "proven" and before.get(name, s).state != "proven")
    if new or not before:
        print(f"conformance: {new or 'no'} rows newly proven; `make conformance` records the status")
    for line in lost:
        print(f"conformance: {line}", file=sys.stderr)
    return 1 if lost else 0


def summary(status: Mapping[str, Status]) -> str:
    states = [s.state for s in status.values()]
    return (f"conformance: {states.count('proven')} of {len(states)} rows proven, {states.count('open')} open, "
            f"{states.count('not-applicable')} not applicable")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
