"""Creating, changing and deleting queues ([MS-MQDMPR] 3.1.7.1.3, 3.1.7.1.4); outgoing queues by hand."""

from __future__ import annotations

from itertools import islice
from typing import Any

from lior.errors import (
    IllegalPropertyValue,
    IllegalQueuePathname,
    NoDirectory,
    PropertyNotAllowed,
    QueueDeleted,
    QueueExists,
    QueueNotAvailable,
    UnsupportedOperation,
)
from lior.message import MessageClass
from lior.names import PathKind, PathName, QueueSuffix, parse_path_name, private_queue_number
from lior.queues.access import Access, rights_to_change
from lior.queues.change import Change, Reply
from lior.queues.core import Core
from lior.queues.definition import QueueProperties, QueueType
from lior.queues.descriptor import OpenQueueDescriptor, QueueAccessType, TwoPhaseRead
from lior.queues.events import OutgoingStateChanged, QueueChanged
from lior.queues.machine import NEXT_QUEUE_ID, QUEUE_MANAGER
from lior.queues.outgoing import INCOMING, OutgoingQueue, OutgoingState
from lior.queues.ports import DeleteQueue, DeleteState, PutState
from lior.queues.position import Position, State, Step
from lior.queues.queue import Queue
from lior.queues.reading import Reading
from lior.queues.removal import PURGE_CHUNK, Removal, require_unclaimed
from lior.queues.transaction import Transaction, TransactionState
from lior.security import Caller, QueueAccess, QueueManagerAccess, SecurityDescriptor

# Of [MS-MQMQ] 2.3.1, under their names here: given at creation, never set
READ_ONLY = frozenset(
    {"identifier", "path", "pathname", "name", "private_number", "create_time", "modify_time", "scope", "kind"}
)

Handle = tuple[Queue, OpenQueueDescriptor]


