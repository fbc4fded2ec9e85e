"""A way back as an argument: where the callee may record its answer, in a call of its own.

The form in which Windows passes a recorder to another one is not public; this is ours, and Lior reads it only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from lior.components.annotations import value_class
from lior.components.recorder import Recorder
from lior.errors import Malformed

CALLBACK_CLASS: Final = UUID("9E2B6C55-8D0B-4C0F-9A53-3C27B0B2A9E4")
_LONGEST: Final = 4096


@value_class(CALLBACK_CLASS)
@dataclass(frozen=True)
class Callback:
    """A class on a queue. Annotate a parameter with it, pass one, and the method that gets it records on it:
    `with callback.recorder(manager=current_call().manager) as back: back.interface(IProgress).done(7)`."""

    queue: str
    class_id: UUID

    def recorder(self, **options: Any) -> Recorder:
        return Recorder(self.queue, class_id=self.class_id, **options)

    def dump(self) -> bytes:
        return json.dumps({"queue": self.queue, "class_id": str(self.class_id)}).encode()

    @classmethod
    def load(cls, data: bytes) -> Callback:
        if len(data) > _LONGEST:
            raise Malformed(f"a callback of {len(data)} octets", where="callback")
        facts = json.loads(data)
        queue, class_id = facts["queue"], facts["class_id"]
        if not isinstance(queue, str) or not isinstance(class_id, str):
            raise Malformed("a callback of other types", where="callback")
        return cls(queue, UUID(class_id))
