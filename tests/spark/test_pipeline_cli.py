"""`lior pipeline` as somebody types it, on sample traffic whose numbers plain Python knows. Its jobs find the session
of the tests and use it."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from lior.cli.main import cli
from lior.client.bulk import connect
from lior.spark.jobs import samples
from lior.spark.jobs.samples import Samples
from lior.testing.serving import Serving
from tests.spark.conftest import messages

COUNT, SEED = 600, 5
Pipeline = Callable[..., Result]


@pytest.fixture(scope="module")
def pipeline(spark: Any, server: Serving) -> Pipeline:
    def run(*words: str, code: int = 0) -> Result:
        done = CliRunner().invoke(cli, ["pipeline", *words], env={"LIOR_SERVER": str(server.data)})
        assert done.exit_code == code, f"{words}: {done.exit_code}\n{done.output}\n{done.exc_info}"
        assert "Traceback" not in done.output and "\tat " not in done.output
        return done

    return run


def answer(done: Result) -> dict[str, Any]:
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(line)
    return found


class Traffic:
    """Sample traffic in queues of its own, and what plain Python knows of it."""

    def __init__(self, pipeline: Pipeline, folder: Path) -> None:
        name = uuid4().hex[:6]
        self.names = tuple(f"{kind}{name}" for kind in ("orders", "payments"))
        self.queues = [f"private$\\{each}" for each in self.names]
        self.lake = str(folder / "lake")
        self.subscription = f"cli-{name}"
        config = folder / "samples.toml"
        config.write_text(f"[samples]\nqueues = {json.dumps(self.names)}\njournal = true\n")
        said = answer(pipeline("samples", "--messages", str(COUNT), "--seed", str(SEED), "--config", str(config),
                               "--json"))  # fmt: skip
        assert said == {"job": "samples", "rows": COUNT, "batches": 1, "output": "", "seed": SEED,
                        "seconds": said["seconds"]}  # fmt: skip
        self.rows = list(samples.rows(Samples("", COUNT, SEED, self.names)))

    @property
    def options(self) -> list[str]:
        queues = [word for queue in self.queues for word in ("--queue", queue)]
        return [*queues, "--lake", self.lake, "--subscription", self.subscription]


@pytest.fixture(scope="module")
def traffic(pipeline: Pipeline, server: Serving, tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    """Ingested once, with the words that came: what the other jobs look at."""
    found = Traffic(pipeline, tmp_path_factory.mktemp("traffic"))
    done = pipeline("ingest", *found.options, "--once")
    assert done.stdout.startswith(f"ingest: {COUNT} messages in ") and done.stdout.endswith(f" -> {found.lake}\n")
    assert f"batch 0: {COUNT} messages, {COUNT} in all" in done.stderr
    return found


def test_ingest_takes_every_sample_once_and_logs_its_run(server: Serving, pipeline: Pipeline, traffic: Traffic) -> None:
    columns = ["queue", "label", "body", "priority", "app_tag"]
    found = pq.read_table(f"{traffic.lake}/messages", columns=columns).sort_by("app_tag").to_pylist()
    assert found == [
        {"queue": row["destination"], **{name: row[name] for name in columns[1:]}} for row in traffic.rows
    ]
    kinds = Counter(row["destination"] for row in traffic.rows)
    for queue in traffic.queues:
        assert messages(server, queue) == (0, kinds[queue])
    again = answer(pipeline("ingest", *traffic.options, "--once", "--json"))
    assert (again["rows"], again["output"]) == (0, traffic.lake)
    runs = pq.read_table(f"{traffic.lake}/runs").sort_by("ended_at").to_pylist()
    assert [(run["job"], run["rows"], run["error"]) for run in runs[:2]] == [("ingest", COUNT, ""), ("ingest", 0, "")]
    assert json.loads(runs[0]["config"])["queues"] == traffic.queues


def test_ingest_goes_on_with_what_arrives_until_its_time_is_over(
    server: Serving, pipeline: Pipeline, tmp_path: Path
) -> None:
    """Continuous: the second half is sent when the first is in the lake."""
    import threading

    found = Traffic(pipeline, tmp_path)
    over, failed = threading.Event(), []

    def send_more() -> None:
        try:
            with connect(server.data) as bulk:
                while not over.wait(0.2):
                    known = {each["name"]: each["released"] for each in bulk.subscriptions()}
                    if known.get(found.subscription, 0) >= COUNT:
                        bulk.write(samples_table(found, 40), writer=found.subscription, batch=1)
                        return
        except Exception as error:
            failed.append(error)

    sender = threading.Thread(target=send_more)
    sender.start()
    try:
        said = answer(pipeline("ingest", *found.options, "--seconds", "25", "--json"))
    finally:
        over.set()
        sender.join()
    if said["rows"] == COUNT:  # a slow machine: the rest comes with the next run
        said["rows"] += answer(pipeline("ingest", *found.options, "--once", "--json"))["rows"]
    assert not failed and said["rows"] == COUNT + 40
    assert pq.read_table(f"{found.lake}/messages", columns=["app_tag"]).num_rows == COUNT + 40


def samples_table(found: Traffic, count: int) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(found.rows[:count], samples._SCHEMA)


def test_report_says_what_was_sent(pipeline: Pipeline, traffic: Traffic) -> None:
    said = answer(pipeline("report", "--lake", traffic.lake, "--json"))
    assert (said["rows"], said["queues"], said["classes"]) == (COUNT, 2, {"0x0000": COUNT})
    page = Path(said["output"]).read_text()
    for queue in traffic.queues:
        assert f"{sum(row['destination'] == queue for row in traffic.rows):,}" in page
        assert f"{sum(len(row['body']) for row in traffic.rows if row['destination'] == queue):,}" in page


def test_deliver_counts_by_destination_first_and_then_sends_once(
    server: Serving, pipeline: Pipeline, traffic: Traffic, queue: str
) -> None:
    source = ["--source", f"{traffic.lake}/messages", "--run-id", f"run {queue}"]
    words = [*source, "--sql", f"SELECT body, label, r'{queue}' AS destination FROM source WHERE priority = 7"]
    urgent = sorted(row["body"] for row in traffic.rows if row["priority"] == 7)
    dry = answer(pipeline("deliver", *words, "--dry-run", "--json"))
    assert dry["destinations"] == [{"destination": queue, "messages": len(urgent)}] and dry["batches"] == 0
    assert messages(server, queue)[0] == 0
    for _ in range(2):
        assert answer(pipeline("deliver", *words, "--json"))["rows"] == len(urgent)
    with server.connect() as qm, qm.open_queue(f".\\{queue}") as opened:
        assert sorted(message.body for message in opened) == urgent


def test_deliver_says_what_arrived_and_what_was_refused_and_why(
    server: Serving, pipeline: Pipeline, traffic: Traffic, queue: str, tmp_path: Path
) -> None:
    """Every third row goes to a queue elsewhere that takes messages of transactions only."""
    acks = f"{queue}a"
    with server.connect() as qm:
        qm.create_queue(f".\\{acks}")
    with Serving(tmp_path / "other") as other:
        with other.connect() as qm:
            qm.create_queue(".\\private$\\strict", transactional=True)
        sql = (f"SELECT body, CASE app_tag % 3 WHEN 0 THEN r'{other.queue('strict')}' ELSE r'{queue}' END"
               " AS destination FROM source WHERE app_tag < 30")  # fmt: skip
        said = answer(pipeline("deliver", "--source", f"{traffic.lake}/messages", "--sql", sql, "--json", "--outcomes",
                               f"DIRECT=TCP:{server.address}\\{acks}", "--wait", "60"))  # fmt: skip
    assert said["rows"] == 30
    found = {(row["destination"].rpartition("\\")[2], row["outcome"]): row["messages"] for row in said["outcomes"]}
    assert found == {(queue.rpartition("\\")[2], "arrived"): 20, ("strict", "NACK_NOT_TRANSACTIONAL_MSG"): 10}


def test_replay_sends_what_was_chosen_with_its_old_identifiers(
    server: Serving, pipeline: Pipeline, traffic: Traffic, queue: str
) -> None:
    said = answer(pipeline("replay", "--source", f"{traffic.lake}/messages", "--where", "app_tag < 25",
                           "--queue", queue, "--json"))  # fmt: skip
    assert said["rows"] == 25 and said["run_id"].startswith("replay-")
    ids = {row["app_tag"]: row["message_id"] for row in pq.read_table(f"{traffic.lake}/messages").to_pylist()}
    with server.connect() as qm, qm.open_queue(f".\\{queue}") as opened:
        from lior.message import ObjectId

        found = {message.application_tag: str(ObjectId.from_bytes(message.correlation_id)) for message in opened}
    assert found == {tag: ids[tag] for tag in range(25)}


def test_migrate_names_queues_and_gaps_for_each_target(pipeline: Pipeline, traffic: Traffic) -> None:
    for target in ("kafka", "rabbitmq", "servicebus", "lior"):
        said = answer(pipeline("migrate", "--lake", traffic.lake, "--target", target, "--json"))
        rows = {row["queue"]: row for row in said["queues"]}
        for queue in traffic.queues:
            mine = [row for row in traffic.rows if row["destination"] == queue]
            assert rows[queue]["messages"] == len(mine)
            assert rows[queue]["largest"] == max(len(row["body"]) for row in mine)
        assert any(gap.startswith("priority") for gap in said["gaps"]) is (target in ("kafka", "servicebus"))


def test_trace_and_deadletters_answer_in_lines_for_people(pipeline: Pipeline, traffic: Traffic) -> None:
    shown = pipeline("trace", "--lake", traffic.lake).stdout
    assert "lost: 0\n" in shown and "stuck: 0\n" in shown and f"trace: {COUNT} messages in" in shown
    assert " messages in " in pipeline("deadletters").stdout


# What is wrong is said in three lines, before Spark starts where that can be


@pytest.mark.parametrize(
    ("words", "what", "remedy"),
    [
        (["ingest", "--queue", "private$\\nowhere", "--lake", "LAKE", "--once"], "there is no such queue", ""),
        (["ingest", "--queue", "QUEUE", "--lake", "LAKE", "--format", "csv"], "'csv' is no format", "parquet, "),
        (["ingest", "--queue", "QUEUE", "--lake", "FILE/lake"], "this is no directory", "name a directory"),
        (["ingest", "--queue", "QUEUE"], "the setting lake is missing", "give --lake"),
        (["ingest", "--lake", "LAKE"], "the setting queues is missing", "give --queue"),
        (["ingest", "--queue", "QUEUE", "--lake", "LAKE", "--server", "NOWHERE"], "no queue manager", "lior serve"),
        (["report", "--lake", "LAKE"], "there is nothing here", "lior pipeline ingest"),
        (["deliver", "--source", "LAKE", "--queue", "QUEUE"], "there is nothing here", "check --source"),
        (["deadletters", "--where", "colour = 1"], "colour", "correct --where"),
        (["capture", "--files", "LAKE/*.pcap", "--lake", "LAKE"], "there is no such file", "files"),
        (["migrate", "--lake", "LAKE", "--target", "carrier pigeon"], "is no target", "kafka"),
        (["ingest", "--config", "TOML"], "there is no setting lakes", "did you mean lake?"),
    ],
)
def test_an_error_is_a_few_lines_with_the_remedy(
    pipeline: Pipeline, queue: str, tmp_path: Path, words: list[str], what: str, remedy: str
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "nowhere").mkdir()
    (tmp_path / "job.toml").write_text("[ingest]\nlakes = 'x'\n")
    places = {"QUEUE": queue, "LAKE": str(tmp_path / "lake"), "FILE": str(tmp_path / "file"),
              "NOWHERE": str(tmp_path / "nowhere"), "TOML": str(tmp_path / "job.toml")}  # fmt: skip
    given = []
    for word in words:
        first, slash, rest = word.partition("/")
        given.append(places.get(first, first) + slash + rest)
    said = pipeline(*given, code=1).stderr
    assert what in said and remedy in said and len(said.splitlines()) <= 4, said
