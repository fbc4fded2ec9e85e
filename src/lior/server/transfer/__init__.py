"""Messages between queue managers: the binary protocol's sockets, sessions and pumps ([MS-MQQB])."""

from lior.server.transfer.hub import Transfer
from lior.server.transfer.settings import TransferSettings

__all__ = ["Transfer", "TransferSettings"]
