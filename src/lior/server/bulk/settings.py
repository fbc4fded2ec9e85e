"""Settings of bulk transfer."""

from __future__ import annotations

from dataclasses import dataclass

from lior.server.setting import port, setting


@dataclass(frozen=True, slots=True)
class BulkSection:
    """Bulk transfer: Arrow Flight for Spark, pandas, polars and DuckDB. It needs pyarrow (`lior[spark]`), and without
    `bulk.certificate` it listens on loopback addresses only."""

    port: int = port(15802, "TCP port.")
    bind: str = setting("", "Address; empty: the first of `server.bind`, or without a certificate the first of them "
                        "that is a loopback address, else 127.0.0.1.")  # fmt: skip
    certificate: str = setting("", "PEM file with the server's certificate and those above it: TLS.")
    key: str = setting("", "PEM file with its private key; empty: it is in the same file.")
    batch_bytes: int = setting(4 << 20, "About how much of bodies goes into one batch of rows.", 4096)
    batch_rows: int = setting(16384, "Most rows of one batch.", 1)
    max_streams: int = setting(64, "Most streams at a time, in both directions.", 1)
    max_stage_bytes: int = setting(1 << 30, "Most bytes that one task of a writer puts aside.", 4096)
    max_staged_bytes: int = setting(16 << 30, "Most bytes that all writers have put aside.", 4096)
    stage_timeout: float = setting(3600.0, "After so long what nobody published is removed.", 1)
