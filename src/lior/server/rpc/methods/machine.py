"""qmcomm: what a client asks of the queue manager itself ([MS-MQMP] 3.1.4.23, 3.1.4.24)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lior.errors import InvalidParameter, NoDirectory
from lior.server.rpc.methods.answers import OK, Values
from lior.server.rpc.methods.service import QueueService, method

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

DIRECTORY_SERVERS, TIME_TO_REACH_QUEUE, FOREST, VERSION, QUEUE_MANAGER = range(5)
MSMQ_VERSION: Final = "6.3.9600"  # of the last version whose numbers fit the grammar of 3.1.4.23
IP_HANDSHAKE, IP_READ = 0, 1


def _query_failed(request: Any, code: int) -> Values:
    return (None, code)


def _query_registry(service: QueueService, call: Call, request: Any) -> Values:
    properties = service.core.properties
    kind = request.dw_query_type
    if kind == TIME_TO_REACH_QUEUE:
        return (str(properties.default_time_to_reach_queue), OK)
    if kind == VERSION:
        return (MSMQ_VERSION, OK)
    if kind == QUEUE_MANAGER:
        return (str(properties.identifier).upper(), OK)
    if kind == DIRECTORY_SERVERS:
        return ("", OK)  # none: clients are told to call this, and an empty list stops none of them
    if kind == FOREST:
        raise NoDirectory("there is no forest: this queue manager has no directory service", where="dwQueryType")
    raise InvalidParameter(f"query {kind}", where="dwQueryType", remedy="use 0 to 4")


def port_of(service: QueueService, kind: int) -> int:
    """The port for an interface and a protocol; 0 for none. SPX is spoken no more."""
    if kind == IP_HANDSHAKE:
        return service.ports.handshake()
    return service.ports.read() if kind == IP_READ else 0


def _port(service: QueueService, call: Call, request: Any) -> Values:
    return (port_of(service, request.f_ip),)


METHODS: Final = {
    28: method(_query_registry, _query_failed),
    31: method(_port, lambda request, code: (0,), gated=False),
}
