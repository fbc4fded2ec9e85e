"""Presentation contexts: which interface in which transfer syntax a number stands for ([MS-RPCE] 3.3.1.5.3, 3.3.1.5.6).

An interface is any object with `uuid`, `version` (major, minor) and `syntaxes`, such as
lior.wire.rpc_interface.Interface.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from lior.wire.rpc_pdu import (
    ABSTRACT_SYNTAX_NOT_SUPPORTED,
    ACCEPTANCE,
    FEATURE_CONTEXT_MULTIPLEXING,
    FEATURE_KEEP_ON_ORPHAN,
    NDR,
    NDR64,
    NEGOTIATE_ACK,
    PROVIDER_REJECTION,
    REASON_NOT_SPECIFIED,
    TRANSFER_SYNTAXES_NOT_SUPPORTED,
    PresentationContext,
    Result,
    Syntax,
    feature_mask,
)

FEATURES = FEATURE_CONTEXT_MULTIPLEXING | FEATURE_KEEP_ON_ORPHAN


class Presentation:
    """A context that was accepted."""

    __slots__ = ("abstract", "identifier", "interface", "ndr64", "operations", "syntax", "transfer")

    def __init__(
        self, identifier: int, interface: Any, operations: Any, abstract: Syntax, transfer: Syntax
    ) -> None:
        self.identifier = identifier
        self.interface = interface
        self.operations = operations  # opnum -> what carries it out
        self.syntax = _offered(interface, transfer)  # how stubs are coded
        self.abstract = abstract  # as the client named it: its minor version may be below ours
        self.transfer = transfer
        self.ndr64 = transfer == NDR64


def _offered(interface: Any, transfer: Syntax) -> Any:
    """The interface's own syntax for what a client proposes; None if it has none such."""
    for syntax in interface.syntaxes:
        if syntax.uuid == transfer.uuid and syntax.version[0] == transfer.major:
            return syntax
    return None


class Interfaces:
    """What a server offers, and what carries it out."""

    def __init__(self) -> None:
        self._by_uuid: dict[UUID, list[tuple[Any, Any]]] = {}

    def add(self, interface: Any, operations: Any = None) -> None:
        """`operations` is what `Presentation.operations` shows for this interface."""
        self._by_uuid.setdefault(interface.uuid, []).append((interface, operations))

    def __iter__(self) -> Iterator[Any]:
        return (interface for each in self._by_uuid.values() for interface, _ in each)

    def find(self, abstract: Syntax) -> tuple[Any, Any] | None:
        """The same major version, and a minor version that is not below the one asked for ([C706] 12.6.4.3)."""
        for interface, operations in self._by_uuid.get(abstract.uuid, ()):
            major, minor = interface.version
            if major == abstract.major and minor >= abstract.minor:
                return interface, operations
        return None


class PresentationTable:
    """The contexts of one connection."""

    def __init__(self, interfaces: Interfaces, limit: int) -> None:
        self.by_id: dict[int, Presentation] = {}
        self.features = 0  # negotiated ones
        self._interfaces = interfaces
        self._limit = limit

    def has_room(self, contexts: Sequence[PresentationContext]) -> bool:
        return len(self.by_id) + len(contexts) <= self._limit

    def negotiate(self, contexts: Sequence[PresentationContext]) -> tuple[Result, ...]:
        """One result for each element, in their order. NDR is preferred to NDR64 when both are offered."""
        plain = {each.abstract for each in contexts if NDR in each.transfers}
        return tuple(self._result(each, each.abstract in plain) for each in contexts)

    def _result(self, element: PresentationContext, ndr_offered: bool) -> Result:
        if len(element.transfers) == 1 and (mask := feature_mask(element.transfers[0])) is not None:
            self.features = mask & FEATURES
            return Result(NEGOTIATE_ACK, self.features)
        found = self._interfaces.find(element.abstract)
        if found is None:
            return Result(PROVIDER_REJECTION, ABSTRACT_SYNTAX_NOT_SUPPORTED)
        interface, operations = found
        if NDR in element.transfers:
            transfer = NDR
        elif NDR64 in element.transfers and _offered(interface, NDR64) and not ndr_offered:
            transfer = NDR64
        else:
            return Result(PROVIDER_REJECTION, TRANSFER_SYNTAXES_NOT_SUPPORTED)
        known = self.by_id.get(element.identifier)
        if known is not None and (known.interface is not interface or known.transfer != transfer):
            return Result(PROVIDER_REJECTION, REASON_NOT_SPECIFIED)  # a context keeps its meaning while calls use it
        if known is None:
            accepted = Presentation(element.identifier, interface, operations, element.abstract, transfer)
            self.by_id[element.identifier] = accepted
        return Result(ACCEPTANCE, 0, transfer)
