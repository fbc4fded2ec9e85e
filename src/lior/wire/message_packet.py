"""Message <-> UserMessage packet ([MS-MQDMPR] 3.1.7.1.30 to 3.1.7.1.32).

A packet numbers private queues on its source, its destination or the host of its administration queue; a Message
names them in full. Whoever decodes says which queue manager the packet came to, for packets to a direct name do not.

What is not on the wire stays as it was: the transaction's identifier (only the 20 bits of its index are), the
dead-letter queue of the application, lookup identifier, counts. What the peer claims about authentication is not
believed: AuthenticationLevel is for whoever verifies the signature to set.
"""

from typing import Final
from uuid import UUID

from lior.errors import InvalidParameter, LabelTooLong
from lior.message import (
    MAX_LABEL_LENGTH,
    NULL_GUID,
    DeliveryGuarantee,
    Message,
    MessageSecurity,
    MessageSoap,
    MessageTransaction,
    ObjectId,
    PrivacyLevel,
)
from lior.wire.headers import (
    ACK_MASK,
    DE,
    DM_SHIFT,
    EB,
    FA,
    FM,
    HOPS_MASK,
    JN,
    JP,
    LM,
    MAX_HOPS,
    NULL_GUID_BYTES,
    PRIORITY_MASK,
    ST_MASK,
    TR,
    TX_ID_MASK,
    TX_ID_SHIFT,
    BaseHeader,
    MessagePropertiesHeader,
    SecurityHeader,
    TransactionHeader,
    UserHeader,
)
from lior.wire.optional_headers import Debug, MultiQueueFormat, Security, Soap, Transaction, provider_info
from lior.wire.packet_format_names import (
    Hosts,
    element_name,
    elements_of,
    format_name,
    guid_bytes,
    guid_of,
    packet_name,
)
from lior.wire.queue_names import (
    ABSENT,
    DIRECT,
    PRIVATE_ELSEWHERE,
    PRIVATE_ON_DESTINATION,
    PRIVATE_ON_SOURCE,
    PUBLIC,
    SAME_AS_ADMINISTRATION,
    NameElement,
    PacketName,
)
from lior.wire.user_message import UserMessage

LAST_SECOND: Final = 0xFFFFFFFF
_NOWHERE: Final = Hosts(NULL_GUID_BYTES, NULL_GUID_BYTES)


# ---- Message -> packet ----------------------------------------------------------------------------------------------


def to_packet(message: Message, *, destination_queue_manager: UUID = NULL_GUID) -> bytes:
    """The packet of a message; see `to_user_message`."""
    security = message.security
    if security is not None and security.privacy_level != PrivacyLevel.NONE and not security.symmetric_key:
        raise InvalidParameter("the message is to be encrypted and has no key", where="UserMessage",
                               remedy="encrypt the body of the UserMessage before it is packed")
    return to_user_message(message, destination_queue_manager=destination_queue_manager).encode()


def to_user_message(message: Message, *, destination_queue_manager: UUID = NULL_GUID) -> UserMessage:
    """3.1.7.1.30 and 3.1.7.1.32. `destination_queue_manager` is where a PUBLIC= destination is; other names tell it.

    The body goes in as it is: who encrypts or signs works on the result, before `encode`.
    """
    if message.identifier is None:
        raise InvalidParameter("a message without an identifier", where="UserHeader.MessageID",
                               remedy="the queue manager that takes a message numbers it")
    source = message.source_queue_manager
    if source.int == 0:
        source = message.identifier.lineage
    destination, address = destination_of(message.destination_queue, destination_queue_manager)
    hosts = Hosts(guid_bytes(source), address)
    # AdminQueue is there exactly when an acknowledgement is asked for (2.2.19.2)
    admin_names = message.administration_queue if message.acknowledgements_requested & ACK_MASK else ""
    admin, response = ABSENT, ABSENT
    if admin_names or message.response_queue:
        admin = packet_name(admin_names, hosts)
        hosts = Hosts(hosts.source, address, _private_host(admin, hosts))
        response = packet_name(message.response_queue, hosts)
        if admin_names == message.response_queue:
            response = PacketName(SAME_AS_ADMINISTRATION)
    return UserMessage(
        base=_base_header(message),
        user=_user_header(message, hosts, message.identifier.uniquifier),
        properties=_properties(message),
        body=message.body,
        label=_label(message.label),
        extension=message.extension,
        destination_queue=destination,
        admin_queue=admin,
        response_queue=response,
        connector_type=None if message.connector_type is None else message.connector_type.bytes_le,
        transaction=None if message.transaction is None else _transaction(message.transaction),
        security=None if message.security is None else _security(message.security),
        debug=_debug(message),
        soap=_soap(message.soap),
        multi_queue=_multi_queue(message, admin_names),
    )


