"""The daemon: the only code with asyncio, sockets, threads, clock and entropy."""
