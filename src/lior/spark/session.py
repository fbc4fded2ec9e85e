"""Spark sessions for the jobs: small, quiet, and with this interpreter in the executors."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from lior.errors import BadConfiguration, ServiceNotAvailable

PATIENCE: Final = 10.0  # seconds for a master to take a connection
JAVA: Final = "Spark needs Java 17 or newer"
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # a session lives for a job: quick to start goes before quick in the long run
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
_EVERYWHERE: Final = {"spark.sql.session.timeZone": "UTC"}


@contextmanager
def session(
    master: str = "local[*]", name: str = "lior", settings: dict[str, str] | None = None, log: str = ""
) -> Iterator[Any]:
    """`master` is Spark's, or sc://host:port for Spark Connect. A session that is there already is used, and left as
    it is. What Spark prints goes into the file `log`, if one is named."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise BadConfiguration("pyspark is not installed", where="lior pipeline",
                               remedy="pip install 'lior[spark]'") from error
    found = SparkSession.getActiveSession()
    if found is not None:
        yield found
        return
    check_master(master)
    if master.startswith("sc://"):
        spark = _remote(SparkSession.builder, master, settings or {})
    else:
        require_java()
        with _stderr_in(log):
            spark = _classic(SparkSession.builder, master, name, settings or {})
    try:
        yield spark
    finally:
        spark.stop()


def _remote(builder: Any, master: str, settings: dict[str, str]) -> Any:
    try:
        builder = builder.remote(master)
        for key, value in {**_EVERYWHERE, **settings}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    except ImportError as error:
        raise BadConfiguration(f"Spark Connect needs more packages: {error}"[:300], where=master,
                               remedy="pip install 'lior[spark]'") from error


def _classic(builder: Any, master: str, name: str, settings: dict[str, str]) -> Any:
    builder = builder.master(master).appName(name)
    local = master.startswith(("local", "spark://127."))
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for key, value in {**(_LOCAL if local else {}), **_EVERYWHERE, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def _stderr_in(log: str) -> Iterator[None]:
    """A process that is started meanwhile, Spark's JVM, keeps this file as its standard error."""
    if not log:
        yield
        return
    sys.stderr.flush()
    ours, file = os.dup(2), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(file)


def check_master(master: str) -> None:
    """Spark would start a JVM first, or try for minutes to reach it."""
    kind, mark, rest = master.partition("://")
    if not mark:
        right = re.fullmatch(r"local(\[(\*|\d+)(,\s*\d+)?\]|-cluster\[[\d, ]+\])?|yarn", master) is not None
    else:
        right = bool(rest) and kind in ("spark", "k8s", "sc")
    if not right:
        raise BadConfiguration(f"{master!r:.100} is no Spark master", where="master",
                               remedy="use local[*], spark://host:7077, yarn, k8s://... or sc://host")
    if kind not in ("spark", "sc") or not mark:
        return
    default, what = (7077, "the Spark master") if kind == "spark" else (15002, "the server of Spark Connect")
    for each in rest.partition("/")[0].split(","):
        try:
            place = urlsplit(f"//{each}")
            with socket.create_connection((place.hostname or "", place.port or default), PATIENCE):
                return
        except (OSError, ValueError):
            continue
    raise ServiceNotAvailable(f"{what} does not answer", where=master, remedy="check --master, and that it is up")


def require_java() -> None:
    home = os.environ.get("JAVA_HOME", "")
    if shutil.which("java") is None and not (home and os.path.exists(os.path.join(home, "bin", "java"))):
        raise BadConfiguration(f"{JAVA}, and there is none", where="java",
                               remedy="apt-get install openjdk-17-jre-headless, or set JAVA_HOME")
