"""From options to the queue manager."""

from __future__ import annotations

from lior.spark.broker import Broker, FlightBroker
from lior.spark.options import ReadOptions, WriteOptions


def broker_for(options: ReadOptions) -> Broker:
    if options.broker == "subqueue":
        from lior.spark.subqueues import SubqueueBroker  # it needs the RPC client

        return SubqueueBroker(options.address, options.queue_names, options.credentials_file)
    return flight_for(options)


def flight_for(options: ReadOptions | WriteOptions) -> FlightBroker:
    patience = options.fetch_timeout if isinstance(options, ReadOptions) else 60.0
    return FlightBroker(options.address, options.credentials_file, options.ca_file, patience)
