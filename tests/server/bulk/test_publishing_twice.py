"""A client whose connection broke asks again while its first call is still under way."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any
from uuid import uuid4

from lior import embedded
from lior.message import Message
from lior.store.stages import Staged, StageWriter

PATH = r".\private$\copies"


class SecondLast(ThreadPoolExecutor):
    """What is submitted second runs after what is submitted third."""

    def __init__(self) -> None:
        super().__init__(max_workers=3)
        self._count = 0
        self._third_done = Event()

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        self._count += 1
        if self._count == 2:
            return super().submit(lambda: self._third_done.wait(30) and call(*arguments, **options))
        found = super().submit(call, *arguments, **options)
        if self._count == 3:
            found.add_done_callback(lambda _: self._third_done.set())
        return found


def put_aside(data: Path, count: int) -> str:
    stage = StageWriter(data, str(uuid4()), 1 << 20)
    for number in range(count):
        stage.add(Staged(f"DIRECT=OS:{PATH}", Message(b"%d" % number), False))
    stage.finish()
    return stage.path.stem


def test_a_batch_asked_for_twice_at_once_is_sent_once_though_the_first_call_removes_its_stages(
    tmp_path: Path,
) -> None:
    async def both() -> tuple[list[int], int]:
        backend = await embedded.start(tmp_path)
        try:
            await backend.create_queue(PATH, {})
            stage = put_aside(tmp_path, 7)
            asyncio.get_running_loop().set_default_executor(SecondLast())
            answers = await asyncio.gather(*[backend.publish("w", 1, [stage]) for _ in range(2)])
            return list(answers), (await backend.queue(PATH)).messages
        finally:
            await backend.close()

    assert asyncio.run(both()) == ([7, 0], 7)
