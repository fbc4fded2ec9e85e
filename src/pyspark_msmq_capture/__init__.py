"""Spark finds `format("msmq-capture")` here: it asks every module named pyspark_* for its source's name."""

from lior.spark.capture import MsmqCaptureSource as DefaultSource

__all__ = ["DefaultSource"]