def destination_of(text: str, queue_manager: UUID) -> tuple[PacketName, bytes]:
    """DestinationQueue and QueueManagerAddress, which is null for a direct name (2.2.19.2)."""
    name = packet_name(text, _NOWHERE)
    if name.type == DIRECT:
        return name, NULL_GUID_BYTES
    if name.type == PRIVATE_ELSEWHERE:
        return PacketName(PRIVATE_ON_DESTINATION, number=name.number), name.guid
    if name.type == PUBLIC and queue_manager == NULL_GUID:
        raise InvalidParameter("a public queue whose queue manager is not known", where=text,
                               remedy="say which queue manager holds the queue")
    return name, guid_bytes(queue_manager) if name.type == PUBLIC else NULL_GUID_BYTES


def _private_host(admin: PacketName, hosts: Hosts) -> bytes | None:
    private = (PRIVATE_ON_SOURCE, PRIVATE_ON_DESTINATION, PRIVATE_ELSEWHERE)
    return hosts.of(admin) if admin.type in private else None


def _base_header(message: Message) -> BaseHeader:
    # A transactional message has no priority: order is what it has (2.2.19.1)
    priority = 0 if message.transaction is not None else message.priority
    if not 0 <= priority <= PRIORITY_MASK:
        raise InvalidParameter(f"priority {priority}", where="BaseHeader.Flags", remedy="it is 0 to 7")
    return BaseHeader(flags=priority | (TR if message.tracing_requested else 0),
                      time_to_reach_queue=message.time_to_reach_queue)


def _user_header(message: Message, hosts: Hosts, message_id: int) -> UserHeader:
    mode = message.delivery_guarantee if message.transaction is None else DeliveryGuarantee.RECOVERABLE.value
    if not 0 <= mode <= 1 or not 0 <= message.hop_count <= MAX_HOPS:
        raise InvalidParameter(f"delivery {mode}, {message.hop_count} hops", where="UserHeader.Flags",
                               remedy=f"delivery is 0 or 1, and there are at most {MAX_HOPS} hops")
    flags = (message.hop_count | mode << DM_SHIFT | (JN if message.negative_journaling_requested else 0)
             | (JP if message.positive_journaling_requested else 0))
    sent = min(max(int(message.sent_time), 0), LAST_SECOND)
    return UserHeader(hosts.source, hosts.destination, message.time_to_be_received, sent, message_id, flags)


def _properties(message: Message) -> MessagePropertiesHeader:
    security = message.security or _PLAIN
    return MessagePropertiesHeader(
        message.acknowledgements_requested & ACK_MASK, 0, message.message_class, message.correlation_id,
        message.body_type, message.application_tag, len(message.body), 0, security.privacy_level,
        security.hash_algorithm, security.encryption_algorithm, 0)


def _label(label: str) -> bytes:
    if not label:
        return b""
    if "\0" in label:
        raise InvalidParameter("a label with a NUL inside", where="Label", remedy="take the NUL out")
    data = label.encode("utf-16-le", "surrogatepass")
    if len(data) > 2 * MAX_LABEL_LENGTH:
        raise LabelTooLong(f"a label of {len(data) // 2} UTF-16 units", where="Label",
                           remedy=f"a label has at most {MAX_LABEL_LENGTH}")
    return data + b"\0\0"


