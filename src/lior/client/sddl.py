"""Security descriptors as text (SDDL), for programs and the command line; docs/security-descriptors.md."""

from lior.wire.sddl import format_sddl, parse_sddl

__all__ = ["format_sddl", "parse_sddl"]
