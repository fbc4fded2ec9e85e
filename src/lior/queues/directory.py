"""The directory service, seen from the queue manager ([MS-MQDMPR] 3.1.7.1.18 to 3.1.7.1.24)."""

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple, Protocol
from uuid import UUID


class DirectoryOperationResult(Enum):
    """[MS-MQDMPR] 3.1.1.17"""

    SUCCESS = "success"
    GENERIC_ERROR = "the directory failed"
    DIRECTORY_NOT_CONNECTED = "no directory service is connected"
    OBJECT_NOT_FOUND = "no such object in the directory"
    ATTRIBUTE_NOT_FOUND = "an attribute is not set in the directory"
    END_OF_DATA = "no more objects in the directory"
    OBJECT_ALREADY_EXISTS = "the object exists in the directory"


class Filter(NamedTuple):
    """An attribute-filter expression: the attribute, one of the six comparisons by name, the value."""

    attribute: str
    operator: str
    value: Any


class DirectoryAnswer(NamedTuple):
    """`value` is a GUID, an object or a query, whichever the call answers, and nothing without success."""

    status: DirectoryOperationResult
    value: Any = None


class Directory(Protocol):
    """Objects are queues and queue managers, by the names "Queue" and "QueueManager"."""

    def create(self, directory_object: object, attributes: Iterable[str] | None = None) -> DirectoryAnswer: ...

    def delete(self, directory_object: object) -> DirectoryAnswer: ...

    def read(
        self, object_type: str, filters: Iterable[Filter] = (), attributes: Iterable[str] | None = None
    ) -> DirectoryAnswer: ...

    def begin_read(
        self, object_type: str, filters: Iterable[Filter] = (), attributes: Iterable[str] | None = None
    ) -> DirectoryAnswer: ...

    def next_read(self, query: object) -> DirectoryAnswer: ...

    def end_read(self, query: object) -> DirectoryAnswer: ...

    def write(self, directory_object: object, attributes: Iterable[str] | None = None) -> DirectoryAnswer: ...


class NullDirectory:
    """A workgroup's: there is none, and every call says so at once.

    The text then sets DirectoryOffline and tries again each minute. 3.1.1.1 wants DirectoryOffline False where no
    directory is configured, and there nothing is worth another try: neither happens.
    """

    def _not_connected(self, *arguments: Any, **options: Any) -> DirectoryAnswer:
        return DirectoryAnswer(DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)

    create = delete = read = begin_read = next_read = end_read = write = _not_connected


def by_identifier(identifier: UUID) -> tuple[Filter, ...]:
    return (Filter("Identifier", "EQUALS", identifier),)
