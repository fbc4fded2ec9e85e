r"""QUEUE_FORMAT against the table of [MS-MQMQ] 2.2.7."""

from itertools import product
from uuid import UUID

import pytest

from lior.errors import IllegalFormatName
from lior.names import (
    QueueFormat,
    QueueFormatType,
    QueueSuffix,
    from_queue_format,
    is_valid_suffix,
    queue_path,
    split_suffix_and_flags,
    to_queue_format,
)
from tests.name_examples import GUID, LOCAL, direct, single


@pytest.mark.spec("MQ-031")
def test_queue_format_types_have_their_numbers() -> None:
    assert {t.name: int(t) for t in QueueFormatType} == {
        "UNKNOWN": 0, "PUBLIC": 1, "PRIVATE": 2, "DIRECT": 3, "MACHINE": 4, "CONNECTOR": 5, "DL": 6, "MULTICAST": 7,
        "SUBQUEUE": 8}


@pytest.mark.spec("MQ-031")
@pytest.mark.parametrize(
    ("text", "number"),
    [(f"PUBLIC={GUID}", 1), (f"PRIVATE={GUID}\\1", 2), (r"DIRECT=OS:h\q", 3), (f"MACHINE={GUID};JOURNAL", 4),
     (f"CONNECTOR={GUID}", 5), (f"DL={GUID}@d", 6), (f"DL={GUID}", 6), ("MULTICAST=234.1.1.1:8001", 7),
     (r"DIRECT=OS:h\q;s", 8), (f"PUBLIC={GUID};JOURNAL", 1), (f"PRIVATE={GUID}\\1;JOURNAL", 2),
     (r"DIRECT=OS:h\q;JOURNAL", 3), (r"DIRECT=OS:h\system$;DEADXACT", 3), (f"CONNECTOR={GUID};XACTONLY", 5)],
)
def test_a_name_has_the_type_that_its_queue_format_carries(text: str, number: int) -> None:
    name = single(text)
    form = to_queue_format(name)
    assert name.format_type == form.format_type == number
    assert is_valid_suffix(form.format_type, form.suffix, form.flags)
    assert form.reserved == 0
    back = from_queue_format(form)
    assert back == name
    assert str(back) == str(name)


@pytest.mark.spec("MQ-031")
def test_an_unknown_type_is_no_name() -> None:
    for form in (QueueFormat(QueueFormatType.UNKNOWN), QueueFormat(QueueFormatType.UNKNOWN, guid=UUID(GUID)),
                 QueueFormat(QueueFormatType.PUBLIC), QueueFormat(QueueFormatType.MULTICAST),
                 QueueFormat(QueueFormatType.DIRECT), QueueFormat(9, guid=UUID(GUID))):  # type: ignore[arg-type]
        with pytest.raises(IllegalFormatName):
            from_queue_format(form)


@pytest.mark.spec("MQ-034")
def test_the_suffix_is_in_the_low_four_bits() -> None:
    assert split_suffix_and_flags(0x81) == (QueueSuffix.JOURNAL, 0x80)
    assert split_suffix_and_flags(0x05) == (QueueSuffix.SUBQUEUE, 0x00)
    assert to_queue_format(single(r"DIRECT=OS:h\q;JOURNAL")).suffix_and_flags == 0x81
    assert to_queue_format(single(f"MACHINE={GUID};DEADXACT")).suffix_and_flags == 0x83
    assert to_queue_format(single(r"DIRECT=OS:h\q;s")).suffix_and_flags == 0x05
    for low in range(6, 16):
        assert split_suffix_and_flags(0x80 | low) == (low, 0x80)


# The allowed types of each suffix and flag, written out from the table of [MS-MQMQ] 2.2.7.
SUFFIX_TABLE = {
    (0, 0x00): {0, 1, 2, 3, 5, 6, 7, 8},
    (1, 0x80): {0, 1, 2, 3, 4, 8},
    (2, 0x80): {0, 3, 4, 8},
    (3, 0x80): {3, 4},
    (4, 0x00): {5},
    (4, 0x80): {5},
    (5, 0x00): {8},
}
FILLED = {
    1: QueueFormat(QueueFormatType.PUBLIC, guid=UUID(GUID)),
    2: QueueFormat(QueueFormatType.PRIVATE, guid=UUID(GUID), number=1),
    3: QueueFormat(QueueFormatType.DIRECT, direct_id=r"OS:h\q"),
    4: QueueFormat(QueueFormatType.MACHINE, guid=UUID(GUID)),
    5: QueueFormat(QueueFormatType.CONNECTOR, guid=UUID(GUID)),
    6: QueueFormat(QueueFormatType.DL, guid=UUID(GUID)),
    7: QueueFormat(QueueFormatType.MULTICAST, address="234.1.1.1", port=1),
    8: QueueFormat(QueueFormatType.SUBQUEUE, direct_id=r"OS:h\q;s"),
}