def _transaction(transaction: MessageTransaction) -> Transaction:
    if not 0 <= transaction.index <= TX_ID_MASK:
        raise InvalidParameter(f"transaction index {transaction.index}", where="TransactionHeader.Flags",
                               remedy="the index has 20 bits and wraps")
    flags = (transaction.index << TX_ID_SHIFT | (FA if transaction.final_ack_required else 0)
             | (FM if transaction.first_in_transaction else 0) | (LM if transaction.last_in_transaction else 0))
    header = TransactionHeader(flags, transaction.sequence_identifier, transaction.sequence_number,
                               transaction.previous_sequence_number)
    connector = transaction.connector_queue_manager
    return Transaction(header, None if connector is None else connector.bytes_le)


def _security(security: MessageSecurity) -> Security | None:
    """A SecurityHeader wherever there is something to put into it: frame 7 of [MS-MQQB] 4.1.7 has one for a SID alone.

    AU, AS and AI stay clear: the first two by 2.2.20.6, the third as in that frame.
    """
    provider = b""
    if security.signature and security.authentication_provider_name:
        provider = provider_info(security.authentication_provider_type, security.authentication_provider_name)
    if not (security.sender_identifier or security.symmetric_key or security.signature or security.sender_certificate):
        return None
    if not 0 <= security.sender_identifier_type <= ST_MASK:
        raise InvalidParameter(f"sender identifier type {security.sender_identifier_type}", where="SecurityHeader")
    flags = (security.sender_identifier_type | (EB if security.privacy_level != PrivacyLevel.NONE else 0)
             | (DE if security.signature and not provider else 0))
    return Security(SecurityHeader(flags), security.sender_identifier, security.symmetric_key, security.signature,
                    security.sender_certificate, provider)


def _debug(message: Message) -> Debug | None:
    if message.tracing_queue.int:
        return Debug(queue_identifier=message.tracing_queue.bytes_le)
    return Debug() if message.tracing_requested else None


def _soap(soap: MessageSoap | None) -> Soap | None:
    return Soap.of(soap.header, soap.body) if soap is not None and (soap.header or soap.body) else None


def _multi_queue(message: Message, admin_names: str) -> MultiQueueFormat | None:
    """Present when the message went to several queues, or when the UserHeader has no room for all its other names."""
    destinations = message.destination_multi_queue
    if not destinations and "," not in admin_names and "," not in message.response_queue:
        return None
    admins, responses = elements_of(admin_names), elements_of(message.response_queue)
    if not destinations and len(admins) < 2 and len(responses) < 2:
        return None
    signature = message.security.multi_queue_signature if message.security is not None else b""
    return MultiQueueFormat.of(elements_of(destinations or message.destination_queue), admins, responses, signature)


# ---- packet -> Message ----------------------------------------------------------------------------------------------


def to_message(packet: bytes | bytearray | memoryview, *, queue_manager: UUID) -> Message:
    """3.1.7.1.31: the message in a packet that came to `queue_manager`."""
    return from_user_message(UserMessage.decode(packet), queue_manager=queue_manager)


def from_user_message(user_message: UserMessage, *, queue_manager: UUID) -> Message:
    """The message of a decoded packet; an encrypted body stays as it is, so decrypt it first."""
    base, user, properties = user_message.base, user_message.user, user_message.properties
    flags, source = user.flags, guid_of(user.source_queue_manager)
    transaction, multi_queue = user_message.transaction, user_message.multi_queue
    administration, response = _other_names(user_message, queue_manager)
    name, debug = user_message.destination_queue, user_message.debug
    destination = f"DIRECT={name.text}" if name.type == DIRECT else format_name(
        name, _hosts(user_message, queue_manager))
    traced_to = debug.queue_identifier if debug is not None else None
    connector = user_message.connector_type
    return Message(
        body=_body(user_message),
        label=user_message.label_text,
        body_type=properties.body_type,
        extension=user_message.extension,
        application_tag=properties.application_tag,
        correlation_id=properties.correlation_id,
        message_class=properties.message_class,
        priority=base.flags & PRIORITY_MASK if transaction is None else 0,
        delivery_guarantee=flags >> DM_SHIFT & 3,
        acknowledgements_requested=properties.flags & ACK_MASK,
        positive_journaling_requested=flags & JP != 0,
        negative_journaling_requested=flags & JN != 0,
        time_to_reach_queue=base.time_to_reach_queue,
        time_to_be_received=user.time_to_be_received,
        administration_queue=administration,
        response_queue=response,
        destination_queue=destination,
        destination_multi_queue=_joined(multi_queue.destination.names) if multi_queue is not None else "",
        identifier=ObjectId(source, user.message_id),
        source_queue_manager=source,
        sent_time=float(user.sent_time),
        tracing_requested=base.flags & TR != 0,
        tracing_queue=guid_of(traced_to) if traced_to is not None else NULL_GUID,
        connector_type=guid_of(connector) if connector is not None else None,
        hop_count=flags & HOPS_MASK,
        security=_message_security(user_message),
        transaction=_message_transaction(transaction) if transaction is not None else None,
        soap=_message_soap(user_message.soap) if user_message.soap is not None else None,
        packet=user_message.envelope,
    )


