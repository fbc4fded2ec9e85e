"""The `lior` command."""
