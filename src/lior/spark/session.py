"""Spark sessions for the jobs: small, quiet, and with this interpreter in the executors."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from lior.errors import BadConfiguration

JAVA: Final = "Spark needs Java 17 or newer"
_LOCAL: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # a session lives for a job: quick to start goes before quick in the long run
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@contextmanager
def session(master: str = "local[*]", name: str = "lior", settings: dict[str, str] | None = None) -> Iterator[Any]:
    """`master` is Spark's, or sc://host:port for Spark Connect."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise BadConfiguration("pyspark is not installed", where="lior pipeline",
                               remedy="pip install 'lior[spark]'") from error
    builder: Any = SparkSession.builder
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        require_java()
        builder = builder.master(master).appName(name)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            for key, value in _LOCAL.items():
                builder = builder.config(key, value)
    for key, value in {"spark.sql.session.timeZone": "UTC", **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if not master.startswith("sc://"):
        spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def require_java() -> None:
    home = os.environ.get("JAVA_HOME", "")
    if shutil.which("java") is None and not (home and os.path.exists(os.path.join(home, "bin", "java"))):
        raise BadConfiguration(f"{JAVA}, and there is none", where="java",
                               remedy="apt-get install openjdk-17-jre-headless, or set JAVA_HOME")
