"""Errors as a user sees them: what, where and what to do, whatever Spark wraps around them."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lior.errors import BadConfiguration, LiorError, QueueNotFound, ServiceNotAvailable
from lior.spark.explaining import explained
from lior.spark.session import check_master
from lior.testing.serving import loopback_address

WORKER = """[STREAM_FAILED] Query [id = 11ab] terminated with exception: Traceback (most recent call last):
  File "bulk.py", line 126, in _tried
    raise found from error
lior.errors.ServiceNotAvailable: an earlier one (MQ_ERROR_SERVICE_NOT_AVAILABLE 0xC00E000B)

During handling of the above exception, another exception occurred:

lior.errors.QueueNotFound: .\\private$\\nowhere: there is no such queue (here) (MQ_ERROR_QUEUE_NOT_FOUND 0xC00E0003)
do: see: lior queue list
 SQLSTATE: 38000
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.runStream(StreamExecution.scala:357)
"""


def test_an_error_of_ours_comes_out_of_any_stack_with_its_code_and_remedy() -> None:
    found = explained(RuntimeError(WORKER))
    assert isinstance(found, QueueNotFound)
    assert (found.what, found.remedy) == (r".\private$\nowhere: there is no such queue (here)", "see: lior queue list")
    own = QueueNotFound("x", remedy="y")
    assert explained(own) is own


@pytest.mark.parametrize(
    ("text", "what", "where", "remedy"),
    [
        ("[PATH_NOT_FOUND] Path does not exist: file:/data/lake/messages. SQLSTATE: 42K03", "nothing here",
         "/data/lake/messages", "lior pipeline ingest"),
        ("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `colour` cannot be resolved.\n'Filter", "`colour`", "",
         "--where"),
        ("[PARSE_SYNTAX_ERROR] Syntax error at or near 'FORM'. SQLSTATE: 42601 (line 1, pos 9)", "'FORM'", "", "--sql"),
        ("java.io.IOException: Mkdirs failed to create file:/lake/messages/_temporary/0 (exists=false, cwd=file:/)",
         "cannot be made", "/lake/messages/_temporary/0", "writable"),
        ("java.io.FileNotFoundException: /lake/x.parquet (Permission denied)\n\tat java.base", "Permission denied",
         "/lake/x.parquet", "writable"),
        ("ModuleNotFoundError: No module named 'lior'", "does not find", "lior", "PYTHONPATH"),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: msmq. Make sure", "format msmq", "", "PYTHONPATH"),
        ("SparkException: All masters are unresponsive! Giving up.", "does not answer", "", "--master"),
        ("<_InactiveRpcError: status = StatusCode.UNAVAILABLE details = 'failed to connect'", "Spark Connect", "",
         "--master"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.", "did not start", "",
         "Java 17"),
        ("java.lang.OutOfMemoryError: Java heap space", "memory", "", "spark.driver.memory"),
        ("py4j.protocol.Py4JNetworkError: Answer from Java side is empty", "ended", "", "log.txt"),
        ("org.apache.spark.SparkException: Python worker failed to connect back.", "Python worker", "", "less busy"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.", "another run", "", "--checkpoint"),
        ("something that nobody thought of\n\tat somewhere", "nobody thought of", "Spark", "log.txt"),
    ],
)  # fmt: skip
def test_what_spark_says_is_said_in_a_line_with_a_remedy(text: str, what: str, where: str, remedy: str) -> None:
    found = explained(RuntimeError(text), "/tmp/log.txt")
    assert isinstance(found, LiorError)
    assert what in found.what and found.where == where and remedy in found.remedy, found.remedy
    assert len(found.what) <= 300 and "\n" not in found.what


def test_what_led_to_an_error_counts_too() -> None:
    try:
        try:
            raise RuntimeError("lior.errors.QueueNotFound: q: gone (MQ_ERROR_QUEUE_NOT_FOUND 0xC00E0003)")
        except RuntimeError as inner:
            raise ValueError("a batch failed") from inner
    except ValueError as error:
        assert isinstance(explained(error), QueueNotFound)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2, 3]", "yarn", "k8s://https://x:6443"])
def test_masters_of_spark_are_taken(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("master", ["", "loca", "local[x]", "sparkk://x:1", "spark://", "http://x", "yarn-client"])
def test_what_is_no_master_is_refused_before_anything_starts(master: str) -> None:
    with pytest.raises(BadConfiguration, match="no Spark master"):
        check_master(master)


def test_a_master_that_is_not_there_is_told_at_once_and_one_of_several_is_enough() -> None:
    address = loopback_address()
    for master in (f"spark://{address}:7077", f"sc://{address}", f"sc://{address}:99999", f"sc://{address}:1/;token=x"):
        with pytest.raises(ServiceNotAvailable, match="does not answer"):
            check_master(master)
    with socket.create_server((address, 0)) as listening:
        port = listening.getsockname()[1]
        check_master(f"spark://{address}:1,{address}:{port}")
        check_master(f"sc://{address}:{port}/;user_id=x")


def test_without_java_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "messages").mkdir()
    (tmp_path / "bin").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment["PATH"] = str(tmp_path / "bin")  # without java
    assert shutil.which("java", path=environment["PATH"]) is None
    done = subprocess.run([sys.executable, "-m", "lior.cli.main", "pipeline", "report", "--lake", str(tmp_path)],
                          env=environment, text=True, capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 1 and done.stdout == ""
    assert "Spark needs Java 17" in done.stderr and "apt-get install" in done.stderr
    assert len(done.stderr.splitlines()) == 3
