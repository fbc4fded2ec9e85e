"""What concerns the queue manager as a whole: its properties, its rights, its network ([MS-MQDMPR] 3.1.1.1)."""

from __future__ import annotations

import json
from typing import Any, Final

from lior.errors import IllegalPropertyValue, PropertyNotAllowed
from lior.message import INFINITE
from lior.queues.access import Access, rights_to_change
from lior.queues.change import Change, Reply
from lior.queues.core import Core
from lior.queues.definition import QueueManagerProperties
from lior.queues.events import ConnectivityChanged, SupportChanged
from lior.queues.ports import PutState
from lior.security import Caller, QueueManagerAccess, SecurityDescriptor

QUEUE_MANAGER: Final = "queue manager"  # the kind under which the store keeps the properties
NEXT_QUEUE_ID: Final = "next queue id"  # what prepared transactions say of a deleted queue is not another's

_NUMBERS: Final = frozenset({"queue_manager_quota", "journal_quota", "default_time_to_reach_queue"})
_SUPPORT: Final = frozenset({"srmp_http_support", "srmp_pgm_support"})
_FLAGS: Final = frozenset(
    {
        "foreign_system",
        "remote_access_server",
        "supporting_server",
        "routing_server",
        "clustered",
        "hardened_security",
        "srmp_http_support",
        "srmp_pgm_support",
        "send_insecure_nacks",
        "literal_default_rights",
    }
)


class Machine:
    def __init__(self, core: Core, access: Access) -> None:
        self._core = core
        self._access = access

    def set_online(self, active: bool, caller: Caller, reply: Reply) -> None:
        """[MS-MQDMPR] 3.1.4.12, 3.1.4.13: offline stops the network, local queues go on."""
        self._core.require_service()
        self._access.check_manager(caller, QueueManagerAccess.SET_PROPERTIES, "queue manager")
        before = self._core.properties.connection_active
        self._core.properties.connection_active = active
        change = Change()
        if before is not active:
            self._save(change, {"connection_active": before})
            change.then(self._core.emit, ConnectivityChanged(active))
        change.answer(reply)
        self._core.submit(change)

    def set_properties(self, changes: dict[str, Any], caller: Caller, reply: Reply) -> None:
        self._core.require_service()
        self._access.check_manager(caller, QueueManagerAccess.SET_PROPERTIES, "queue manager")
        for name, value in changes.items():
            _check(name, value)
        self._apply(dict(changes), reply)

    def set_security(self, information: int, descriptor: SecurityDescriptor, caller: Caller, reply: Reply) -> None:
        self._core.require_service()
        self._access.check_manager(caller, rights_to_change(information), "queue manager")
        self._apply({"security": self._security().merge(descriptor, information)}, reply)

    def get_security(self, information: int, caller: Caller) -> SecurityDescriptor:
        self._access.check_manager(caller, QueueManagerAccess.GET_PERMISSIONS, "queue manager")
        return self._security().select(information)

    def _security(self) -> SecurityDescriptor:
        security = self._core.properties.security
        assert security is not None  # given at the first start
        return security

    def _apply(self, changes: dict[str, Any], reply: Reply) -> None:
        properties = self._core.properties
        changes["modify_time"] = int(self._core.clock.wall())
        before = {name: getattr(properties, name) for name in changes}
        for name, value in changes.items():
            setattr(properties, name, value)
        change = Change()
        self._save(change, before)
        if "hardened_security" in changes:
            for queue in self._core.outgoing.values():
                change.otherwise(setattr, queue, "state", queue.state)
                queue.follow_hardened_security(properties.hardened_security)
        if not changes.keys().isdisjoint(_SUPPORT):
            change.then(self._core.emit, SupportChanged(properties.srmp_http_support, properties.srmp_pgm_support))
        change.answer(reply)
        self._core.submit(change)

    def _save(self, change: Change, before: dict[str, Any]) -> None:
        change.operations.append(properties_record(self._core.properties))
        for name, old in before.items():
            change.otherwise(setattr, self._core.properties, name, old)


def properties_record(properties: QueueManagerProperties) -> PutState:
    return PutState(QUEUE_MANAGER, "properties", json.dumps(properties.to_json()).encode())


def _check(name: str, value: Any) -> None:
    if name in _NUMBERS:
        if not isinstance(value, int) or not 0 <= value <= INFINITE:
            raise IllegalPropertyValue(f"{value!r}", where=name, remedy=f"use a number from 0 to {INFINITE}")
    elif name in _FLAGS:
        if not isinstance(value, bool):
            raise IllegalPropertyValue(f"{value!r}", where=name, remedy="use true or false")
    elif name in QueueManagerProperties.__dataclass_fields__:
        raise PropertyNotAllowed("this property of the queue manager cannot be set", where=name)
    else:
        raise IllegalPropertyValue("the queue manager has no such property", where=name)
