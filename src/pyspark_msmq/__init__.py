"""Spark looks for a module of this name when it reads `format("msmq")`: no registration is needed."""

from lior.spark.source import MsmqDataSource as DefaultSource

__all__ = ["DefaultSource"]