@pytest.mark.spec("MQ-035")
def test_exactly_the_allowed_triples_of_type_suffix_and_flags_are_valid() -> None:
    for format_type, suffix, flags in product(range(9), range(16), (0x00, 0x80)):
        allowed = format_type in SUFFIX_TABLE.get((suffix, flags), set())
        assert is_valid_suffix(format_type, suffix, flags) is allowed, (format_type, suffix, flags)
    for flags in (0x10, 0x40, 0x70, 0x90, 0xF0, 0x01):
        assert not is_valid_suffix(3, 0, flags)
        assert not is_valid_suffix(5, 4, flags)
    assert not is_valid_suffix(9, 0, 0)


@pytest.mark.spec("MQ-035")
def test_every_other_triple_is_an_illegal_format_name() -> None:
    for format_type, suffix, flags in product(range(1, 9), range(16), (0x00, 0x80, 0x10, 0xF0)):
        base = FILLED[format_type]
        text = base.direct_id
        if format_type == 3 and suffix in (QueueSuffix.DEADLETTER, QueueSuffix.DEADXACT):
            text = rf"OS:h\system$;{QueueSuffix(suffix).name}"
        form = QueueFormat(base.format_type, suffix, flags, base.guid, base.number, text, "", base.address, base.port)
        allowed = format_type in SUFFIX_TABLE.get((suffix, flags), set())
        if allowed and not (format_type == 8 and suffix in (1, 2)):  # a subqueue with a journal: no such queue
            assert from_queue_format(form).suffix in (suffix, QueueSuffix.NONE)
        else:
            with pytest.raises(IllegalFormatName) as caught:
                from_queue_format(form)
            assert caught.value.code == 0xC00E001E


def test_the_reserved_member_is_never_looked_at() -> None:
    for base in FILLED.values():
        other = QueueFormat(base.format_type, QueueSuffix.NONE, 0, base.guid, base.number, base.direct_id, base.domain,
                            base.address, base.port, reserved=0xFFFF)
        assert other == base
        if base.format_type != QueueFormatType.MACHINE:
            assert from_queue_format(other) == from_queue_format(base)


@pytest.mark.spec("MQ-037")
def test_a_subqueue_format_must_name_a_subqueue() -> None:
    for text in (r"OS:h\q", r"OS:h\q;JOURNAL", r"OS:h\private$\q", "", "nonsense", r"DIRECT=OS:h\q;s"):
        with pytest.raises(IllegalFormatName):
            from_queue_format(QueueFormat(QueueFormatType.SUBQUEUE, QueueSuffix.SUBQUEUE, direct_id=text))
    name = from_queue_format(QueueFormat(QueueFormatType.SUBQUEUE, QueueSuffix.SUBQUEUE, direct_id=r"OS:h\q;s"))
    assert str(name) == r"DIRECT=OS:h\q;s"


def test_a_journal_suffix_may_stand_in_the_text_or_beside_it() -> None:
    journal = direct(r"DIRECT=OS:h\q;JOURNAL")
    for suffix, flags, text in ((1, 0x80, r"OS:h\q"), (1, 0x80, r"OS:h\q;journal"), (0, 0, r"OS:h\q;JOURNAL")):
        form = QueueFormat(QueueFormatType.DIRECT, QueueSuffix(suffix), flags, direct_id=text)
        assert from_queue_format(form) == journal
    for suffix, text in ((QueueSuffix.DEADLETTER, r"OS:h\q;JOURNAL"), (QueueSuffix.DEADLETTER, r"OS:h\q"),
                         (QueueSuffix.JOURNAL, r"OS:h\q;s")):
        with pytest.raises(IllegalFormatName):
            from_queue_format(QueueFormat(QueueFormatType.DIRECT, suffix, 0x80, direct_id=text))


@pytest.mark.spec("MQ-041")
def test_queue_suffixes_have_their_numbers_and_name_the_system_queues() -> None:
    assert {s.name: int(s) for s in QueueSuffix} == {
        "NONE": 0, "JOURNAL": 1, "DEADLETTER": 2, "DEADXACT": 3, "XACTONLY": 4, "SUBQUEUE": 5}
    machine = from_queue_format(QueueFormat(QueueFormatType.MACHINE, QueueSuffix.JOURNAL, 0x80, UUID(GUID)))
    assert str(queue_path(machine, LOCAL, lambda _: None)) == r"ALPHA\system$;JOURNAL"