class Administration:
    def __init__(self, core: Core, access: Access, removal: Removal, reading: Reading) -> None:
        self._core = core
        self._access = access
        self._removal = removal
        self._reading = reading
        self._names_in_change: dict[str, int] = {}  # path and number of what is not committed yet

    # Create

    def create(self, path: PathName | str, properties: QueueProperties, caller: Caller, reply: Reply) -> None:
        """Answers the new Queue, which others see from then on."""
        self._core.require_service()
        if isinstance(path, str):
            path = parse_path_name(path)
        self._check_path(path)
        properties = properties.checked()
        key = path.local_key
        if key in self._core.paths or key in self._names_in_change:
            raise QueueExists(
                "a queue of this name exists", where=str(path), remedy="choose another name, or open the one there is"
            )
        self._access.check_manager(caller, QueueManagerAccess.CREATE_QUEUE, str(path))
        if properties.base_priority:
            properties = properties.changed(base_priority=0)  # [MS-MQMQ] 2.3.1.6: public queues only
        security = self._access.default_descriptor(caller, properties.security)
        queue = self._build(path, properties.changed(security=security))
        change = Change()
        self._names_in_change[key] = queue.private_number
        assert queue.journal is not None
        change.operations += [queue.definition(), queue.journal.definition()]
        change.then(self._created, queue, key)
        change.otherwise(self._not_created, key)
        change.answer(reply, queue)
        self._core.submit(change)

    def _check_path(self, path: PathName) -> None:
        if path.kind is PathKind.PUBLIC:
            raise NoDirectory(
                "public queues are published in a directory service, and this queue manager has none",
                where=str(path),
                remedy=rf"create a private queue: .\private$\{path.queue}",
            )
        if path.kind is PathKind.SYSTEM or path.subqueue or path.suffix is not QueueSuffix.NONE:
            raise IllegalQueuePathname(
                "system queues, journals and subqueues are not created by hand",
                where=str(path),
                remedy="a subqueue is made when it is opened, a journal with its queue",
            )
        if not self._core.local.is_local(path.computer):
            raise IllegalQueuePathname(
                f"{path.computer} is another computer",
                where=str(path),
                remedy=rf"create it there, or write .\private$\{path.queue}",
            )

    def _build(self, path: PathName, properties: QueueProperties) -> Queue:
        core = self._core
        now = int(core.clock.wall())
        number = self._free_number(path)
        spelled = str(path)[len(path.computer) + 1 :]
        queue = Queue(
            core.take_queue_id(),
            QueueType.PRIVATE,
            spelled,
            properties,
            identifier=core.ids.guid(),
            path=path.with_computer(core.properties.computer_name),
            private_number=number,
            create_time=now,
            modify_time=now,
            cache=core.cache,
        )
        queue.journal = make_journal(core, queue)
        return queue

    def _free_number(self, path: PathName) -> int:
        """The number the name suggests, or the next free one (DM-084)."""
        number = private_queue_number(str(path))
        taken = self._names_in_change.values()
        while number in self._core.private_numbers or number in taken or number == 0:
            number = (number + 1) & 0xFFFFFFFF
        return number

    def _created(self, queue: Queue, key: str) -> None:
        del self._names_in_change[key]
        queue.mark_persisted()
        register(self._core, queue)
        self._core.emit(QueueChanged(queue, "created"))

    def _not_created(self, key: str) -> None:
        del self._names_in_change[key]

    # Change

    def set_properties(self, queue: Queue, changes: dict[str, Any], caller: Caller, reply: Reply) -> None:
        self._core.require_service()
        self._require_ordinary(queue, "change")
        self._access.check_queue(caller, queue, QueueAccess.SET_QUEUE_PROPERTIES)
        for name in sorted(set(changes) - set(QueueProperties.__dataclass_fields__)):
            if name in READ_ONLY:
                raise PropertyNotAllowed(f"{name} never changes", where=queue.name)
            raise IllegalPropertyValue(f"unknown property {name}", where=queue.name)
        for fixed in ("transactional", "security"):
            if fixed in changes and changes[fixed] != getattr(queue.properties, fixed):
                remedy = "set_security changes rights" if fixed == "security" else "create another queue and move over"
                raise PropertyNotAllowed(f"{fixed} cannot be changed so", where=queue.name, remedy=remedy)
        if not changes:
            reply.set_result(None)  # nothing to keep, and the time of the last change stays
            return
        properties = queue.properties.changed(**changes)
        self._change(queue, properties.changed(base_priority=0), reply)  # as at creation

    def set_security(
        self, queue: Queue, information: int, descriptor: SecurityDescriptor, caller: Caller, reply: Reply
    ) -> None:
        self._core.require_service()
        self._require_ordinary(queue, "change the rights of")
        self._access.check_queue(caller, queue, rights_to_change(information))
        merged = self._access.descriptor_of(queue).merge(descriptor, information)
        self._change(queue, queue.properties.changed(security=merged), reply)

    def get_security(self, queue: Queue, information: int, caller: Caller) -> SecurityDescriptor:
        if queue.kind in (QueueType.SYSTEM, QueueType.OUTGOING):
            raise UnsupportedOperation(
                "this queue has the rights of the queue manager", where=queue.name, remedy="ask for those"
            )
        self._access.check_queue(caller, queue, QueueAccess.GET_PERMISSIONS)
        return self._access.descriptor_of(queue).select(information)

    def _change(self, queue: Queue, properties: QueueProperties, reply: Reply) -> None:
        before = (queue.properties, queue.modify_time)
        queue.properties = properties
        queue.modify_time = int(self._core.clock.wall())
        change = Change()
        change.operations.append(queue.definition())
        change.otherwise(self._restore, queue, *before)
        change.then(self._core.emit, QueueChanged(queue, "changed"))
        change.answer(reply)
        self._core.submit(change)

    def _restore(self, queue: Queue, properties: QueueProperties, modify_time: int) -> None:
        queue.properties, queue.modify_time = properties, modify_time

    def _require_there(self, queue: Queue) -> None:
        if queue.deleted:
            raise QueueDeleted("the queue was deleted", where=queue.name, remedy="see: lior queue list")

    def _require_ordinary(self, queue: Queue, what: str) -> None:
        self._require_there(queue)
        if queue.is_system or queue.parent is not None or isinstance(queue, OutgoingQueue):
            raise UnsupportedOperation(f"cannot {what} a system queue, journal or subqueue", where=queue.name)

    # Purge and delete

    def purge(self, queue: Queue, caller: Caller, reply: Reply) -> None:
        self._core.require_service()
        self._require_there(queue)
        self._access.check_open(caller, queue, QueueAccessType.RECEIVE)
        self._removal.purge(queue, reply)

    def delete(self, queue: Queue, caller: Caller, reply: Reply) -> None:
        """Every message goes with NackQueueDeleted, locked ones too; then the queue, its subqueues and
        its journal, in one change with the last of them."""
        self._core.require_service()
        self._require_ordinary(queue, "delete")
        self._access.check_queue(caller, queue, QueueAccess.DELETE_QUEUE)
        for member in _family_and_journal(queue):
            require_unclaimed(member, "deleted")
        handles = [handle for member in _family_and_journal(queue) for handle in self._detach(member)]
        self._delete_when_settled(queue, handles, reply)

    def _delete_when_settled(self, queue: Queue, handles: list[Handle], reply: Reply) -> None:
        """Changes under way may still bring messages in or give some back: those come first, so that
        whatever is in the queue then goes with its reason."""
        family = _family(queue)
        change = Change()
        change.otherwise(self._not_deleted, queue, handles)
        settled = not any(member.staged_inserts or _in_change(member) for member in family)
        if not (settled and self._stage_deletion(change, family)):
            change.ordered = True
            change.then(self._delete_when_settled, queue, handles, reply)
            change.refuse(reply)
            self._core.submit(change)
            return
        for member in _family_and_journal(queue):
            change.operations.append(DeleteQueue(member.queue_id))
        self._forget_streams(change, queue)
        change.operations.append(PutState(QUEUE_MANAGER, NEXT_QUEUE_ID, str(self._core.next_queue_id).encode()))
        change.then(self._deleted, queue)
        change.answer(reply)
        self._core.submit(change)

    def _stage_deletion(self, change: Change, family: list[Queue]) -> bool:
        """Remove what is in the queues; False if there is more than one change should hold."""
        reason = MessageClass.NACK_Q_DELETED
        room = PURGE_CHUNK
        for member in family:
            ids = list(islice(member.available, room))
            room -= len(ids)
            for position in self._removal.positions(member, ids):
                self._removal.stage(change, position, reason)
            if not room:
                return False
        for member in family:
            for position in sorted(member.locked_positions(), key=_by_lookup_id):
                if position.owner is not change:
                    change.otherwise(self._free_if_ended, position)
                    self._removal.stage(change, position, reason)
        return True

    def _free_if_ended(self, position: Position) -> None:
        """The queue stays after all. Who held the message may have ended meanwhile, without it."""
        owner = position.owner
        if isinstance(owner, Transaction):
            ended = owner.state in (TransactionState.ENDING, TransactionState.ENDED)
        else:
            ended = isinstance(owner, TwoPhaseRead) and owner.handle not in self._reading.two_phase
        if ended:
            self._removal.release(position)

    def _forget_streams(self, change: Change, queue: Queue) -> None:
        for key in [key for key in self._core.incoming if key.startswith(f"{queue.queue_id}/")]:
            change.operations.append(DeleteState(INCOMING, key))
            change.then(self._forget_stream, key)

    def _forget_stream(self, key: str) -> None:
        self._core.incoming.pop(key, None)

    def _detach(self, queue: Queue) -> list[Handle]:
        """Nobody gets at the queue from here on; who waits learns it now. Gives the handles, for the case
        that the queue stays."""
        queue.deleted = True
        handles = [(queue, descriptor) for descriptor in queue.descriptors]
        for descriptor in queue.descriptors:
            for wait in list(queue.waiters):
                if wait.descriptor is descriptor:
                    queue.waiters.remove(wait)
                    wait.give_up(_gone(queue))
            descriptor.queue = None
        queue.descriptors.clear()
        return handles

    def _deleted(self, queue: Queue) -> None:
        core = self._core
        for member in _family_and_journal(queue):
            core.count_bytes(member, -member.total_bytes)
            member.total_bytes = 0
            for position in list(member.positions.values()):
                if position.state is State.AVAILABLE:
                    member.lock(position, self)
                if position.state is not State.DELETED and position.state is not State.STAGED:
                    position.step(Step.DELETE)
            member.positions.clear()
            core.queues.pop(member.queue_id, None)
            core.identifiers.pop(member.identifier, None)
        core.private_numbers.pop(queue.private_number, None)
        core.paths.pop(queue.name.casefold(), None)
        core.emit(QueueChanged(queue, "deleted"))

    def _not_deleted(self, queue: Queue, handles: list[Handle]) -> None:
        family = _family_and_journal(queue)
        for member in family:
            member.deleted = False
        for member, descriptor in handles:
            if not descriptor.closed:
                descriptor.queue = member
                member.descriptors.append(descriptor)
        for member in family:
            self._removal.after_removal(member)  # a subqueue whose last handle was closed meanwhile

    # Outgoing queues

    def pause(self, queue: OutgoingQueue, caller: Caller, reply: Reply) -> None:
        """[MS-MQDMPR] 3.1.4.14. The hold survives a restart."""
        self._hold(queue, OutgoingState.ON_HOLD, caller, reply)

    def resume(self, queue: OutgoingQueue, caller: Caller, reply: Reply) -> None:
        """[MS-MQDMPR] 3.1.4.15"""
        if queue.state is OutgoingState.ON_HOLD:
            self._hold(queue, OutgoingState.INACTIVE, caller, reply)
        else:
            reply.set_result(None)

    def _hold(self, queue: OutgoingQueue, state: OutgoingState, caller: Caller, reply: Reply) -> None:
        self._core.require_service()
        self._access.check_manager(caller, QueueManagerAccess.SET_PROPERTIES, queue.name)
        before = queue.state
        change = Change()
        if queue.change_state(state):
            change.operations.append(queue.definition())
            change.then(queue.mark_persisted)
            change.then(self._held, queue, state)
            change.then(self._core.emit, OutgoingStateChanged(queue, state.value))
            change.otherwise(setattr, queue, "state", before)
        change.answer(reply)
        self._core.submit(change)

    def _held(self, queue: OutgoingQueue, state: OutgoingState) -> None:
        """As stored, although an earlier change may have failed meanwhile and taken its state back."""
        if OutgoingState.ON_HOLD in (queue.state, state):
            queue.state = state


