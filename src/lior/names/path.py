"""Path names: Computer\\Queue, Computer\\private$\\Queue, Computer\\system$;DEADLETTER ([MS-MQMQ] 2.1.1)."""

from dataclasses import dataclass, replace
from typing import Final

from lior.errors import IllegalQueuePathname
from lior.names.grammar import (
    PRIVATE,
    PathKind,
    QueueSuffix,
    Tail,
    check_computer,
    check_queue,
    check_tail,
    folded_host,
    format_tail,
    shortened,
    split_tail,
)

MAX_PATH_LENGTH: Final = 512  # 256 + \private$\ + 124 + ; + 32 and some room
_PRIVATE_NUMBER_MASK: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, eq=False)
class PathName:
    """The path of a queue. Path names compare without case.

    `computer` may be "." for this computer until the name leaves it (`LocalNames.expand_dot`). Queue names
    are held to the alphabet of MSMQ 1.0 here; `parse_path_name` refuses what later versions exclude.
    """

    computer: str
    kind: PathKind
    queue: str = ""
    subqueue: str = ""
    suffix: QueueSuffix = QueueSuffix.NONE

    def __post_init__(self) -> None:
        check_computer(self.computer, IllegalQueuePathname)
        check_tail(self._tail, IllegalQueuePathname, version=1)

    @property
    def _tail(self) -> Tail:
        kind = self.kind
        return Tail(kind is PathKind.PRIVATE, kind is PathKind.SYSTEM, self.queue, self.subqueue, self.suffix)

    def __str__(self) -> str:
        return f"{self.computer}\\{format_tail(self._tail)}"

    @property
    def key(self) -> str:
        """The path as it compares; usable as a dict key."""
        return f"{folded_host(self.computer)}\\{self.local_key}"

    @property
    def local_key(self) -> str:
        """The path without its computer, as it compares: what a queue manager finds its own queues by."""
        return format_tail(self._tail).casefold()

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, PathName) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def is_private(self) -> bool:
        return self.kind is PathKind.PRIVATE

    def without_subqueue(self) -> "PathName":
        return replace(self, subqueue="")

    def with_subqueue(self, subqueue: str) -> "PathName":
        return replace(self, subqueue=subqueue)

    def without_suffix(self) -> "PathName":
        """The queue that a journal belongs to; a system queue keeps its suffix, which is its name."""
        return self if self.kind is PathKind.SYSTEM else replace(self, suffix=QueueSuffix.NONE)

    def journal(self) -> "PathName":
        """The journal of this queue, or of its queue if it is a subqueue."""
        return replace(self, subqueue="", suffix=QueueSuffix.JOURNAL)

    def with_computer(self, computer: str) -> "PathName":
        return replace(self, computer=computer)


def parse_path_name(text: str, version: int = 4) -> PathName:
    """Read a path name by the grammar of an MSMQ version: 1, 2 to 3, or 4 and later (subqueues).

    Anything else raises IllegalQueuePathname."""
    if len(text) > MAX_PATH_LENGTH:
        raise IllegalQueuePathname(f"a path name of {len(text)} characters", where=shortened(text),
                                   remedy=f"a path name has at most {MAX_PATH_LENGTH} characters")
    try:
        return _parse(text, version)
    except IllegalQueuePathname as error:
        error.where = shortened(text)
        raise


def _parse(text: str, version: int) -> PathName:
    computer, backslash, rest = text.partition("\\")
    if not backslash:
        example = rf".\{PRIVATE}\{shortened(text) or 'name'}"
        raise IllegalQueuePathname("a path name needs a backslash between computer and queue",
                                   remedy=f"for a queue on this computer write {example}")
    tail = split_tail(rest, IllegalQueuePathname, version=version)
    if "\\" in tail.queue:
        raise IllegalQueuePathname("the queue name contains a backslash",
                                   remedy=r"for a journal write Computer\Queue;JOURNAL, for dead letters "
                                          r"Computer\system$;DEADLETTER or Computer\system$;DEADXACT")
    if not tail.is_system:
        check_queue(tail.queue, IllegalQueuePathname, version=version)
    kind = PathKind.SYSTEM if tail.is_system else PathKind.PRIVATE if tail.is_private else PathKind.PUBLIC
    return PathName(computer, kind, tail.queue, tail.subqueue, tail.suffix)


def private_queue_number(path_name: str) -> int:
    """The number that a private queue's name suggests for it ([MC-MQAC] 3.1.6.2).

    What is hashed is the queue name alone, as spelled, in UTF-16 code units: no computer, no private$, no
    subqueue. Two names may give one number; whoever creates the queue then takes another."""
    path = parse_path_name(path_name)
    if not path.is_private:
        raise IllegalQueuePathname("only a private queue has a number", where=shortened(path_name),
                                   remedy=rf"give a path of the form Computer\{PRIVATE}\Queue")
    units = path.queue.encode("utf-16-le")
    number = 0
    for at in range(0, len(units), 2):
        number = ((number << 5) + number + units[at] + (units[at + 1] << 8)) & _PRIVATE_NUMBER_MASK
    return number
