"""The worked examples of [MC-MQSRM] section 4, put together again: the lines that the print lost are restored, and
every entity has the form that its stated lengths prove."""

HEAD = '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" xmlns="http://schemas.xmlsoap.org/srmp/">'
NULL_ID = "uuid:1@00000000-0000-0000-0000-000000000000"
PART_GUID = "ff3af301-3196-497a-a918-72147c871a13"
STREAM = "uid:2744e4e1-2b48-43e8-b441-42745f280d53\\4839986701558349830"
CORRELATION = "AAAAAAAAAAAAAAAAAAAAAAAAAAA="
ORDER = b"""<?xml version="1.0"?>\r
<Order xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">\r
  <orderId>3</orderId>\r
  <orderTime>2007-07-18T20:11:40.2614595-07:00</orderTime>\r
</Order>"""


def path(action: str, to: str, identifier: str, via: str = "") -> str:
    rev = f"<rev><via>{via}</via></rev>" if via else ""
    return (f'<path xmlns="http://schemas.xmlsoap.org/rp/" se:mustUnderstand="1"><action>{action}</action><to>{to}</to>'
            f"{rev}<id>{identifier}</id></path>")  # fmt: skip


def properties(expires: str, sent: str) -> str:
    return f'<properties se:mustUnderstand="1"><expiresAt>{expires}</expiresAt><sentAt>{sent}</sentAt></properties>'


def msmq(guid: str, ttrq: str, *, number: int = 0, priority: int = 3, body_type: int = 0, hash_algorithm: int = 0,
         correlation: str = CORRELATION) -> str:  # fmt: skip
    return (f'<Msmq xmlns="msmq.namespace.xml"><Class>{number}</Class><Priority>{priority}</Priority>'
            f"<Correlation>{correlation}</Correlation><App>0</App><BodyType>{body_type}</BodyType>"
            f"<HashAlgorithm>{hash_algorithm}</HashAlgorithm><SourceQmGuid>{guid}</SourceQmGuid>"
            f"<TTrq>{ttrq}</TTrq></Msmq>")  # fmt: skip


def envelope(*entries: str) -> bytes:
    return f"{HEAD}<se:Header>{''.join(entries)}</se:Header><se:Body></se:Body></se:Envelope>".encode()


def multipart(boundary_number: int, root: bytes, body: bytes, guid: str) -> tuple[str, bytes]:
    """The Content-Type and the entity, in the form of the wire: no line break before a delimiter."""
    boundary = f"MSMQ - SOAP boundary, {boundary_number}"
    first = f"--{boundary}\r\nContent-Type: text/xml; charset=UTF-8\r\nContent-Length: {len(root)}\r\n\r\n"
    second = (f"--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n"
              f"Content-Id: body@{guid}\r\n\r\n")  # fmt: skip
    entity = first.encode() + root + second.encode() + body + f"--{boundary}--\r\n".encode()
    return f'multipart/related; boundary="{boundary}"; type=text/xml', entity


QUEUE = "http://machine2/msmq/private$/simpleq"

