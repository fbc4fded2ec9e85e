"""Packets at the moment they leave."""

from __future__ import annotations

from uuid import UUID

import pytest

from lior.server.transfer.packets import passed_on
from lior.wire.message_packet import to_message
from tests.interop.second_packets import UserMessage, direct
from tests.wire import second_user_message

HERE = UUID(int=1)
AH = 1 << 25


@pytest.mark.spec("MQ-093")
def test_a_packet_for_somebody_else_goes_on_as_it_came_but_for_its_hops_and_the_mark_of_http() -> None:
    sent = UserMessage(destination=direct("OS:far\\q"), body=b"body", message_id=7, hops=2, extra_flags=AH)
    came = sent.encode()
    message = to_message(came, queue_manager=HERE)
    message.hop_count = 3
    left = passed_on(message)
    assert second_user_message.decode(left)["user_flags"] == sent.flags() & ~AH & ~0x1F | 3
    assert left[:60] + left[64:] == came[:60] + came[64:]
