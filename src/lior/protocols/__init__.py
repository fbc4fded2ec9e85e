"""State machines of the protocols: bytes and the time go in, effects come out. No input, output or clock of their own."""
