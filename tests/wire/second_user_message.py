"""A second reading of the UserMessage packet, for comparison: written from the tables of [MS-MQMQ] 2.2.18 to 2.2.20.

It shares nothing with src/lior and favours obviousness over speed: a cursor, one step for each row of a table, bits
taken from integers one field at a time. What is not a packet raises Refused.
"""

from typing import Any


class Refused(Exception):
    """These bytes are not one UserMessage packet."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise Refused(what)


class Cursor:
    def __init__(self, data: bytes, end: int) -> None:
        self.data, self.end, self.at = data, end, 0

    def take(self, count: int) -> bytes:
        require(self.at + count <= self.end, f"{count} bytes at {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        total = 0
        for place, octet in enumerate(self.take(size)):
            total += octet * 256**place
        return total

    def pad(self, boundary: int, origin: int = 0) -> None:
        while (self.at - origin) % boundary:
            self.take(1)

    def units(self, count: int) -> list[int]:
        return [self.number(2) for _ in range(count)]


def bits(value: int, first: int, last: int) -> int:
    width: int = 2 ** (last - first + 1)
    return (value >> first) % width


def terminated(units: list[int]) -> list[int]:
    """2.2.18.1.5.2, 2.2.19.3, 2.2.20.7: a NUL at the end and nowhere else."""
    require(bool(units) and units[-1] == 0 and 0 not in units[:-1], "NUL")
    return units[:-1]


def decode(data: bytes, *, read: bool = False) -> dict[str, Any]:
    """`read` says that it came out of a queue: [MS-MQRR] 2.2.5.1 has two headers more."""
    out: dict[str, Any] = {}
    require(len(data) >= 16, "BaseHeader")
    base = Cursor(data, 16)
    require(base.number(1) == 0x10, "VersionNumber")
    out["reserved"] = base.number(1)
    base_flags = out["base_flags"] = base.number(2)
    require(base.take(4) == b"LIOR", "Signature")
    size = base.number(4)
    require(size <= 0x00400000, "PacketSize")
    out["time_to_reach_queue"] = base.number(4)
    require(not bits(base_flags, 3, 3), "IN")
    require(not bits(base_flags, 8, 8) or bits(base_flags, 5, 5) == 1, "TR without DH")
    has_session = bits(base_flags, 4, 4)
    require(len(data) == size + 16 * has_session, "length")

    packet = Cursor(data, size)
    packet.take(16)
    flags = user_header(packet, out)
    if bits(flags, 20, 20):
        transaction_header(packet, out)
    if bits(flags, 19, 19):
        security_header(packet, out)
    message_properties_header(packet, out)
    if bits(base_flags, 5, 5):
        debug_header(packet, out)
    if read and bits(flags, 25, 25):
        srmp_headers(packet, out)
    if bits(flags, 28, 28):
        soap_header(packet, out, bool(bits(flags, 23, 23)))
    if bits(flags, 23, 23):
        multi_queue_format_header(packet, out)
    if packet.at != size:
        packet.pad(4)
    require(packet.at == size, "left over")
    if has_session:
        session_header(Cursor(data[size:], 16), out)
    return out


def user_header(packet: Cursor, out: dict[str, Any]) -> int:
    out["source_queue_manager"] = packet.take(16)
    out["queue_manager_address"] = packet.take(16)
    out["time_to_be_received"] = packet.number(4)
    out["sent_time"] = packet.number(4)
    out["message_id"] = packet.number(4)
    flags: int = packet.number(4)
    out["user_flags"] = flags
    delivery, dq, aq, rq = bits(flags, 5, 6), bits(flags, 10, 12), bits(flags, 13, 15), bits(flags, 16, 18)
    require(delivery in (0, 1), "DM")
    require(not (bits(flags, 20, 20) and delivery == 0), "TH without DM")
    require(bits(flags, 21, 21) == 1, "MP")
    require(dq in (0, 3, 5, 7), "DQ")
    require(aq in (0, 2, 3, 5, 6, 7), "AQ")
    out["destination_queue"] = queue_name(packet, dq)
    out["admin_queue"] = queue_name(packet, aq)
    out["response_queue"] = queue_name(packet, rq)
    if bits(flags, 22, 22):
        out["connector_type"] = packet.take(16)
    return flags


def queue_name(packet: Cursor, kind: int) -> Any:
    if kind in (2, 3, 4):
        return kind, packet.number(4)
    if kind == 5:
        return kind, packet.take(16)
    if kind == 6:
        return kind, packet.take(16), packet.number(4)
    if kind == 7:
        count = packet.number(2)
        require(count % 2 == 0 and count >= 4, "Count")
        name = terminated(packet.units(count // 2))
        packet.pad(4, 16)  # the UserHeader begins at 16
        return kind, name
    return (kind,)


def transaction_header(packet: Cursor, out: dict[str, Any]) -> None:
    flags = packet.number(4)
    ordinal, time_stamp = packet.number(4), packet.number(4)
    number, previous = packet.number(4), packet.number(4)
    require(number >= 1 and previous < number, "TxSequenceNumber")
    connector = packet.take(16) if bits(flags, 0, 0) else None
    out["transaction"] = (flags, (time_stamp, ordinal), number, previous, connector)


def security_header(packet: Cursor, out: dict[str, Any]) -> None:
    flags = packet.number(2)
    sizes = [packet.number(2), packet.number(2), packet.number(2), packet.number(4), packet.number(4)]
    require(any(sizes) and sizes[3] <= 0xFFFF, "sizes")
    items = []
    for size in sizes:
        items.append(packet.take(size))
        packet.pad(4)
    sender_type, sender = bits(flags, 0, 3), items[0]
    require(sender_type in (0, 1, 2), "ST")
    if sender_type == 0:
        require(len(sender) == 0, "sender without a type")
    elif sender_type == 2:
        require(len(sender) == 16, "GUID")
    else:
        require(len(sender) >= 8 and sender[0] == 1 and sender[1] <= 15 and len(sender) == 8 + 4 * sender[1], "SID")
    provider = None
    if not bits(flags, 6, 6):
        require(not items[2] or len(items[4]) > 0, "a signature needs a provider")
        if items[4]:
            info = Cursor(items[4], len(items[4]))
            kind, rest = info.number(4), len(items[4]) - 4
            require(rest % 2 == 0, "ProviderName")
            provider = (kind, terminated(info.units(rest // 2)))
    out["security"] = (flags, *items, provider)


def message_properties_header(packet: Cursor, out: dict[str, Any]) -> None:
    out["ack_flags"] = packet.number(1)
    label_length = packet.number(1)
    out["message_class"] = packet.number(2)
    out["correlation_id"] = packet.take(20)
    out["body_type"], out["application_tag"] = packet.number(4), packet.number(4)
    message_size, allocated = packet.number(4), packet.number(4)
    out["message_size"] = message_size
    out["privacy_level"], out["hash_algorithm"] = packet.number(4), packet.number(4)
    out["encryption_algorithm"] = packet.number(4)
    extension_size = packet.number(4)
    require(label_length <= 250 and message_size <= allocated, "sizes")
    out["label"] = terminated(packet.units(label_length)) if label_length else None
    out["extension"] = packet.take(extension_size)
    out["body"] = packet.take(allocated)
    packet.pad(4)


def debug_header(packet: Cursor, out: dict[str, Any]) -> None:
    flags, reserved = packet.number(2), packet.number(2)
    require(bits(flags, 0, 1) in (0, 1), "QT")
    out["debug"] = (flags, reserved, packet.take(16) if bits(flags, 0, 1) else None)


def srmp_headers(packet: Cursor, out: dict[str, Any]) -> None:
    """[MS-MQRR] 2.2.5.1.2: the envelope in WCHARs, then the request with its body's place in it."""
    packet.take(4)
    units = terminated(packet.units(packet.number(4)))
    out["envelope"] = b"".join(unit.to_bytes(2, "little") for unit in units).decode("utf-16-le")
    packet.pad(4)
    packet.take(4)
    size, body_size, body_offset = packet.number(4), packet.number(4), packet.number(4)
    request = packet.take(size)
    require(body_offset + body_size <= size, "body in the request")
    out["request"], out["request_body"] = request, request[body_offset : body_offset + body_size]
    if packet.at != packet.end:
        packet.pad(4)


