"""Messages that were read one by one, as the Arrow batches that bulk transfer gives. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lior.client.bulk import arrow_schema
from lior.message import Message
from lior.wire.bulk_rows import OF_MESSAGE, OF_ROW, StoredRow


def batch_of(
    messages: Sequence[Message], queue: str, columns: Sequence[str], first: int | None = None
) -> pa.RecordBatch:
    """`first` is the ordinal of the first, if they were claimed."""
    schema = arrow_schema(columns)
    rows = [StoredRow(None if first is None else first + at, queue, m.lookup_identifier, m.size, 0, m.arrival_time,
                      m.abort_count, m.move_count, b"", m.body) for at, m in enumerate(messages)]  # fmt: skip
    arrays = []
    for field in schema:
        if field.name in OF_ROW:
            values = [OF_ROW[field.name](row) for row in rows]
        elif field.name == "_error":
            values = [None] * len(rows)
        else:
            get = OF_MESSAGE[field.name]
            values = [get(row, message) for row, message in zip(rows, messages, strict=True)]
        arrays.append(pa.array(values, field.type))
    return pa.record_batch(arrays, schema=schema)
