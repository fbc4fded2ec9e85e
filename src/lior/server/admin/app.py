"""The HTTP side of the admin API: routes, who may come in, and errors as JSON."""

from __future__ import annotations

import inspect
import json
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from lior.errors import HRESULTS, AccessDenied, LiorError, Malformed, MessageTooLarge, UnsupportedOperation
from lior.security import Caller
from lior.server.admin.calls import CALLS
from lior.server.admin.channel import Channel
from lior.server.admin.identity import peer_caller
from lior.server.admin.service import VERSION, AdminService
from lior.server.admin.session import ClientSession, known, presented
from lior.wire.admin_frames import base64, parse
from lior.wire.admin_json import error_to_json

log = logging.getLogger("lior.admin")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
SERVICE: Final = web.AppKey("service", AdminService)
ACCOUNT: Final = "Lior-Account"  # of a request by the bulk process: the account whose password it has seen
OPEN_PATHS: Final = ("/healthz", "/metrics")
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_STATUS: Final = {
    HRESULTS[symbol]: status
    for status, symbols in {
        403: ("MQ_ERROR_ACCESS_DENIED", "MQ_ERROR_PRIVILEGE_NOT_HELD"),
        404: ("MQ_ERROR_QUEUE_NOT_FOUND", "MQ_ERROR_MESSAGE_NOT_FOUND", "MQ_ERROR_IO_TIMEOUT",
              "MQ_ERROR_UNSUPPORTED_OPERATION"),
        409: ("MQ_ERROR_QUEUE_EXISTS", "MQ_ERROR_SHARING_VIOLATION", "MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION",
              "MQ_ERROR_TRANSACTION_SEQUENCE", "MQ_ERROR_QUEUE_DELETED", "MQ_ERROR_QUEUE_NOT_AVAILABLE"),
        413: ("LIOR_ERROR_MESSAGE_TOO_LARGE",),
        503: ("MQ_ERROR_SERVICE_NOT_AVAILABLE", "LIOR_ERROR_STORE_UNUSABLE", "LIOR_ERROR_STORE_CORRUPT"),
        507: ("MQ_ERROR_INSUFFICIENT_RESOURCES", "MQ_ERROR_MESSAGE_STORAGE_FAILED"),
    }.items()
    for symbol in symbols
}  # fmt: skip


def application(service: AdminService) -> web.Application:
    app = web.Application(client_max_size=service.settings.max_request_bytes, middlewares=[errors, admission])
    app[SERVICE] = service
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/v1", listing)
    app.router.add_get("/v1/session", session)
    app.router.add_get("/v1/{call}", read)
    app.router.add_post("/v1/{call}", call)
    return app


def answer(data: Any, status: int = 200) -> web.Response:
    return web.Response(text=json.dumps(data) + "\n", status=status, content_type="application/json")


def failure(error: LiorError, status: int = 0) -> web.Response:
    response = answer({"error": error_to_json(error)}, status or _STATUS.get(error.code, 400))
    if response.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="lior"'
    return response


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every failure is JSON with its code, what, where and remedy."""
    try:
        return await handler(request)
    except LiorError as error:
        return failure(error)
    except web.HTTPRequestEntityTooLarge:
        limit = request.app[SERVICE].settings.max_request_bytes
        return failure(MessageTooLarge(f"the request has more than {limit} bytes", where="admin.max_request_bytes",
                                       remedy="send less at a time"))  # fmt: skip
    except web.HTTPException as error:
        where = f"{request.method} {request.path}"
        return failure(UnsupportedOperation(error.reason, where=where, remedy="GET /v1 lists the calls"), error.status)
    except Exception as error:
        return failure(known(error), 500)


@web.middleware
async def admission(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Nobody gets further whom `caller_of` does not know; what is open to all asks for nobody."""
    service = request.app[SERVICE]
    service.requests += 1
    if not is_local(request):
        service.names.check(request.headers)
        if request.path in OPEN_PATHS and service.open_paths:
            return await handler(request)
        try:
            caller_of(request)
        except AccessDenied as error:
            log.warning("a client without the token was refused", extra={"fields": {"peer": request.remote}})
            return failure(error, 401)
    return await handler(request)


def peer_socket(request: web.Request) -> Any:
    found = request.transport.get_extra_info("socket") if request.transport is not None else None
    if found is None:
        raise AccessDenied("the connection is gone", where="transport")
    return found


def is_local(request: web.Request) -> bool:
    return bool(peer_socket(request).family == socket.AF_UNIX)


def caller_of(request: web.Request) -> Caller:
    """The kernel's word over the Unix socket, the token's over TCP."""
    if is_local(request):
        peer = peer_caller(peer_socket(request))
        account = request.headers.get(ACCOUNT)
        return peer if account is None else request.app[SERVICE].on_behalf_of(peer, account)
    token = request.app[SERVICE].token
    assert token is not None  # TCP clients come only where there is one
    return token.caller(request.headers.get("Authorization", ""))


async def healthz(request: web.Request) -> web.Response:
    serving, found = request.app[SERVICE].health()
    return answer(found, 200 if serving else 503)


async def metrics(request: web.Request) -> web.Response:
    return web.Response(body=request.app[SERVICE].metrics(), headers={"Content-Type": METRICS_TYPE})


async def listing(request: web.Request) -> web.Response:
    calls = {
        name: {
            "about": each.about,
            "method": "GET or POST" if each.reads else "POST",
            "session": each.session,
            "administrator": each.administrator,
            "arguments": {argument.name: argument.kind for argument in each.arguments},
        }
        for name, each in CALLS.items()
    }
    return answer({**request.app[SERVICE].hello(), "session": f"GET /v{VERSION}/session (WebSocket)", "calls": calls})


async def read(request: web.Request) -> web.Response:
    """A call that changes nothing, its arguments in the query: numbers and true, false as in JSON."""
    name = request.match_info["call"]
    known_call = CALLS.get(name)
    if known_call is not None and not known_call.reads:
        raise UnsupportedOperation("this call is a POST", where=f"GET /v1/{name}", remedy="POST its arguments as JSON")
    texts = frozenset(each.name for each in known_call.arguments if each.kind == "text") if known_call else frozenset()
    given = {key: value if key in texts else _plain(value) for key, value in request.query.items()}
    return await _run(request, name, given)


def _plain(text: str) -> Any:
    try:
        return parse(text)
    except Malformed:
        return text


async def call(request: web.Request) -> web.Response:
    body = await request.read()
    return await _run(request, request.match_info["call"], parse(body) if body else {})


async def _run(request: web.Request, name: str, given: Any) -> web.Response:
    one = ClientSession(request.app[SERVICE], caller_of(request))
    try:
        result = one.run(name, given, b"")
        if inspect.isawaitable(result):
            result = await result
        return answer({"result": presented(result, base64)})
    finally:
        one.close()


async def session(request: web.Request) -> web.StreamResponse:
    """The WebSocket of a client session; ?frames=text for JSON without binary frames."""
    service = request.app[SERVICE]
    channel = Channel(service, caller_of(request), text=request.query.get("frames") == "text")
    service.admit(channel)
    try:
        with suppress(ConnectionError):
            return await channel.serve(request)
        return web.Response(status=400)
    finally:
        service.channels.discard(channel)
