"""Queues as Spark sources and sinks: `format("msmq")`, and the jobs of `lior pipeline`. Needs `lior[spark]`."""
