"""SOAP reliable messaging over HTTP: the server, and a sender for each outgoing queue ([MC-MQSRM])."""

from lior.server.srmp.hub import Srmp
from lior.server.srmp.settings import SrmpSettings

__all__ = ["Srmp", "SrmpSettings"]
