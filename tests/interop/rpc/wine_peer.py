"""The verbs on Wine's RPC runtime, with stubs made of the documents' IDL."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from tests.interop.rpc.verbs import (
    ARM,
    FOREVER,
    LENGTHS,
    SCALARS,
    SIZES,
    TAKE,
    XACT,
    Login,
    Opened,
    Outcome,
    message_of,
)
from tests.interop.rpc.wine_client import Answer, WineClient, quoted


class WinePeer:
    """On a process of Wine that others may share: each peer has bindings and handles of its own."""

    _numbers = itertools.count(1)

    def __init__(self, wine: WineClient, host: str, login: Login | None = None, port: int | None = 2103) -> None:
        self.wine = wine
        self.binding = f"binding{next(self._numbers)}"
        signed = {} if login is None else {
            "service": login.service, "level": login.level, "user": quoted(login.user), "domain": quoted(login.domain),
            "password": quoted(login.password),
        }  # fmt: skip
        wine("bind", host=host, port=port, **{"as": self.binding}, **signed).ok()

    def _outcome(self, answer: Answer, **values: Any) -> Outcome:
        return Outcome(answer.code, values, answer.result is None)

    def _do(self, verb: str, **values: Any) -> Answer:
        return self.wine(verb, binding=self.binding, **values)

    def port(self, which: int) -> int:
        answer = self._do("port", which=which)
        assert answer.result is not None, answer
        return answer.result

    def registry(self, query: int) -> Outcome:
        answer = self._do("registry", query=query)
        return self._outcome(answer, value=answer.text("value") if "value" in answer.values else None)

    def create(self, path: str, properties: Mapping[int, str], security: bytes | None = None) -> Outcome:
        given = _texts(properties)
        return self._outcome(self._do("create", path=quoted(path), security=security, **given))

    def delete(self, name: str) -> Outcome:
        return self._outcome(self._do("delete", name=_word(name)))

    def get(self, name: str, properties: Mapping[int, str]) -> Outcome:
        answer = self._do("get", name=_word(name), **_texts(properties))
        found: dict[str, Any] = {}
        for key, value in answer.values.items():
            number, _, vt = key.partition(".")
            found[number] = _variant(int(vt), value)
        return self._outcome(answer, **found)

    def set(self, name: str, properties: Mapping[int, str]) -> Outcome:
        return self._outcome(self._do("set", name=_word(name), **_texts(properties)))

    def get_security(self, name: str, parts: int, length: int) -> Outcome:
        answer = self._do("get_security", name=_word(name), parts=parts, length=length)
        if answer.result is None:
            return self._outcome(answer)
        return self._outcome(answer, needed=answer.number("needed"), security=answer.bytes("security"))

    def set_security(self, name: str, parts: int, security: bytes) -> Outcome:
        return self._outcome(self._do("set_security", name=_word(name), parts=parts, security=security))

    def find(self, path: str) -> Outcome:
        answer = self._do("find", path=quoted(path))
        if answer.result != 0:
            return self._outcome(answer)
        kind = int(answer.values["format"].split(":")[0])
        name = f"private:{answer.values['lineage']}:{answer.values['uniquifier']}" if kind == 2 else None
        return self._outcome(answer, kind=kind, name=name)

    def open(self, name: str, access: int, share: int = 0) -> Outcome:
        kept = f"handle{next(self._numbers)}"
        answer = self._do("open", name=_word(name), access=access, share=share, **{"as": kept})
        if answer.result is None:
            return self._outcome(answer)
        opened = Opened(kept, answer.bytes("handle"), answer.number("context"))
        remote = answer.text("remote") if "remote" in answer.values else None
        return self._outcome(answer, queue=opened, remote=remote)

    def close_queue(self, opened: Opened) -> Outcome:
        answer = self._do("close", handle=opened.handle)
        return self._outcome(answer, handle=answer.bytes("handle") if answer.result is not None else None)

    def format_name(self, opened: Opened, length: int) -> Outcome:
        answer = self._do("format_name", handle=opened.handle, length=length)
        name = answer.text("name") if "name" in answer.values else None
        return self._outcome(answer, name=name, length=answer.number("length"))

    def purge(self, opened: Opened) -> Outcome:
        return self._outcome(self._do("purge", handle=opened.handle))

    def send(self, opened: Opened, **values: Any) -> Outcome:
        given = {"time_to_live": FOREVER, **values}
        for name in ("admin", "response"):
            if name in given:
                given[name] = _word(given[name])
        for name in ("label", "provider"):
            if name in given:
                given[name] = quoted(given[name])
        answer = self._do("send", handle=opened.handle, **given)
        return self._outcome(answer, message_id=answer.bytes("message_id") if "message_id" in answer.values else None)

    def receive(self, opened: Opened, action: int = TAKE, **values: Any) -> Outcome:
        return self.received(self.wine.finish(self.start_receive(opened, action, beside=False, **values)))

    def start_receive(self, opened: Opened, action: int = TAKE, beside: bool = True, **values: Any) -> str:
        given = {"context": opened.context, "action": action, **SIZES, **values}
        return self.wine.start("receive", beside=beside, binding=self.binding, **given)

    def received(self, answer: Answer) -> Outcome:
        found: dict[str, Any] = {}
        scalar = {*SCALARS, *XACT, *(f"{name}_length" for name in (*LENGTHS, *ARM))}
        for name, value in answer.values.items():
            found[name] = int(value) if name in scalar else bytes.fromhex(value)
        return self._outcome(answer, message=message_of(found), raw=found)

    def cursor(self, opened: Opened) -> Outcome:
        answer = self._do("cursor", handle=opened.handle)
        return self._outcome(answer, cursor=answer.number("cursor") if answer.result is not None else None)

    def close_cursor(self, opened: Opened, cursor: int) -> Outcome:
        return self._outcome(self._do("close_cursor", handle=opened.handle, cursor=cursor))

    def enlist(self, uow: bytes) -> Outcome:
        kept = f"handle{next(self._numbers)}"
        answer = self._do("enlist", uow=uow, **{"as": kept})
        return self._outcome(answer, handle=kept, wire=answer.bytes("handle") if answer.result is not None else None)

    def commit(self, handle: Any) -> Outcome:
        return self._outcome(self._do("commit", handle=handle))

    def abort(self, handle: Any) -> Outcome:
        return self._outcome(self._do("abort", handle=handle))

    def whereabouts(self, length: int) -> Outcome:
        answer = self._do("whereabouts", length=length)
        return self._outcome(answer, needed=answer.number("needed") if answer.result is not None else None)

    def close(self) -> None:
        self.wine("unbind", binding=self.binding)


def _word(name: str) -> str:
    """`kind:rest@suffix`, its rest quoted."""
    kind, _, rest = name.partition(":")
    rest, at, suffix = rest.rpartition("@") if "@0x" in rest else (rest, "", "")
    return f"{kind}:{rest if kind == 'private' else quoted(rest)}{at}{suffix}"


def _texts(properties: Mapping[int, str]) -> dict[str, str]:
    """`type:value`, its value quoted."""
    parted = {str(number): value.partition(":") for number, value in properties.items()}
    return {number: f"{kind}:{quoted(value)}" for number, (kind, _, value) in parted.items()}


def _variant(vt: int, value: str) -> Any:
    if vt in (0, 1):
        return None
    if vt == 31:
        return bytes.fromhex(value).decode("utf-16-le")
    return bytes.fromhex(value) if vt in (65, 72) else int(value)
