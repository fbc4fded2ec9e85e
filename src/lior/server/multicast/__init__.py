"""Messages to and from multicast addresses: SRMP over PGM over raw IP ([MC-MQSRM] 2.1.2)."""

from lior.server.multicast.hub import Multicast
from lior.server.multicast.settings import MulticastSettings

__all__ = ["Multicast", "MulticastSettings"]
