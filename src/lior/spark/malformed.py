"""What becomes of rows whose record does not decode: they have `_error`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lior.errors import Malformed
from lior.spark.options import ReadOptions


def filtered(batches: Iterable[pa.RecordBatch], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """PERMISSIVE hands them on, FAILFAST ends the job, DROPMALFORMED leaves them out."""
    for batch in batches:
        at = batch.schema.get_field_index("_error")
        if options.mode == "PERMISSIVE" or at < 0 or batch.column(at).null_count == batch.num_rows:
            yield batch
            continue
        errors = batch.column(at)
        if options.mode == "FAILFAST":
            first = next(text for text in errors.to_pylist() if text is not None)
            raise Malformed(f"a message does not decode: {first}", where=options.queue or options.queues,
                            remedy="use mode PERMISSIVE and look at the column _error")
        yield batch.filter(errors.is_null())
