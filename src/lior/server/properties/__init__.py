"""Between the queue manager and the property identifiers of [MS-MQMQ] 2.3: what the RPC interfaces answer and take."""

from lior.server.properties.machine import machine_values
from lior.server.properties.management import management_machine_values, management_queue_values
from lior.server.properties.queue import NewQueue, queue_properties_from, queue_values, set_queue_values

__all__ = [
    "NewQueue",
    "machine_values",
    "management_machine_values",
    "management_queue_values",
    "queue_properties_from",
    "queue_values",
    "set_queue_values",
]
