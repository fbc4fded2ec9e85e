"""The admin API: JSON over HTTP on a Unix socket and a TCP port."""
