"""What an operator sets of the methods; settings of the section [rpc]."""

from __future__ import annotations

from dataclasses import dataclass

from lior.server.setting import setting


@dataclass(frozen=True, slots=True)
class MethodSettings:
    """Bounds of what clients keep open, and where the server goes for them."""

    max_open: int = setting(4096, "Most queues and transactions that one user keeps open from one computer.", 1)
    max_cursors: int = setting(1024, "Most cursors of one open queue.", 1)
    end_timeout: float = setting(300.0, "A message that was handed to a remote reader goes back to its queue if the "
                                 "reader does not say by then that it has it.", 0.1)  # fmt: skip
    remote_hosts: tuple[str, ...] = setting((), "Computers whose queues are read for clients; empty: those that a "
                                            "client was pointed to when it opened the queue.")  # fmt: skip
