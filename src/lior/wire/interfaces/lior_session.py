"""lior: what the documented interfaces have no method for, between Lior and Lior (docs/decisions/0007).

A session makes the calls of the admin API, one a request: a frame as `lior.wire.admin_frames` has it in, one out. It is
the caller's of the RPC association, with his rights, and ends with his association group. An argument `handle` may be
the context handle of another interface of that group, as {"rpc": hexadecimal}.

A program that hangs keeps its connections, and what it holds. A client that calls LiorAlive once calls it again and
again, and is taken for gone when it does not.
"""

from typing import Final

from lior.wire.ndr_arrays import OCTETS, Array
from lior.wire.ndr_pointers import Unique
from lior.wire.ndr_types import CONTEXT_HANDLE, U32
from lior.wire.rpc_interface import In, InOut, Interface, Out, interface, method

OPEN_SESSION: Final = 0
CALL: Final = 1
CLOSE_SESSION: Final = 2
ALIVE: Final = 3

LIOR: Final[Interface] = interface(
    "lior", "fa1de642-48d3-4e19-8a11-f8470c0f0584", (1, 0), 4,
    method(OPEN_SESSION, "LiorOpenSession",
           Out("session", CONTEXT_HANDLE),
           Out("size", U32),
           Out("hello", Unique(Array(OCTETS, "size")))),
    method(CALL, "LiorCall",
           In("session", CONTEXT_HANDLE),
           In("size", U32),
           In("frame", Array(OCTETS, "size")),
           Out("answer_size", U32),
           Out("answer", Unique(Array(OCTETS, "answer_size")))),
    method(CLOSE_SESSION, "LiorCloseSession",
           InOut("session", CONTEXT_HANDLE)),
    method(ALIVE, "LiorAlive",  # says how soon it wants to be called again
           Out("milliseconds", U32)),
)
