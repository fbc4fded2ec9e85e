"""The exception class: who gets a message that nobody else could play (COM+'s IPlaybackControl)."""

from __future__ import annotations

import inspect
from typing import Final
from uuid import UUID

from lior.components.application import Playback
from lior.components.playback import CallFailed, Stage

PLAYBACK_CONTROL: Final = UUID("51372AFD-CAE7-11CF-BE81-00AA00A2FA25")  # IID of IPlaybackControl


async def final_retry(playback: Playback, stage: Stage, notice: str) -> None:
    """Tell it which attempt this is, if it wants to know (`final_server_retry` or `final_client_retry`, without
    arguments), then make all calls on it."""
    assert playback.served.exception_class is not None
    try:
        target = playback.served.exception_class()
        told = getattr(target, notice, None)
        if told is not None:
            answer = told()
            if inspect.isawaitable(answer):
                await answer
    except Exception as error:
        raise CallFailed(None, notice, error) from error
    await stage.play(target, playback.calls)
