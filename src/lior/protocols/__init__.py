"""State machines of the protocols: bytes and the time in, effects out. They have no sockets and no clock."""
