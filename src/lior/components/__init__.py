"""Queued components: method calls are recorded, travel in one message, and are played where the object is.

    from lior.components import Application, Long, Player, Recorder, interface

docs/components.md is the way in; `lior.components.aio` has Recorder and Player for asyncio. The format is that of COM+
([MC-COMQC]): what is recorded here plays on Windows, and the other way round.
"""

from lior.components import aio
from lior.components.annotations import (
    Boolean,
    BStr,
    ByRef,
    Byte,
    Char,
    Currency,
    Date,
    Dec,
    DispatchObject,
    Double,
    Enum16,
    Enum32,
    Hyper,
    Int,
    Locale,
    Long,
    Object,
    PlainBoolean,
    Short,
    Single,
    UHyper,
    UInt,
    ULong,
    UShort,
    record,
    value_class,
)
from lior.components.application import Application
from lior.components.callback import Callback
from lior.components.context import ANONYMOUS, Caller, CallingAs, CurrentCall, calling_as, current_call
from lior.components.destinations import default_queue, parse_moniker
from lior.components.events import Event, Figures
from lior.components.interface import dispid, interface, interface_of, opnum, propput, propputref
from lior.components.ladder import NO_LADDER, Ladder
from lior.components.playing import Player
from lior.components.recorder import Recorder
from lior.wire.automation import EMPTY, MISSING, Bound, SafeArray, SCode, Variant

__all__ = [
    "ANONYMOUS", "EMPTY", "MISSING", "NO_LADDER", "Application", "BStr", "Boolean", "Bound", "ByRef", "Byte",
    "Callback", "Caller", "CallingAs", "Char", "Currency", "CurrentCall", "Date", "Dec", "DispatchObject", "Double",
    "Enum16", "Enum32", "Event", "Figures", "Hyper", "Int", "Ladder", "Locale", "Long", "Object", "PlainBoolean",
    "Player", "Recorder", "SCode", "SafeArray", "Short", "Single", "UHyper", "UInt", "ULong", "UShort", "Variant",
    "aio", "calling_as", "current_call", "default_queue", "dispid", "interface", "interface_of", "opnum",
    "parse_moniker", "propput", "propputref", "record", "value_class",
]  # fmt: skip
