"""Names of queues: path names, format names, QUEUE_FORMAT, and what they mean here ([MS-MQMQ] 2.1)."""

from lior.names.elements import (
    DEFAULT_PORTS,
    MAX_ELEMENTS,
    ConnectorName,
    DirectName,
    DistributionListName,
    FormatName,
    MachineName,
    MulticastName,
    MultipleName,
    PrivateName,
    PublicName,
    SingleName,
    is_read_only,
)
from lior.names.grammar import PathKind, QueueFormatType, QueueSuffix
from lior.names.local import LocalNames, check_without_directory, expand, queue_path
from lior.names.parsing import MAX_TEXT_LENGTH, parse_direct_id, parse_format_name
from lior.names.path import PathName, parse_path_name, private_queue_number
from lior.names.queue_format import (
    QueueFormat,
    from_queue_format,
    is_valid_suffix,
    split_suffix_and_flags,
    to_queue_format,
)

__all__ = [
    "DEFAULT_PORTS",
    "MAX_ELEMENTS",
    "MAX_TEXT_LENGTH",
    "ConnectorName",
    "DirectName",
    "DistributionListName",
    "FormatName",
    "LocalNames",
    "MachineName",
    "MulticastName",
    "MultipleName",
    "PathKind",
    "PathName",
    "PrivateName",
    "PublicName",
    "QueueFormat",
    "QueueFormatType",
    "QueueSuffix",
    "SingleName",
    "check_without_directory",
    "expand",
    "from_queue_format",
    "is_read_only",
    "is_valid_suffix",
    "parse_direct_id",
    "parse_format_name",
    "parse_path_name",
    "private_queue_number",
    "queue_path",
    "split_suffix_and_flags",
    "to_queue_format",
]
