"""What the columns of bulk transfer are called; without pyarrow."""

from lior.wire.bulk import COLUMNS, JOURNAL_COPY, JOURNAL_DEAD_LETTER, USUAL, WRITABLE, checked_columns

__all__ = ["COLUMNS", "JOURNAL_COPY", "JOURNAL_DEAD_LETTER", "USUAL", "WRITABLE", "checked_columns"]