def soap_header(packet: Cursor, out: dict[str, Any], followed: bool) -> None:
    """Padding behind a section is not specified: both readings, the padded one first."""
    start, found = packet.at, []
    for padded in (True, False):
        packet.at = start
        try:
            sections = soap_sections(packet, padded)
        except Refused:
            continue
        rest = packet.data[packet.at : packet.end]
        fits = rest[4:6] == b"\x64\x00" if followed else len(rest) == 0 or (len(rest) == -packet.at % 4)
        found.append((fits, packet.at, sections))
    require(bool(found), "SoapHeader")
    _, packet.at, sections = next((one for one in found if one[0]), found[0])
    out["soap"] = sections


def soap_sections(packet: Cursor, padded: bool) -> list[Any]:
    sections = []
    for identifier in (0x0320, 0x0384):
        require(packet.number(2) == identifier, "section")
        reserved, length = packet.number(2), packet.number(4)
        require(2 * length <= packet.end - packet.at, "section length")
        sections.append((reserved, terminated(packet.units(length)) if length else None))
        if padded:
            packet.pad(4)
    return sections


def multi_queue_format_header(packet: Cursor, out: dict[str, Any]) -> None:
    lists = [address_header(packet, identifier) for identifier in (0x0064, 0x00C8, 0x012C)]
    require(packet.number(2) == 0x015E, "signature id")
    reserved = packet.number(2)
    out["multi_queue"] = (lists, reserved, packet.take(packet.number(4)))


def address_header(packet: Cursor, identifier: int) -> Any:
    origin = packet.at
    size = packet.number(4)
    require(packet.number(2) == identifier, "HeaderID")
    reserved, count = packet.number(2), packet.number(4)
    require(12 <= size <= packet.end - origin, "HeaderSize")
    inner = Cursor(packet.data, origin + size)
    inner.at = packet.at
    names: list[Any] = []
    for _ in range(count):
        kind = inner.number(2)
        require(kind in (1, 2, 3, 6), "FormatType")
        inner.pad(2 if kind == 3 else 4, origin)
        if kind == 3:
            units: list[int] = []
            while not units or units[-1]:
                units.append(inner.number(2))
            require(len(units) > 1, "empty name")
            names.append((kind, units[:-1]))
        elif kind == 2:
            names.append((kind, inner.take(16), inner.number(4)))
        else:
            names.append((kind, inner.take(16)))
    require(size - (inner.at - origin) < 4, "HeaderSize leaves room")
    content = inner.at - origin
    require(size in (content, content + -content % 4), "HeaderSize is neither padded nor not")
    packet.at = inner.at
    packet.pad(4, origin)
    return reserved, names


def session_header(session: Cursor, out: dict[str, Any]) -> None:
    out["session"] = (session.number(2), session.number(2), session.number(4), session.number(2), session.number(2),
                      session.number(2), session.number(2))
