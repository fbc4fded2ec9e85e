"""tools/conformance.py, run as it is used: pytest and the command in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import conformance

TOOL = Path(conformance.__file__)
CONFTEST = "from conformance import add_options as pytest_addoption, register as pytest_configure\n"
INI = "[pytest]\ntestpaths = tests\naddopts = --strict-markers\nmarkers =\n    spec(*rows): rows\n    torture: long\n"
ROWS = (
    "XX-001,2.1,rule,MUST,First,The first rule.,Look.,\n"
    'XX-002,2.2,rule,MUST,Second,"The second, with a comma.",Look.,\n'
    "XX-003,2.3,state,MAY,Third,The third rule.,Look.,there is no directory service\n"
)


class Project:
    """A directory with a ledger and tests of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ledger = root / "docs" / "conformance"
        self.ledger.mkdir(parents=True)
        (root / "tests").mkdir()
        (root / "pytest.ini").write_text(INI)
        (root / "tests" / "conftest.py").write_text(CONFTEST)
        self.write_ledger(ROWS)

    def write_ledger(self, rows: str) -> None:
        (self.ledger / "xx.csv").write_text(",".join(conformance.COLUMNS) + "\n" + rows)

    def write_tests(self, text: str) -> None:
        (self.root / "tests" / "test_rules.py").write_text("import pytest\n" + text)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.root, capture_output=True, text=True, timeout=240,
            env={"PYTHONPATH": str(TOOL.parent), "PATH": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        )  # fmt: skip

    def pytest(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run("-m", "pytest", "-p", "no:cacheprovider", "--conformance-report=out/results.json", *arguments)

    def tool(self, action: str) -> subprocess.CompletedProcess[str]:
        return self._run(str(TOOL), action, "out/results.json", "--ledger", str(self.ledger))

    def record(self, *arguments: str) -> None:
        self.pytest(*arguments)
        assert self.tool("write").returncode == 0

    @property
    def status(self) -> dict[str, dict[str, object]]:
        status: dict[str, dict[str, object]] = json.loads((self.ledger / "status.json").read_text())
        return status


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


ONE_AND_TWO = '@pytest.mark.spec("XX-001", "XX-002")\ndef test_both_rules():\n    assert True == {}\n'
PASSING = ONE_AND_TWO.format("True")
FAILING = ONE_AND_TWO.format("False")


def test_a_passing_test_proves_the_rows_it_names(project: Project) -> None:
    project.write_tests(PASSING)
    project.record()
    assert project.status == {
        "XX-001": {"state": "proven", "tests": ["tests/test_rules.py::test_both_rules"]},
        "XX-002": {"state": "proven", "tests": ["tests/test_rules.py::test_both_rules"]},
        "XX-003": {"state": "not-applicable", "tests": []},
    }


def test_the_status_page_counts_rows_and_gives_the_reason_of_what_does_not_apply(project: Project) -> None:
    project.write_tests('@pytest.mark.spec("XX-001")\ndef test_first():\n    pass\n')
    project.record()
    page = (project.ledger / "STATUS.md").read_text()
    assert "| rule | 2 | 1 | 1 | 0 |" in page
    assert "| all | 3 | 1 | 1 | 1 |" in page
    assert "- XX-003 Third: there is no directory service" in page
    assert "Open, MUST (1): XX-002" in page


def test_writing_twice_gives_the_same_files(project: Project) -> None:
    project.write_tests(PASSING)
    project.record()
    first = {file.name: file.read_bytes() for file in project.ledger.iterdir()}
    project.record()
    assert {file.name: file.read_bytes() for file in project.ledger.iterdir()} == first


@pytest.mark.parametrize(
    ("mark", "complaint"),
    [
        ('"XX-009"', "spec('XX-009') is no row of the ledger"),
        ("", "spec() names no row"),
        ("7", "spec('7') is no row of the ledger"),
        ('rows="XX-001"', "is no row of the ledger"),
        ('"XX-003"', "XX-003 is recorded as not applicable: there is no directory service"),
    ],
)
def test_refuses_at_collection_a_mark_that_names_no_row(project: Project, mark: str, complaint: str) -> None:
    project.write_tests(f"@pytest.mark.spec({mark})\ndef test_it():\n    pass\n")
    run = project.pytest()
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert complaint in run.stderr
    assert "passed" not in run.stdout


def test_refuses_an_unknown_row_even_on_a_deselected_test(project: Project) -> None:
    project.write_tests('@pytest.mark.spec("XX-009")\ndef test_it():\n    pass\ndef test_other():\n    pass\n')
    assert project.pytest("-k", "other").returncode == pytest.ExitCode.USAGE_ERROR


def test_a_row_is_open_when_one_of_its_tests_fails(project: Project) -> None:
    project.write_tests(PASSING + '@pytest.mark.spec("XX-001")\ndef test_first():\n    assert False\n')
    project.record()
    assert project.status["XX-001"]["state"] == "open"
    assert project.status["XX-002"]["state"] == "proven"


def test_a_row_is_open_when_one_case_of_a_parametrised_test_fails(project: Project) -> None:
    project.write_tests(
        '@pytest.mark.spec("XX-001")\n@pytest.mark.parametrize("n", [1, 2, 3])\ndef test_cases(n):\n    assert n != 1\n'
    )
    project.record()
    assert project.status["XX-001"] == {"state": "open", "tests": []}


def test_a_parametrised_test_is_named_once(project: Project) -> None:
    project.write_tests(
        '@pytest.mark.spec("XX-001")\n@pytest.mark.parametrize("n", ["a", "b]["])\ndef test_cases(n):\n    pass\n'
    )
    project.record()
    assert project.status["XX-001"]["tests"] == ["tests/test_rules.py::test_cases"]


@pytest.mark.parametrize("when", ["setup", "teardown"])
def test_a_row_is_open_when_a_fixture_fails(project: Project, when: str) -> None:
    body = "    assert False\n    yield\n" if when == "setup" else "    yield\n    assert False\n"
    project.write_tests(
        f'@pytest.fixture\ndef f():\n{body}\n@pytest.mark.spec("XX-001")\ndef test_it(f):\n    pass\n'
    )
    project.record()
    assert project.status["XX-001"]["state"] == "open"


@pytest.mark.parametrize("mark", ['skip(reason="no time")', 'xfail(reason="broken")'])
def test_a_skipped_or_expectedly_failing_test_proves_nothing(project: Project, mark: str) -> None:
    project.write_tests(f"@pytest.mark.{mark}\n" + FAILING)
    project.record()
    assert project.status["XX-001"]["state"] == "open"


def test_check_passes_while_every_proven_row_still_is(project: Project) -> None:
    project.write_tests(PASSING)
    project.record()
    project.pytest()
    run = project.tool("check")
    assert (run.returncode, run.stderr) == (0, "")
    assert "2 of 3 rows proven, 0 open, 1 not applicable" in run.stdout


@pytest.mark.parametrize(
    ("tests", "complaint"),
    [
        (FAILING, "test_both_rules failed"),
        ("def test_other():\n    pass\n", "no test names it any more; tests/test_rules.py::test_both_rules did"),
        ('@pytest.mark.skip(reason="no time")\n' + PASSING, "only skipped tests name it"),
    ],
    ids=["failing", "gone", "skipped"],
)
def test_check_fails_on_a_row_that_lost_its_proof(project: Project, tests: str, complaint: str) -> None:
    project.write_tests(PASSING)
    project.record()
    before = project.status
    project.write_tests(tests)
    project.pytest()
    run = project.tool("check")
    assert run.returncode == 1
    assert "lost XX-001" in run.stderr
    assert "lost XX-002" in run.stderr
    assert complaint in run.stderr
    assert project.status == before


def test_a_deselected_test_loses_nothing(project: Project) -> None:
    project.write_tests(PASSING + "def test_other():\n    pass\n")
    project.record()
    project.pytest("-k", "other")
    assert project.tool("check").returncode == 0
    assert project.tool("write").returncode == 0
    assert project.status["XX-001"]["state"] == "proven"


def test_a_run_over_some_files_loses_nothing_and_writes_nothing(project: Project) -> None:
    project.write_tests(PASSING)
    project.record()
    before = project.status
    (project.root / "tests" / "test_other.py").write_text("def test_other():\n    pass\n")
    project.pytest("tests/test_other.py")
    assert project.tool("check").returncode == 0
    assert project.tool("write").returncode == 2
    assert project.status == before


def test_a_deselected_test_proves_nothing_new(project: Project) -> None:
    project.write_tests(PASSING + "def test_other():\n    pass\n")
    project.record("-k", "other")
    assert project.status["XX-001"]["state"] == "open"


def test_check_fails_when_the_record_and_the_ledger_hold_other_rows(project: Project) -> None:
    project.write_tests(PASSING)
    project.record()
    project.write_ledger(ROWS.replace("XX-002", "XX-004"))
    project.write_tests('@pytest.mark.spec("XX-001")\ndef test_first():\n    pass\n')
    project.pytest()
    run = project.tool("check")
    assert run.returncode == 1
    assert "XX-002: is in status.json and not in the ledger" in run.stderr
    assert "XX-004: is in the ledger and not in status.json" in run.stderr


def test_check_fails_when_the_ledger_changed_its_mind_on_what_applies(project: Project) -> None:
    project.write_tests('@pytest.mark.spec("XX-001")\ndef test_first():\n    pass\n')
    project.record()
    project.write_ledger(ROWS.replace("with a comma.\",Look.,", "with a comma.\",Look.,no printer"))
    project.pytest()
    run = project.tool("check")
    assert run.returncode == 1
    assert "XX-002: status.json says open, the ledger not applicable" in run.stderr


def test_check_fails_on_a_status_page_edited_by_hand(project: Project) -> None:
    project.write_tests(PASSING)
    project.record()
    page = project.ledger / "STATUS.md"
    page.write_text(page.read_text().replace("| all | 3 | 2", "| all | 3 | 3"))
    project.pytest()
    run = project.tool("check")
    assert run.returncode == 1
    assert "STATUS.md is not what `make conformance` writes" in run.stderr


def test_check_says_when_more_is_proven_than_recorded(project: Project) -> None:
    project.write_tests("def test_nothing():\n    pass\n")
    project.record()
    project.write_tests(PASSING)
    project.pytest()
    run = project.tool("check")
    assert run.returncode == 0
    assert "2 rows newly proven" in run.stdout


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (ROWS + ROWS.splitlines()[0] + "\n", "line 5: XX-001 appears twice"),
        ("XX-001,2.1,rule\n", "wrong number of columns"),
        (ROWS.replace(",Look.,\n", ",Look.,,,\n", 1), "wrong number of columns"),
    ],
    ids=["twice", "too few columns", "too many columns"],
)
def test_refuses_a_ledger_that_does_not_hold_together(project: Project, rows: str, complaint: str) -> None:
    project.write_ledger(rows)
    with pytest.raises(conformance.LedgerError, match=complaint):
        conformance.read_ledger(project.ledger)
    assert project.pytest().returncode == pytest.ExitCode.USAGE_ERROR


def test_refuses_a_directory_without_a_ledger(tmp_path: Path) -> None:
    with pytest.raises(conformance.LedgerError, match="no ledger"):
        conformance.read_ledger(tmp_path)


def test_the_projects_own_ledger_is_whole(request: pytest.FixtureRequest) -> None:
    ledger = conformance.read_ledger(request.config.rootpath / "docs" / "conformance")
    assert {row.document for row in ledger.values()} == set(conformance.DOCUMENTS)
    assert len(ledger) == 1138
