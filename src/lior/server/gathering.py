"""Sends of programs in this process: those that one turn of the loop brings are staged together at its end.

Sixty-four programs that each wait for their answer call sixty-four times in one turn. What they send to one queue is
checked, numbered and put into one change in one go (`SendBatches`); what is unusual goes one by one. Nothing waits
longer for it: the turn's end is when its changes are committed.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from lior.errors import LiorError
from lior.message import Message, ObjectId
from lior.queues.descriptor import OpenQueueDescriptor
from lior.queues.manager import QueueManager
from lior.queues.many import MOST
from lior.queues.position import Position

RECOVERABLE: Final = 0
EXPRESS: Final = 1
ALONE: Final = 2  # a transaction by itself

MOST_BYTES: Final = 256 << 10  # of bodies
MOST_AT_ONCE: Final = 16  # express messages of one program that are answered before the loop goes on
MOST_ANSWERED: Final = 32  # of many programs, in one turn

Answer = Future[ObjectId]


class Paced:
    """Answers that nothing had to be waited for, so many in each turn of the loop: who is answered sends again, and
    what was sent leaves only when the loop gets to its sockets. Sixty-four programs answered in one turn would pile up
    what a peer could have had."""

    __slots__ = ("_loop", "_resting", "_waiting")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Answer, ObjectId]] = deque()
        self._resting = True

    def give(self, answers: Iterable[tuple[Answer, ObjectId]]) -> None:
        self._waiting.extend(answers)
        if self._resting:
            self._next()

    def _next(self) -> None:
        waiting = self._waiting
        for _ in range(min(MOST_ANSWERED, len(waiting))):
            answer, identifier = waiting.popleft()
            if not answer.done():
                answer.set_result(identifier)
        self._resting = False
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._resting = True
        if self._waiting:
            self._next()


class Gathering:
    """`wake` is called when there is something to stage by the end of the turn."""

    __slots__ = (
        "_alone", "_answers", "_at_once", "_bytes", "_handle", "_kind", "_loop", "_manager", "_messages", "_paced",
        "_wake",
    )  # fmt: skip

    def __init__(self, manager: QueueManager, loop: AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._manager = manager
        self._loop = loop
        self._paced = Paced(loop)
        self._at_once = 0  # express messages answered in this turn
        self._alone = True  # the last turn brought no more than one message
        self._wake = wake
        self._handle: OpenQueueDescriptor | None = None  # what waits is for this one, and of one kind
        self._kind = RECOVERABLE
        self._messages: list[Message] = []
        self._answers: list[Answer] = []
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, kind: int, handle: OpenQueueDescriptor, message: Message, answer: Answer) -> None:
        messages = self._messages
        if not messages:
            self._handle, self._kind = handle, kind
            self._wake()
        elif kind != self._kind or (handle is not self._handle and not _are_alike(handle, self._handle)):
            self.stage()
            self._handle, self._kind = handle, kind
            messages = self._messages
        messages.append(message)
        self._answers.append(answer)
        body = message.body
        if type(body) is bytes:
            self._bytes += len(body)
        if len(messages) == MOST or self._bytes > MOST_BYTES:  # what waits for its commit is counted from then on
            self.stage()

    def express(self, handle: OpenQueueDescriptor, message: Message, answer: Answer) -> None:
        """A lone program has its answer at once. It would never let the loop go on, and nothing of what it sends would
        leave before it is done: after some of them the next is answered at the end of the turn."""
        if self._messages or not self._alone or self._at_once >= MOST_AT_ONCE:
            self.add(EXPRESS, handle, message, answer)
            return
        self._at_once += 1
        if self._at_once == 1:
            self._loop.call_soon(self._next_turn)
        self.one(EXPRESS, handle, message, answer)

    def _next_turn(self) -> None:
        self._at_once = 0

    def stage(self) -> None:
        """Hand what waits to the queue manager. Whoever changes anything after a send calls this first."""
        handle, messages, answers = self._handle, self._messages, self._answers
        if not messages or handle is None:
            return
        self._messages, self._answers, self._bytes = [], [], 0
        if [answer for answer in answers if answer.done()]:  # their callers went away
            left = [pair for pair in zip(messages, answers, strict=True) if not pair[1].done()]
            messages, answers = [message for message, _ in left], [answer for _, answer in left]
        kind, several = self._kind, len(messages) > 1
        self._alone = not several
        if several and self._manager.send_batches.send(
            handle, messages, answers, self._told_later if kind == EXPRESS else _told,
            express=kind == EXPRESS, alone=kind == ALONE,
        ):  # fmt: skip
            return
        for message, answer in zip(messages, answers, strict=True):
            self.one(kind, handle, message, answer)

    def one(self, kind: int, handle: OpenQueueDescriptor, message: Message, answer: Answer) -> None:
        """By itself, and at once."""
        try:
            if kind == ALONE:
                self._manager.transactions.send_alone(handle, message, answer)
            else:
                self._manager.sending.send(handle, message, None, answer)
        except Exception as error:  # a defect of the caller's, too, is his to hear of and not the loop's
            if not answer.done():
                answer.set_exception(error)

    def _told_later(self, answers: Sequence[Answer], positions: Sequence[Position], error: LiorError | None) -> None:
        if error is not None:
            _told(answers, positions, error)
        else:
            self._paced.give(zip(answers, map(_identifier, positions), strict=True))


def _identifier(position: Position) -> ObjectId:
    identifier = position.message.identifier
    assert identifier is not None  # it was stamped
    return identifier


def _are_alike(one: OpenQueueDescriptor, other: OpenQueueDescriptor | None) -> bool:
    """To the same queue by the same name: programs have handles of their own."""
    return (
        other is not None and one.queue is other.queue and one.text == other.text and one.access is other.access
        and not one.children and not other.children
    )  # fmt: skip


def _told(answers: Sequence[Answer], positions: Sequence[Position], error: LiorError | None) -> None:
    if error is not None:
        for answer in answers:
            if not answer.done():
                answer.set_exception(error)
        return
    for answer, position in zip(answers, positions, strict=True):
        if not answer.done():
            answer.set_result(_identifier(position))
