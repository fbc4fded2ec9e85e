"""PGM, source and receiver, without sockets and clock ([MC-MQSRM] 2.1.2, 2.1.3; RFC 3208)."""
