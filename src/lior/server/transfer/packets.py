"""The packet of a message at the moment it leaves ([MS-MQQB] 3.1.7.1.1 to 3.1.7.1.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from lior.errors import LiorError, MessageTooLarge
from lior.message import NULL_GUID, Message, MessageClass
from lior.names import PrivateName, parse_format_name
from lior.queues.position import Position
from lior.wire.headers import AH, HOPS_MASK
from lior.wire.message_packet import to_user_message
from lior.wire.packet_format_names import guid_of
from lior.wire.plain_packets import PlainEncoder
from lior.wire.user_message import rejoin

if TYPE_CHECKING:
    from lior.server.transfer.connection import Connection
    from lior.server.transfer.hub import Transfer

_HOPS_AT: Final = 16 + 44  # UserHeader.Flags: its low byte begins with the hop count


class Packets:
    def __init__(self, hub: Transfer) -> None:
        self._hub = hub
        self._plain = PlainEncoder()

    def of(self, position: Position, previous: int, connection: Connection | None) -> bytes:
        """`previous` is PreviousTxSequenceNumber, for a message of a transaction."""
        message = position.message
        if message.packet and not self._hub.manager.core.is_source(message):
            return passed_on(message)
        plain = self._plain.encode(message, previous)
        if plain is not None:
            return plain
        user_message = to_user_message(message)
        if user_message.transaction is not None:
            user_message.transaction.header.previous_tx_sequence_number = previous
        if message.security is not None:
            recipient = self._recipient(message, connection)
            self._hub.guard.protect(user_message, message, recipient, self._hub.loop.time())
        return user_message.encode()

    def _recipient(self, message: Message, connection: Connection | None) -> UUID:
        """The queue manager whose key encrypts: the destination's, not the next hop's (QB-190). A direct name does not
        say which that is; then it is the one at the other end, for a guard that encrypts for direct names at all."""
        name = parse_format_name(message.destination_queue)
        if isinstance(name, PrivateName):
            return name.guid
        return NULL_GUID if connection is None else guid_of(connection.session.remote)

    def reason_of(self, error: LiorError) -> MessageClass:
        """What to tell the sender of a message that can never leave."""
        if isinstance(error, MessageTooLarge):
            return MessageClass.NACK_BAD_DST_Q
        return MessageClass.NACK_COULD_NOT_ENCRYPT


def passed_on(message: Message) -> bytes:
    """A packet for somebody else goes on as it came, but for its hop count (3.1.5.8.2.1), and AH, which none may have
    ([MS-MQMQ] 2.2.19.2)."""
    packet = bytearray(rejoin(message.packet, message.body))
    packet[_HOPS_AT] = packet[_HOPS_AT] & ~HOPS_MASK & 0xFF | message.hop_count
    packet[_HOPS_AT + 3] &= ~(AH >> 24) & 0xFF
    return bytes(packet)
