"""Where a stream stands: an ordinal of the subscription's claims. One number, however many queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

from lior.errors import BadConfiguration

VERSION: Final = 1


@dataclass(frozen=True)
class ClaimOffset:
    """Without an epoch it stands before the first claim: a checkpoint begins with it, and a first batch that is run
    again does, too; that knows its epoch from its end."""

    subscription: str
    epoch: str = ""
    ordinal: int = 0

    def to_json(self) -> dict[str, Any]:
        return {"v": VERSION, "sub": self.subscription, "epoch": self.epoch, "ord": self.ordinal}

    @classmethod
    def from_json(cls, value: dict[str, Any], subscription: str) -> Self:
        try:
            version, found = value["v"], cls(value["sub"], value["epoch"], int(value["ord"]))
        except (KeyError, TypeError, ValueError) as error:
            raise BadConfiguration(f"this is no offset of ours: {value!r:.200}", where="checkpoint",
                                   remedy="use a checkpoint of this source") from error
        if version != VERSION:
            raise BadConfiguration(f"the checkpoint has version {version}, this Lior reads {VERSION}",
                                   where="checkpoint", remedy="use the Lior that wrote it, or a newer one")
        if found.subscription.casefold() != subscription.casefold():
            raise BadConfiguration(f"the checkpoint is of the subscription {found.subscription}", where=subscription,
                                   remedy="use its own subscription name, or a new checkpoint")
        return found
