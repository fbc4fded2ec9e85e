"""Bulk transfer: Arrow Flight in a process of its own, beside the queue manager's."""
