"""Messages as they stand in their queue, in packets for who reads it from elsewhere ([MS-MQRR] 2.2.5.1, [MS-MQQP]
2.2.2.1).

Such a packet says two things that none between queue managers may say: how the queue manager of the queue authenticated
the message when it took it ([MS-MQQB] 3.1.5.8.3), and that it came over HTTP. A reader believes both, as it believes
that queue manager the rest.
"""

from typing import Final
from uuid import UUID

from lior.errors import LiorError
from lior.message import AuthenticationLevel, Message, MessageSoap
from lior.wire.headers import AS_MASK, AS_SHIFT, AU, EB, SecurityHeader
from lior.wire.message_packet import from_user_message, to_user_message
from lior.wire.optional_headers import Security, provider_info
from lior.wire.srmp_packet import Srmp
from lior.wire.user_message import UserMessage

LEVELS: Final = {1: AuthenticationLevel.SIG10.value, 3: AuthenticationLevel.SIG20.value,
                 5: AuthenticationLevel.SIG30.value, 9: AuthenticationLevel.XML_SIG.value}  # fmt: skip
"""SecurityHeader.Flags.AS, in the numbers of pAuthenticated ([MS-MQMP] 2.2.3.2), and Message.AuthenticationLevel"""
NUMBERS: Final = {level: number for number, level in LEVELS.items()}


def to_read(message: Message, queue_manager: UUID) -> UserMessage:
    """The packet of a message that is in a queue of `queue_manager`. A body that was decrypted there stays clear."""
    packet = to_user_message(message, destination_queue_manager=queue_manager)
    security = message.security
    if security is None:
        return packet
    if packet.security is None and security.authentication_provider_name:  # of an XML signature, which is elsewhere
        packet.security = Security(SecurityHeader())
    if packet.security is not None:
        header = packet.security.header
        if not security.symmetric_key:
            header.flags &= ~EB
        if not security.signature and security.authentication_provider_name:
            packet.security.provider_info = provider_info(security.authentication_provider_type,
                                                          security.authentication_provider_name)
        number = NUMBERS.get(security.authentication_level, 0)
        if number:
            header.flags |= AU | number << AS_SHIFT
    return packet


def put_srmp(packet: UserMessage, message: Message) -> bool:
    """Make it an SRMP message ([MS-MQRR] 2.2.5.1.2): only if the message came over HTTP and its body is where the
    request has it."""
    soap = message.soap
    if soap is None or not soap.envelope or not soap.compound_message:
        return False
    try:
        srmp = Srmp.of(soap.envelope, soap.compound_message)
    except LiorError:
        return False
    if srmp.body != message.body:
        return False
    packet.srmp = srmp
    packet.body, packet.properties.message_size = b"", 0
    return True


def authentication_level(flags: int) -> int:
    """AS says it, with or without AU ([MS-MQQB] 3.1.5.8.3); AU alone is 1 in the table of [MS-MQDMPR] 3.1.7.1.31."""
    number = (flags & AS_MASK) >> AS_SHIFT or int(flags & AU != 0)
    return LEVELS.get(number, AuthenticationLevel.NONE.value)


def from_read(packet: bytes | bytearray | memoryview, *, queue_manager: UUID) -> Message:
    """The message in a packet that was read from a queue of `queue_manager`."""
    user_message = UserMessage.decode(packet, remote_read=True)
    message = from_user_message(user_message, queue_manager=queue_manager)
    if user_message.security is not None and message.security is not None:
        message.security.authentication_level = authentication_level(user_message.security.header.flags)
    srmp = user_message.srmp
    if srmp is not None:
        message.body, message.packet = srmp.body, b""  # it came in no packet
        message.soap = message.soap or MessageSoap()
        message.soap.envelope, message.soap.compound_message = srmp.envelope_text, srmp.compound
    return message
