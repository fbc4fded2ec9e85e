"""The calls of a queue manager over the plain lists of `model`: reading, transactions, queues, crashes."""

from __future__ import annotations

from typing import Any

from tests.properties.model import (
    ARRIVED,
    FOREVER,
    NOT_RECEIVED,
    QUEUE_DELETED,
    RECEIVED,
    START,
    Curs,
    Desc,
    Entry,
    Model,
    Op,
    Q,
    Read,
    Refused,
    Tx,
    Wait,
)


class ModelManager(Model):
    # Sending

    def send(self, token: int, descs: list[Desc], entry: Entry, tx: Tx | None) -> None:
        queues = [self.live(desc) for desc in descs]
        for queue in queues:
            if queue.kind != "outgoing" and queue.transactional != (tx is not None):
                raise Refused("TransactionUsage")
        if not all(self.room(queue, entry.size, len(queues)) for queue in queues):
            raise Refused("InsufficientResources")
        op = Op()
        self.reserved = [] if tx is not None else [(queue, entry.size) for queue in queues]
        for queue in queues:
            del self.reserved[:1]
            copy = entry.copy(queue=queue)
            if tx is not None:
                copy.priority, copy.durable, copy.in_transaction = 0, True, True
                tx.operations.append(["send", copy, True])
            else:
                self.arrive(op, queue, copy)
        op.actions.append(("tell", token, "sent"))
        self.submit(op)

    def handle(self, queue: Q) -> Desc:
        self.descs.append(Desc(queue))
        return self.descs[-1]

    def live(self, desc: Desc) -> Q:
        if desc.queue is None:
            raise Refused("QueueNotAvailable")
        return desc.queue

    # Reading

    def take(self, desc: Desc, entry: Entry, tx: Tx | None, two_phase: bool, token: int,
             before: tuple[Any, ...] = (), shown: bool = False) -> None:
        if tx is not None:
            tx.operations.append(["take", entry, RECEIVED])
            entry.state, entry.holder, entry.shown = "held", tx, shown
            self.do_tell(token, "message", entry)
        elif two_phase:
            read = Read(desc, entry)
            self.reads.append(read)
            entry.state, entry.holder, entry.shown = "held", read, shown
            self.do_tell(token, "read", entry, read)
        else:
            op = Op()
            self.remove(op, entry, RECEIVED)
            op.actions += [("cursor", *before)] if before else []
            op.actions.append(("tell", token, "message", entry))
            self.submit(op)

    def do_cursor(self, cursor: Curs, at: tuple[int, int], state: str) -> None:
        pass

    def undo_cursor(self, cursor: Curs, at: tuple[int, int], state: str) -> None:
        """The message is still there, ahead of the cursor or under it."""
        cursor.at = min(at, cursor.at)
        if cursor.state in ("read", "unread"):
            cursor.state = state

    def check_tx(self, queue: Q, tx: Tx | None) -> None:
        if tx is not None and not queue.transactional and not queue.system and queue.kind != "outgoing":
            raise Refused("TransactionUsage")

    def receive(self, token: int, desc: Desc, timeout: float | None, cursor: Curs | None, tx: Tx | None,
                two_phase: bool, tag: object) -> None:
        queue = self.live(desc)
        self.check_tx(queue, tx)
        before = () if cursor is None else (cursor, cursor.at, cursor.state)
        found = self.beyond(queue, START if cursor is None else cursor.at, False)
        if cursor is not None and cursor.state == "read":
            found = next((e for e in self.of(queue, "available") if e.place == cursor.at), None)
            if found is None:
                raise Refused("MessageAlreadyReceived")
            cursor.state = "unread"
        elif cursor is not None and cursor.state != "unread":
            raise Refused("IllegalCursorAction")
        if found is None:
            if timeout == 0 and cursor is not None:
                raise Refused("MessageNotFound")
            self.wait(token, desc, timeout, True, cursor, tx, two_phase, tag)
            return
        if cursor is not None:
            cursor.at = found.place
        self.take(desc, found, tx, two_phase, token, before)

    def wait(self, token: int, desc: Desc, timeout: float | None, takes: bool, cursor: Curs | None, tx: Tx | None,
             two_phase: bool, tag: object) -> None:
        if timeout == 0:
            raise Refused("Timeout")
        deadline = None if timeout is None else self.uptime + timeout
        wait = Wait(token, desc, self.live(desc), takes, deadline, cursor, tx, two_phase, tag)
        if cursor is not None:
            wait.resume, cursor.state = cursor.state, "waiting"
        self.waits.append(wait)

    def give_up(self, waits: list[Wait], error: str) -> None:
        for wait in waits:
            self.waits.remove(wait)
            if wait.cursor is not None:
                wait.cursor.state = wait.resume
            self.do_tell(wait.token, "error", error)

    def peek(self, token: int, desc: Desc, timeout: float | None, cursor: Curs | None, tag: object) -> None:
        queue = self.live(desc)
        if cursor is not None and cursor.state == "read":
            found = next((e for e in self.visible(queue, True) if e.place == cursor.at), None)
            if found is None:
                raise Refused("MessageAlreadyReceived")
        elif cursor is not None and cursor.state != "unread":
            raise Refused("IllegalCursorAction")
        else:
            found = self.beyond(queue, START if cursor is None else cursor.at, True)
        self.shown_to(token, desc, found, timeout, cursor, tag)

    def peek_next(self, token: int, desc: Desc, timeout: float | None, cursor: Curs, tag: object) -> None:
        queue = self.live(desc)
        if cursor.state != "read":
            raise Refused("IllegalCursorAction")
        self.shown_to(token, desc, self.beyond(queue, cursor.at, True), timeout, cursor, tag)

    def shown_to(self, token: int, desc: Desc, found: Entry | None, timeout: float | None, cursor: Curs | None,
                 tag: object) -> None:
        if found is None:
            self.wait(token, desc, timeout, False, cursor, None, False, tag)
            return
        if cursor is not None:
            cursor.at, cursor.state = found.place, "read"
        self.do_tell(token, "message", found)

    def lookup(self, token: int, desc: Desc, entry: Entry | None, action: str, peek: bool, tx: Tx | None,
               two_phase: bool, allow_peek: bool) -> None:
        queue = self.live(desc)
        self.check_tx(queue, tx)
        entry = self.same(queue, entry)
        seen = self.visible(queue, peek)
        known = entry is not None and entry in self.of(queue, "available", "held")
        if action == "first":
            found = seen[0] if seen else None
        elif action == "last":
            found = seen[-1] if seen else None
        elif not known or entry is None:
            found = None
        elif action == "next":
            found = next((e for e in seen if e.place > entry.place), None)
        elif action == "previous":
            found = next((e for e in reversed(seen) if e.place < entry.place), None)
        else:
            found = entry if entry in seen else None
            if found is None:
                raise Refused("TransactionUsage" if peek else "MessageLocked")
        if found is None:
            raise Refused("MessageNotFound")
        if peek:
            self.do_tell(token, "message", found)
        else:
            self.take(desc, found, tx, two_phase, token, (), allow_peek)

    def end(self, token: int, read: Read, delete: bool) -> None:
        if read.ended:
            raise Refused("TransactionSequence")
        read.ended = True
        self.reads.remove(read)
        if read.desc.queue is None:
            raise Refused("QueueNotAvailable")
        op = Op()
        if delete or read.entry.purged:
            op.actions.append(("end_read", read))
            self.remove(op, read.entry, self.purge_reason(read.entry.queue) if read.entry.purged else RECEIVED)
        else:
            op.actions.append(("release", read.entry, read))
        op.actions.append(("tell", token, "done"))
        self.submit(op)

    def do_end_read(self, read: Read) -> None:
        pass

    def undo_end_read(self, read: Read) -> None:
        if read.desc.closed:
            self.do_release(read.entry, read)
        else:
            read.ended = False
            self.reads.append(read)

    def do_release(self, entry: Entry, holder: object) -> None:
        if entry.state == "held" and entry.holder is holder:
            self.release(entry)

    def close(self, desc: Desc) -> None:
        desc.closed = True
        self.give_up([w for w in self.waits if w.desc is desc], "OperationCancelled")
        for read in [r for r in self.reads if r.desc is desc]:
            self.reads.remove(read)
            read.ended = True
            self.do_release(read.entry, read)
        desc.queue = None

    def close_cursor(self, cursor: Curs) -> None:
        self.give_up([w for w in self.waits if w.cursor is cursor], "OperationCancelled")

    def cancel(self, queue: Q, tag: object) -> None:
        found = [w for w in self.waits if w.queue is queue and w.tag == tag]
        if not found:
            raise Refused("WaitNotFound")
        self.give_up(found[:1], "OperationCancelled")

    # Moving and rejecting

    def same(self, queue: Q, entry: Entry | None) -> Entry | None:
        """The message that has the lookup id in this queue; while it moves, two queues know the id."""
        found = [e for e in self.of(queue, "available", "held") if entry is not None and e.lookup_id == entry.lookup_id]
        return found[0] if found else None

    def move(self, token: int, source: Desc, entry: Entry | None, target: Desc, tx: Tx | None) -> None:
        here, there = self.live(source), self.live(target)
        if here.main is not there.main or here.system or there.system or here is there:
            raise Refused("UnsupportedOperation")
        if tx is not None and not here.transactional and not here.main.transactional:
            raise Refused("TransactionUsage")
        entry = self.same(here, entry)
        if entry is None or entry.state != "available":
            raise Refused("MessageNotFound")
        if tx is not None:
            tx.operations.append(["move", entry, there])
            entry.state, entry.holder = "held", tx
            self.do_tell(token, "done")
            return
        op = Op()
        self.move_in(op, entry, there)
        op.actions.append(("tell", token, "done"))
        self.submit(op)

    def reject(self, token: int, desc: Desc, entry: Entry | None, tx: Tx) -> None:
        queue = self.live(desc)
        entry = self.same(queue, entry)
        if entry is None:
            raise Refused("MessageNotFound")
        for operation in tx.operations:
            if operation[0] == "take" and operation[1] is entry:
                operation[2] = 0xC004
                self.do_tell(token, "done")
                return
        raise Refused("TransactionUsage")

    # Transactions

    def begin(self, identifier: Any) -> Tx:
        self.transactions.append(Tx(identifier))
        return self.transactions[-1]

    def open_tx(self, tx: Tx) -> None:
        if tx.state in ("ending", "ended"):
            raise Refused("TransactionSequence")

    def prepare(self, token: int, tx: Tx) -> None:
        if tx.state != "active":
            raise Refused("TransactionSequence")
        tx.state = "preparing"
        self.give_up([w for w in self.waits if w.tx is tx], "OperationCancelled")
        self.submit(Op([("prepared", tx), ("tell", token, "done")], True))

    def do_prepared(self, tx: Tx) -> None:
        tx.stored, tx.state = True, "prepared"

    def undo_prepared(self, tx: Tx) -> None:
        if tx.state == "ending":
            self.undo_begin_end(tx, "active")
        else:
            tx.state = "active"

    def decide_later(self, token: int, tx: Tx, call: str) -> bool:
        """True while nobody knows whether the preparation gets to the disk."""
        if tx.state == "preparing":
            self.submit(Op([("decide", token, tx, call)], True))
        return tx.state == "preparing"

    def do_decide(self, token: int, tx: Tx, call: str) -> None:
        try:
            getattr(self, call)(token, tx)
        except Refused as error:
            self.do_tell(token, "error", str(error))

    def undo_decide(self, token: int, tx: Tx, call: str) -> None:
        if tx.state == "preparing":
            tx.state = "ending"
        elif tx.state == "active":
            self.undo_begin_end(tx, "active")
        self.undo_tell(token)

    def commit(self, token: int, tx: Tx) -> None:
        self.open_tx(tx)
        if self.decide_later(token, tx, "commit"):
            return
        self.give_up([w for w in self.waits if w.tx is tx], "OperationCancelled")
        op = Op([("begin_end", tx, tx.state)], tx.state == "prepared")
        tx.state = "ending"
        for operation in tx.operations:
            kind, entry, more = operation
            if kind == "send":
                op.actions.append(("uncount", operation))
                operation[2] = False
                if entry.queue.deleted:
                    self.follow(op, entry, QUEUE_DELETED)
                else:
                    self.arrive(op, entry.queue, entry)
            elif entry.state != "held" or entry.holder is not tx:
                continue
            elif kind == "take":
                self.remove(op, entry, more)
            elif more.deleted:
                self.remove(op, entry, QUEUE_DELETED)
            else:
                self.move_in(op, entry, more)
        op.actions += [("ended", tx), ("tell", token, "done")]
        self.submit(op)

    def do_uncount(self, operation: list[Any]) -> None:
        operation[2] = False

    def undo_uncount(self, operation: list[Any]) -> None:
        operation[2] = True

    def do_begin_end(self, tx: Tx, before: str) -> None:
        pass

    def undo_begin_end(self, tx: Tx, before: str) -> None:
        """The commit or the abort could not be stored: in doubt if prepared, else aborted."""
        if before == "prepared":
            tx.state = "prepared"
            return
        for operation in tx.operations:
            if operation[0] == "send":
                operation[2] = False
            else:
                self.do_release(operation[1], tx)
        self.do_ended(tx)

    def do_ended(self, tx: Tx) -> None:
        tx.state = "ended"
        if tx in self.transactions:
            self.transactions.remove(tx)

    def abort(self, token: int, tx: Tx) -> None:
        self.open_tx(tx)
        if self.decide_later(token, tx, "abort"):
            return
        self.give_up([w for w in self.waits if w.tx is tx], "OperationCancelled")
        op = Op([("begin_end", tx, tx.state)], tx.state == "prepared")
        tx.state = "ending"
        for operation in tx.operations:
            kind, entry, _ = operation
            if kind == "send":
                op.actions.append(("uncount", operation))
            elif entry.state == "held" and entry.holder is tx:
                self.give_back(op, entry, tx)
        op.actions += [("ended", tx), ("tell", token, "done")]
        self.submit(op)

    def give_back(self, op: Op, entry: Entry, tx: Tx) -> None:
        entry.aborts += 1
        op.actions.append(("counted", entry, not entry.purged))
        queue, limit = entry.queue, entry.queue.main.max_aborts
        poison = None if queue.main.deleted else self.subqueue(queue.main, "poison")
        poisoned = limit is not None and not queue.system and not entry.purged and entry.aborts > limit
        if poisoned and poison is not None and poison is not queue:
            self.move_in(op, entry, poison)
            return
        op.waits_for_store |= entry.durable and not entry.purged
        op.actions.append(("release", entry, tx))

    def do_counted(self, entry: Entry, stored: bool) -> None:
        if stored:
            entry.stored_aborts = entry.aborts

    def undo_counted(self, entry: Entry, stored: bool) -> None:
        entry.aborts -= 1

    # Queues

    def subqueue(self, parent: Q, name: str) -> Q:
        full = f"{parent.name};{name}"
        return self.queues.get(full) or self.add(Q(full, parent=parent, kind="sub", transactional=parent.transactional))

    def create(self, token: int, queue: Q) -> None:
        if queue.name in self.queues or queue.name in self.leaving:
            raise Refused("QueueExists")
        self.leaving.add(queue.name)
        self.submit(Op([("create", queue), ("tell", token, "created")], True))

    def do_create(self, queue: Q) -> None:
        self.leaving.discard(queue.name)
        self.add(queue)
        queue.journal = self.add(Q(queue.name + ";JOURNAL", kind="journal", parent=queue, quota=queue.journal_quota))

    def undo_create(self, queue: Q) -> None:
        self.leaving.discard(queue.name)

    def purge(self, token: int, queue: Q) -> None:
        held = self.of(queue, "held")
        op = Op([], True)
        for entry in self.of(queue, "available"):
            self.remove(op, entry, self.purge_reason(queue))
        op.actions += [("purge_held", held), ("tell", token, "done")]
        self.submit(op)

    def do_purge_held(self, held: list[Entry]) -> None:
        for entry in held:
            if entry.state == "held":
                entry.purged = True
            elif entry.state == "available":
                op = Op()
                self.remove(op, entry, self.purge_reason(entry.queue))
                self.submit(op)

    def delete(self, token: int, queue: Q) -> None:
        """Nobody gets at it from now on; what others are storing there is waited for."""
        family = [q for q in self.queues.values() if q is queue or q.parent is queue]
        for member in family:
            member.deleted = True
            del self.queues[member.name]
            self.give_up([w for w in self.waits if w.queue is member], "QueueNotAvailable")
        queue.handles = [(d, d.queue) for d in self.descs if d.queue is not None and d.queue in family]
        for desc, _ in queue.handles:
            desc.queue = None
        self.leaving.add(queue.name)
        self.try_delete(token, queue, family)

    def do_try_delete(self, token: int, queue: Q, family: list[Q]) -> None:
        self.try_delete(token, queue, family)

    def undo_try_delete(self, token: int, queue: Q, family: list[Q]) -> None:
        self.undo_delete(queue, family)
        self.undo_tell(token)

    def try_delete(self, token: int, queue: Q, family: list[Q]) -> None:
        members = [q for q in family if q.kind != "journal"]
        if any(self.of(q, "staged") or any(isinstance(e.holder, Op) for e in self.of(q, "held")) for q in members):
            self.submit(Op([("try_delete", token, queue, family)], True))
            return
        op = Op([("delete", queue, family)], True)
        for member in sorted(members, key=lambda q: (q is queue, q.name)):
            for entry in self.of(member, "available"):
                self.remove(op, entry, QUEUE_DELETED)
        for member in sorted(members, key=lambda q: (q is queue, q.name)):
            for entry in self.of(member, "held"):
                if entry.holder is not op:
                    op.actions.append(("free_if_ended", entry))
                    self.remove(op, entry, QUEUE_DELETED)
        op.actions.append(("forget", queue, family))
        op.actions.append(("tell", token, "done"))
        self.submit(op)

    def do_delete(self, queue: Q, family: list[Q]) -> None:
        pass

    def undo_delete(self, queue: Q, family: list[Q]) -> None:
        self.leaving.discard(queue.name)
        for member in family:
            member.deleted = False
            self.queues[member.name] = member
        for desc, member in queue.handles:
            desc.queue = None if desc.closed else member
        queue.handles = []

    def do_free_if_ended(self, entry: Entry) -> None:
        pass

    def undo_free_if_ended(self, entry: Entry) -> None:
        """Who held the message may have ended meanwhile, without it."""
        holder = entry.holder
        ended = isinstance(holder, Tx) and holder.state in ("ending", "ended")
        if ended or (isinstance(holder, Read) and holder.ended):
            self.release(entry)

    def do_forget(self, queue: Q, family: list[Q]) -> None:
        self.leaving.discard(queue.name)
        self.entries = [e for e in self.entries if e.queue not in family]

    # Outgoing queues

    paused = False
    paused_on_disk = False

    def transferred(self, entry: Entry) -> None:
        op = Op()
        self.remove(op, entry, ARRIVED)
        self.submit(op)

    def pause(self, token: int, hold: bool) -> None:
        if not hold and not self.paused:
            self.do_tell(token, "done")
            return
        op = Op([], hold != self.paused)
        op.actions += [("pause", hold), ("tell", token, "done")] if hold != self.paused else [("tell", token, "done")]
        self.paused = hold
        self.submit(op)

    def do_pause(self, hold: bool) -> None:
        self.paused = self.paused_on_disk = hold

    def undo_pause(self, hold: bool) -> None:
        self.paused = not hold

    # Time and crashes

    def tick(self) -> None:
        self.give_up([w for w in self.waits if w.deadline is not None and w.deadline <= self.uptime], "Timeout")
        due = [e for q in self.known_queues() for e in self.of(q, "available") if self.overdue(e)]
        due += [e for e in self.entries if e.state == "held" and e.holder is None and e.purged]
        op = Op()
        due = [e for e in due if e.again <= self.now]
        for entry in sorted(due, key=lambda e: (max(0 if e.purged else e.end, e.again), e.queue.number, e.place)):
            self.leave(op, entry)
        if due:
            self.submit(op)

    def crash(self, flight_is_stored: bool) -> None:
        """What is on disk is there, no more; prepared transactions hold again what they held."""
        for op in self.flight if flight_is_stored else ():
            self.finish(op)
        self.restore_leaving(self.pending if flight_is_stored else self.flight + self.pending)
        self.pending, self.flight, self.waits, self.reads, self.outcomes, self.descs = [], [], [], [], {}, []
        self.leaving.clear()
        self.entries = [e for e in self.entries if e.durable and e.state not in ("staged", "gone")]
        for entry in self.entries:
            entry.state, entry.holder, entry.shown, entry.purged = "available", None, False, False
            entry.aborts, entry.again = entry.stored_aborts, 0
        self.transactions = [tx for tx in self.transactions if tx.stored]
        for tx in self.transactions:
            tx.state = "prepared"
            tx.operations = [o for o in tx.operations if o[0] == "send" or o[1] in self.entries]
            for operation in tx.operations:
                if operation[0] == "send":
                    operation[1].state, operation[2] = "new", True
                else:
                    operation[1].state, operation[1].holder = "held", tx

    def restore_leaving(self, ops: list[Op]) -> None:
        for op in ops:
            for action in op.actions:
                if action[0] == "try_delete":
                    self.undo_delete(action[2], action[3])
                elif action[0] == "delete":
                    self.undo_delete(action[1], action[2])


__all__ = ["FOREVER", "NOT_RECEIVED", "ModelManager"]
