"""Steps that the tests of queue properties share."""

from typing import Any

from lior.queues.queue import Queue
from lior.server.properties import queue_properties_from, queue_values, set_queue_values
from lior.testing.engine import Answer, ManualEngine
from lior.wire.properties import Values
from lior.wire.propvariant import VT_LPWSTR, VT_UI1, VT_UI4, PropVariant
from tests.server.property_answers import on_the_wire

# From the table of [MS-MQMQ] 2.3.1, by hand: the types of the properties that a workgroup's queue has
TYPES = {
    101: 72, 102: 72, 103: 31, 104: 17, 105: 19, 106: 2, 107: 19, 108: 31, 109: 3, 110: 3, 111: 17, 112: 19, 113: 17,
    114: 17, 115: 72, 124: 31, 125: 31, 1101: 65, 1102: 65, 1103: 19,
}  # fmt: skip


def read(engine: ManualEngine, queue: Queue, *propids: int, information: int = 7) -> dict[int, Any]:
    """Values alone, as they are on the wire."""
    answers = on_the_wire(queue_values(engine.manager, queue, propids, information))
    return {propid: value for propid, (_, value) in answers.items()}


def setting(engine: ManualEngine, queue: Queue, values: Values, caller: Any = None) -> tuple[int, ...]:
    answer = Answer()
    statuses = set_queue_values(engine.manager, queue, values, caller or engine.admin, answer)
    engine.commit()
    assert answer.result() is None
    return statuses


def creating(engine: ManualEngine, **values: PropVariant) -> Queue:
    given = {int(name[1:]): variant for name, variant in values.items()}
    new = queue_properties_from({103: PropVariant(VT_LPWSTR, r".\private$\q"), **given})
    queue: Queue = engine.do(engine.manager.create_queue, new.path, new.properties, engine.admin)
    return queue


def u1(value: int) -> PropVariant:
    return PropVariant(VT_UI1, value)


def u4(value: int) -> PropVariant:
    return PropVariant(VT_UI4, value)


def text(value: str) -> PropVariant:
    return PropVariant(VT_LPWSTR, value)