SIMPLE = envelope(  # 4.1
    path("MSMQ:mqsender label", QUEUE, NULL_ID), properties("20070609T164419", "20070608T164419")
)
WITH_MSMQ = envelope(  # 4.2
    path("MSMQ:", "http://machine2/msmq/private$/simpleQ", "uuid:20503@caf195ea-615c-4264-ae08-11a4e60194c0"),
    properties("20380119T031407", "20070719T031140"),
    msmq("caf195ea-615c-4264-ae08-11a4e60194c0", "20070723T031140", hash_algorithm=32772),
)
WITH_REQUESTS = (  # 4.3
    '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/" xmlns:rp="http://schemas.xmlsoap.org/rp/" '
    'xmlns="http://schemas.xmlsoap.org/srmp/"><se:Header><rp:path se:mustUnderstand="1">'
    f"<rp:action>Generic label</rp:action><rp:to>{QUEUE}</rp:to><rp:id>uuid:1@00000000-0000-0000-0000-000000000008"
    "</rp:id><rp:rev><rp:via>http://machine1/MSMQ/private$/Q1</rp:via></rp:rev></rp:path>"
    + properties("20070720T032452", "20070719T032452")
    + '<services xmlns="http://schemas.xmlsoap.org/srmp/" se:mustUnderstand="1"><commitmentReceiptRequest>'
    "<sendTo>http://machine1/MSMQ/private$/deliverydone</sendTo><negativeOnly/><positiveOnly/>"
    "</commitmentReceiptRequest><deliveryReceiptRequest><sendTo>http://machine1/MSMQ/private$/receipts</sendTo>"
    "</deliveryReceiptRequest></services></se:Header><se:Body></se:Body></se:Envelope>"
).encode()
RECEIVER = "ac678228-2dd6-418b-b31f-0539ffeea853"
ORIGINAL = "AAAAAAAAAAAAAAAAAAAAAAEAAAA="  # the correlation to a message without an identifier
DELIVERY_RECEIPT = envelope(
    path("MSMQ:", "http://machine1/MSMQ/private$/receipts", f"uuid:34826@{RECEIVER}", QUEUE),
    properties("20380119T031407", "20070719T032451"),
    f"<deliveryReceipt><receivedAt>20070719T032454</receivedAt><id>{NULL_ID}</id></deliveryReceipt>",
    msmq(RECEIVER, "20070723T032451", number=2, correlation=ORIGINAL),
)
COMMITMENT_RECEIPT = envelope(
    path("MSMQ:", "http://machine1/MSMQ/private$/receipts", f"uuid:34827@{RECEIVER}", QUEUE),
    properties("20380119T031407", "20070719T032721"),
    "<commitmentReceipt><decidedAt>20070719T032721</decidedAt><decision>positive</decision>"
    f"<id>{NULL_ID}</id></commitmentReceipt>",
    msmq(RECEIVER, "20070723T032721", number=16384, correlation=ORIGINAL),
)
STREAM_QUEUE = "http://machine2/msmq/private$/tsimpleq"
RECEIPTS_URL = "http://machine1/MSMQ/private$/receipts?SenderStream=XRntV"


def stream_message(number: int) -> bytes:
    """One of the three of 4.4; each has another source, and none says durable."""
    start = (f"<start><sendReceiptsTo>\n     {RECEIPTS_URL}\n   </sendReceiptsTo><expiresAt>20070620T165959</expiresAt>"
             "</start><streamReceiptRequest/>") if number == 1 else ""  # fmt: skip
    end = "<end/>" if number == 3 else ""
    sent = ("165959", "170000", "170001")[number - 1]
    guid = ("dc1cd9a6-8130-4504-88d2-851707fe4632", "6a74a825-57b2-43e5-9d34-f1d8b2b8950a",
            "f306d4c7-be95-419a-9e3b-8c751d04b1e9")[number - 1]  # fmt: skip
    return envelope(
        path("MSMQ:mqsender label", STREAM_QUEUE, f"uuid:{number}@{guid}"),
        properties(f"20070620T{sent}", f"20070619T{sent}"),
        f'<Stream se:mustUnderstand="1"><streamId>{STREAM}</streamId><current>{number}</current>{start}{end}</Stream>',
        msmq(guid, f"20070620T{sent}", priority=0, hash_algorithm=32772),
    )


def stream_receipt(number: int) -> bytes:
    sent = ("165958", "165959", "170001")[number - 1]
    source = "32221eda-9376-46df-b6ed-783091123831"
    return envelope(
        path("MSMQ:QM Ordering Ack", RECEIPTS_URL, f"uuid:{26639 + 2 * number}@{source}", STREAM_QUEUE),
        properties("20380119T031407", f"20070619T{sent}"),
        f"<streamReceipt><streamId>{STREAM}</streamId><lastOrdinal>{number}</lastOrdinal></streamReceipt>",
        msmq(source, f"20070623T{sent}", number=255, priority=0),
    )


MULTICAST_GUID = "32221eda-9376-46df-b6ed-783091123831"
MULTICAST = envelope(  # 4.5
    path("MSMQ:mqsender label", "MSMQ:MULTICAST=234.1.1.1:8001", f"uuid:4494@{MULTICAST_GUID}"),
    properties("20380119T031407", "20070608T023719"),
    msmq(MULTICAST_GUID, "20070612T023719", body_type=8, hash_algorithm=32772),
)
MULTICAST_BODY = "ardenwhite".encode("utf-16-le")
