"""Bytes to structures and back; pure."""
