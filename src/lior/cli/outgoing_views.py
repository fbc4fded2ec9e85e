"""Outgoing queues and connections as rows, fields and JSON objects."""

from __future__ import annotations

from typing import Any, Final

from lior.cli.output import age, duration, iso, size
from lior.cli.views import queue_json, state_text
from lior.client.backend import info_of

OUTGOING_HEADINGS: Final = ("DESTINATION", "STATE", "MESSAGES", "SIZE", "OLDEST", "NEXT HOP", "LAST ATTEMPT")
HISTORY_HEADINGS: Final = ("WHEN", "CONNECTION", "ERROR", "ADDRESSES")
CONNECTION_HEADINGS: Final = ("PEER", "STATE", "SINCE", "SENT", "RECEIVED", "SIZE", "QUEUE MANAGER")


def outgoing_json(figures: dict[str, Any]) -> dict[str, Any]:
    history = [entry | {"time": iso(entry["time"])} for entry in figures["history"]]
    transfer = figures["transfer"]
    times = {name: iso(transfer[name]) for name in ("eod_resend_time", "eod_last_ack_time")}
    return queue_json(info_of(figures)) | {
        "next_hops": figures["next_hops"],
        "history": history,
        "transfer": transfer | times,
    }


def outgoing_row(figures: dict[str, Any]) -> tuple[str, ...]:
    info = info_of(figures)
    history = figures["history"]
    last = f"{status_text(history[-1])} {age(history[-1]['time'])} ago" if history else ""
    return (info.format_name, state_text(info), str(info.messages), size(info.bytes), age(info.oldest),
            ", ".join(figures["next_hops"]), last)


def outgoing_fields(figures: dict[str, Any]) -> dict[str, str]:
    """What is known of its way, and of its stream of transactional messages."""
    stream = figures["transfer"]
    fields = {"next hops": ", ".join(figures["next_hops"])}
    if stream["eod_next_seq"]["sequence_id"] or stream["eod_no_ack_count"]:
        fields |= {
            "next number": number_text(stream["eod_next_seq"]),
            "acknowledged": number_text(stream["eod_last_ack"]),
            "unacknowledged": f"{stream['eod_no_ack_count']}, from {number_text(stream['eod_first_non_ack'])} to "
            f"{number_text(stream['eod_last_non_ack'])}" if stream["eod_no_ack_count"] else "none",
            "acknowledgement": f"{age(stream['eod_last_ack_time'])} ago" if stream["eod_last_ack_time"] else "none yet",
            "resends": f"{stream['eod_resend_count']}, every {duration(stream['eod_resend_interval'])}"
            if stream["eod_resend_count"] else "",
        }  # fmt: skip
    return {name: value for name, value in fields.items() if value}


def number_text(sequence: dict[str, int]) -> str:
    """A place in a stream: which stream, and the number in it."""
    return f"{sequence['sequence_id']:#x}/{sequence['sequence_number']}"


def history_row(entry: dict[str, Any]) -> tuple[str, ...]:
    error = f"0x{entry['error'] & 0xFFFFFFFF:08X}" if entry["error"] else ""
    return (iso(entry["time"]) or "", status_text(entry), error, ", ".join(entry["addresses"]))


def status_text(entry: dict[str, Any]) -> str:
    return str(entry["status"]).lower().replace("_", " ")


def connection_row(known: dict[str, Any]) -> tuple[str, ...]:
    side = "from" if known["accepted"] else "to"
    return (f"{side} {known['address']}", known["state"].lower(), f"{age(known['since'])} ago",
            str(known["messages_sent"]), str(known["messages_received"]), size(known["bytes_received"]),
            known["queue_manager"])