def _hosts(user_message: UserMessage, queue_manager: UUID) -> Hosts:
    user = user_message.user
    address = user.queue_manager_address
    hosts = Hosts(user.source_queue_manager, address if address != NULL_GUID_BYTES else guid_bytes(queue_manager))
    return Hosts(hosts.source, hosts.destination, _private_host(user_message.admin_queue, hosts))


def _other_names(user_message: UserMessage, queue_manager: UUID) -> tuple[str, str]:
    """Administration and response queues: the lists where they stand, the names in the UserHeader otherwise."""
    admin, response, lists = user_message.admin_queue, user_message.response_queue, user_message.multi_queue
    if not admin.type and not response.type and lists is None:
        return "", ""
    hosts = _hosts(user_message, queue_manager)
    admin_names = format_name(admin, hosts)
    if lists is not None and lists.administration.names:
        admin_names = _joined(lists.administration.names)
    if lists is not None and lists.response.names:
        return admin_names, _joined(lists.response.names)
    return admin_names, admin_names if response.type == SAME_AS_ADMINISTRATION else format_name(response, hosts)


def _joined(names: list[NameElement]) -> str:
    return ",".join(map(element_name, names))


def _body(user_message: UserMessage) -> bytes:
    """MessageSize bytes; all that the packet has where the body is encrypted, for the rest belongs to the cipher."""
    security = user_message.security
    if security is not None and security.header.flags & EB:
        return bytes(user_message.body)
    return bytes(user_message.body[: user_message.properties.message_size])


def _message_security(user_message: UserMessage) -> MessageSecurity | None:
    properties, security = user_message.properties, user_message.security
    signature = user_message.multi_queue.signature if user_message.multi_queue is not None else b""
    algorithms = (properties.privacy_level, properties.hash_algorithm, properties.encryption_algorithm)
    if security is None and not signature and algorithms == PLAIN_ALGORITHMS:
        return None
    result = MessageSecurity(multi_queue_signature=signature)
    result.privacy_level, result.hash_algorithm, result.encryption_algorithm = algorithms
    if security is None:
        return result
    result.sender_identifier_type = security.header.flags & ST_MASK
    result.sender_identifier = security.sender_id
    result.sender_certificate = security.sender_cert
    result.signature = security.signature
    result.symmetric_key = security.encryption_key
    provider = security.provider
    if provider is not None:
        result.authentication_provider_type, result.authentication_provider_name = provider
    return result


def _message_transaction(transaction: Transaction) -> MessageTransaction:
    header, connector = transaction.header, transaction.connector_qm_guid
    return MessageTransaction(
        sequence_identifier=header.tx_sequence_id,
        sequence_number=header.tx_sequence_number,
        previous_sequence_number=header.previous_tx_sequence_number,
        index=header.flags >> TX_ID_SHIFT & TX_ID_MASK,
        first_in_transaction=header.flags & FM != 0,
        last_in_transaction=header.flags & LM != 0,
        final_ack_required=header.flags & FA != 0,
        connector_queue_manager=guid_of(connector) if connector is not None else None,
    )


def _message_soap(soap: Soap) -> MessageSoap:
    header, body = soap.texts
    return MessageSoap(header=header, body=body)


_PLAIN: Final = MessageSecurity()
PLAIN_ALGORITHMS: Final = (_PLAIN.privacy_level, _PLAIN.hash_algorithm, _PLAIN.encryption_algorithm)
