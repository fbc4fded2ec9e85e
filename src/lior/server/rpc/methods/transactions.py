"""qmcomm: units of work, internal and of a coordinator ([MS-MQMP] 3.1.4.12 to 3.1.4.16, 3.1.7.3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from lior.errors import HRESULTS, LiorError, TransactionSequence, error_from_code
from lior.protocols.rpc.call import PENDING
from lior.queues.transaction import Transaction
from lior.server.rpc.methods.answers import OK, Done, Values, code_only, finish
from lior.server.rpc.methods.remote_proxy import remotely
from lior.server.rpc.methods.service import Coordinator, QueueService, method
from lior.server.rpc.methods.tables import NULL_HANDLE, TRANSACTION, Owner, UnitOfWork, uow_of

if TYPE_CHECKING:
    from lior.protocols.rpc.call import Call

STXINFO_SIGNATURE: Final = UUID("2adb4463-bd41-11d0-b12e-00c04fc2f3ef")  # [MS-DTCO] 2.2.5.10
_GUID_SIZE: Final = 16
_LONG_COOKIE: Final = 40  # signature, transaction GUID, protocol, size


def _coordinator(service: QueueService) -> Coordinator:
    if service.coordinator is None:
        raise error_from_code(HRESULTS["MQ_ERROR_DTC_CONNECT"], "no transaction coordinator is configured",
                              where="MS DTC", remedy="use an internal transaction")
    return service.coordinator


# ---- A coordinator's transactions (3.1.4.12, 3.1.4.13) ---------------------------------------------------------------


def _no_whereabouts(request: Any, code: int) -> Values:
    return (b"", 0, code)


def _whereabouts(service: QueueService, call: Call, request: Any) -> Values:
    data = _coordinator(service).whereabouts()
    if len(data) > request.cb_buf_size:
        return (b"", len(data), HRESULTS["MQ_ERROR_USER_BUFFER_TOO_SMALL"])
    return (data, len(data), OK)


def _enlist(service: QueueService, call: Call, request: Any) -> Any:
    """R_QMEnlistTransaction: the same unit of work again is no error, of the same client."""
    uow = uow_of(request.p_uow)
    if uow in service.units_of_work:
        service.transaction_of(uow, call)
        return (OK,)
    coordinator = _coordinator(service)
    cookie = bytes(request.pb_cookie)
    _check_cookie(cookie, uow)

    async def work() -> Values:
        await coordinator.enlist(uow, cookie)
        _begin(service, uow, Owner.of(call), single_phase=False)
        return (OK,)

    return remotely(service, call, request, code_only, work())


def _check_cookie(cookie: bytes, uow: UUID) -> None:
    """STxInfo names its transaction behind a signature, or is no more than its GUID."""
    at, least = 0, _GUID_SIZE
    if cookie[:_GUID_SIZE] == STXINFO_SIGNATURE.bytes_le:
        at, least = _GUID_SIZE, _LONG_COOKIE
    if len(cookie) < least or UUID(bytes_le=cookie[at : at + _GUID_SIZE]) != uow:
        raise error_from_code(HRESULTS["MQ_ERROR_TRANSACTION_IMPORT"], f"a cookie of {len(cookie)} bytes is not of "
                              "this unit of work", where="pbCookie", remedy="export the transaction again")


# ---- Internal transactions (3.1.4.14 to 3.1.4.16) --------------------------------------------------------------------


def _not_enlisted(request: Any, code: int) -> Values:
    return (NULL_HANDLE, code)


def _enlist_internal(service: QueueService, call: Call, request: Any) -> Any:
    """Who outruns the disk waits in line, here and not in the middle of the transaction."""
    if service.engine.crowded:
        service.engine.line_up(lambda: finish(call, request, _not_enlisted, lambda: _enlist_now(service, call,
                                                                                                request)))  # fmt: skip
        return PENDING
    return _enlist_now(service, call, request)


def _enlist_now(service: QueueService, call: Call, request: Any) -> Values:
    uow = uow_of(request.p_uow)
    owner = Owner.of(call)
    if uow in service.core.transactions or uow.int == 0:
        raise TransactionSequence("this unit of work is known already", where=str(uow),
                                  remedy="make a new random identifier for each transaction")
    transaction = _begin(service, uow, owner, single_phase=True)
    try:
        handle = call.group.handles.open(TRANSACTION, transaction, partial(run_down, service, transaction),
                                         call.caller)
    except LiorError:
        run_down(service, transaction)
        raise
    if not call.group.connections:  # its client went away while it stood in line
        call.group.handles.close(handle)
        run_down(service, transaction)
    return (handle, OK)


def _begin(service: QueueService, uow: UUID, owner: Owner, *, single_phase: bool) -> Transaction:
    service.hold(owner)
    try:
        transaction = service.manager.begin(uow, single_phase=single_phase)
    except LiorError:
        service.let_go(owner)
        raise
    service.units_of_work[uow] = UnitOfWork(transaction, owner)
    return transaction


def forget(service: QueueService, transaction: Transaction) -> None:
    """Nobody sends or receives in it any more."""
    entry = service.units_of_work.get(transaction.identifier)
    if entry is not None and entry.transaction is transaction:
        del service.units_of_work[transaction.identifier]
        service.let_go(entry.owner)


def run_down(service: QueueService, transaction: Transaction) -> None:
    """3.1.7.3: its client went away. What it sent vanishes, what it received returns."""
    forget(service, transaction)
    service.manager.client_lost((), (transaction,))


def _end_failed(request: Any, code: int) -> Values:
    """The handle is NULL in any case: a transaction that could not be committed is aborted (MP-125)."""
    return (NULL_HANDLE, code)


def _ending(service: QueueService, call: Call, request: Any) -> Transaction:
    handles = call.group.handles
    transaction: Transaction = handles.find(request.ph_int_xact, TRANSACTION, call.caller)
    handles.close(request.ph_int_xact)
    forget(service, transaction)
    return transaction


def _commit(service: QueueService, call: Call, request: Any) -> Any:
    """The queue manager's commit marks first and last messages, which is what Transaction Prepare is for here."""
    transaction = _ending(service, call, request)
    try:
        service.manager.commit(transaction.identifier, Done(call, request, (NULL_HANDLE, OK), _end_failed))
    except LiorError:
        service.manager.client_lost((), (transaction,))
        raise
    return PENDING


def _abort(service: QueueService, call: Call, request: Any) -> Any:
    transaction = _ending(service, call, request)
    service.manager.abort(transaction.identifier, Done(call, request, (NULL_HANDLE, OK), _end_failed))
    return PENDING


METHODS: Final = {
    14: method(_whereabouts, _no_whereabouts),
    15: method(_enlist),
    16: method(_enlist_internal, _not_enlisted),
    17: method(_commit, _end_failed),
    18: method(_abort, _end_failed),
}