def make_journal(core: Core, queue: Queue) -> Queue:
    """The journal of a queue; its quota is the queue's JournalQuota."""
    return Queue(
        core.take_queue_id(),
        QueueType.JOURNAL,
        f"{queue.name};JOURNAL",
        QueueProperties(quota=queue.properties.journal_quota),
        identifier=core.ids.guid(),
        path=None if queue.path is None else queue.path.journal(),
        create_time=queue.create_time,
        parent=queue,
        cache=core.cache,
    )


def register(core: Core, queue: Queue) -> None:
    """Put a queue and its journal where names and ids find them."""
    core.queues[queue.queue_id] = queue
    core.paths[queue.name.casefold()] = queue
    core.identifiers[queue.identifier] = queue
    if queue.private_number:
        core.private_numbers[queue.private_number] = queue
    if queue.journal is not None:
        queue.journal.mark_persisted()
        core.queues[queue.journal.queue_id] = queue.journal


def _family(queue: Queue) -> list[Queue]:
    return [*(queue.subqueues[name] for name in sorted(queue.subqueues)), queue]


def _family_and_journal(queue: Queue) -> list[Queue]:
    return _family(queue) if queue.journal is None else [*_family(queue), queue.journal]


def _in_change(queue: Queue) -> bool:
    return any(isinstance(position.owner, Change) for position in queue.locked_positions())


def _by_lookup_id(position: Position) -> int:
    return position.lookup_id


def _gone(queue: Queue) -> QueueNotAvailable:
    return QueueNotAvailable("the queue was deleted while the read waited", where=queue.name)
