"""Recorders and players beside `lior serve`: over its socket, between two queue managers, through kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lior
from lior.components import Player, Recorder
from lior.errors import LiorError
from lior.server.rpc.accounts import AccountFile
from lior.testing.serving import Serving
from tests.components.effects_app import ORDERS, OUT, QUEUE, ICount, app

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / "src"
SECONDS = 120.0
QUICK = {
    "binary.retry": 0.1, "binary.order_ack": 0.1, "binary.resend_short": 0.5, "binary.resend_medium": 1.0,
    "binary.initialisation": 2.0, "binary.direct_ack_wait_multiplier": 0.1, "binary.ack_wait_multiplier": 0.1,
    "binary.connect_timeout": 2.0,
}  # fmt: skip
SRMP = {"srmp.receipt_delay": 0.05, "srmp.retransmission_timeout": 0.2, "srmp.http_port": 8080}


def make_queues(server: Serving) -> None:
    with server.connect() as qm:
        for name in (QUEUE, OUT):
            qm.create_queue(name, transactional=True)


def record(qm: lior.QueueManager, numbers: range, destination: str = QUEUE, **options: Any) -> None:
    with Recorder(destination, class_id=ORDERS, manager=qm, **options) as recorder:
        counter = recorder.interface(ICount)
        for number in numbers:
            counter.count(number)
        counter.done(len(numbers))


def effects(server: Serving) -> list[int]:
    """The numbers of all calls whose effects are there, in order."""
    with server.connect() as qm, qm.open_queue(OUT, "peek") as queue:
        return [int(word) for message in queue for word in str(message.value()).split()]


def waiting(server: Serving) -> int:
    with server.connect() as qm:
        return sum(each.messages for each in qm.queues() if each.name.casefold().startswith(r"private$\orders"))


@contextmanager
def player_process(server: Serving, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE.parent.parent}"}
    command = [sys.executable, "-m", "lior.cli.main", "component", "play", f"{HERE / 'effects_app.py'}:app",
               f"--data={server.data}", "--retry-delays=0.05,0.05", *options]  # fmt: skip
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)  # fmt: skip
    drain = threading.Thread(target=lambda: process.stderr and process.stderr.read(), daemon=True)
    drain.start()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        drain.join()
        if process.stderr is not None:
            process.stderr.close()


def eventually(reached: Any, what: str) -> None:
    end = time.monotonic() + SECONDS
    pause = threading.Event()
    while not reached():
        assert time.monotonic() < end, f"not in {SECONDS} s: {what}"
        pause.wait(0.02)


@pytest.mark.spec("QC-001", "QC-136", "QC-137")
def test_a_program_records_and_another_plays_through_the_server(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as server:
        make_queues(server)
        with server.connect() as qm, server.connect() as other:
            record(qm, range(10))
            record(qm, range(10, 15))
            player = Player(other, app)
            assert player.play_waiting() == 2
            assert effects(server) == list(range(15))
            with Player(other, app):
                record(qm, range(15, 20))
                eventually(lambda: effects(server) == list(range(20)), "the running player plays")


@pytest.mark.spec("QC-118")
def test_a_player_told_to_end_finishes_what_it_has_in_hand(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as server:
        make_queues(server)
        with server.connect() as qm:
            for at in range(0, 300, 3):
                record(qm, range(at, at + 3))
        with player_process(server) as process:
            eventually(lambda: len(effects(server)) > 0, "it plays")
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0
        played = effects(server)
        assert played == list(range(len(played)))
        assert waiting(server) == 100 - len(played) // 3


def storm(tmp_path: Path, kills: int, seed: int) -> None:
    """Players and the server are killed while 200 messages of 50 calls are played; each effect is there once, in
    order."""
    rng = random.Random(seed)
    messages, calls = 200, 50
    with Serving(tmp_path / "data") as server:
        make_queues(server)
        with server.connect() as qm, qm.transaction() as transaction:
            for at in range(0, messages * calls, calls):
                record(qm, range(at, at + calls), transaction=transaction)
        for number in range(kills):
            before = len(effects(server))
            with player_process(server) as process:
                wanted = min(before + calls * rng.randrange(1, max(2, messages // (2 * kills))), messages * calls)
                eventually(lambda: len(effects(server)) >= wanted or process.poll() is not None, "it plays")  # noqa: B023
                if number % 3 == 2:
                    server.restart(kill=True)
                process.kill()
            if effects(server) == list(range(messages * calls)):
                break
        with player_process(server):
            eventually(lambda: waiting(server) == 0, "all is played")
        assert effects(server) == list(range(messages * calls))


@pytest.mark.spec("QC-008")
def test_each_effect_is_done_once_and_in_order_though_players_and_server_are_killed(tmp_path: Path, seed: int) -> None:
    storm(tmp_path, 4, seed)


@pytest.mark.torture
def test_each_effect_is_done_once_through_many_kills(tmp_path: Path, seed: int) -> None:
    storm(tmp_path, int(os.environ.get("LIOR_KILLS", "200")) // 10, seed)


@pytest.mark.spec("QC-008", "QC-115")
@pytest.mark.parametrize("protocol", ["binary", "srmp"])
def test_ten_thousand_calls_go_from_one_host_to_another_once_each_and_in_order_across_restarts(
    protocol: str, tmp_path: Path
) -> None:
    """A recorder at one queue manager, a player at another one, a protocol between them; both are killed."""
    messages, calls = 100, 100
    settings = QUICK if protocol == "binary" else SRMP
    with Serving(tmp_path / "here", settings=settings) as here, Serving(tmp_path / "there", settings=settings) as there:
        make_queues(there)
        over_http = f"DIRECT=http://{there.address}:8080/msmq/private$/Orders"
        destination = there.queue("Orders") if protocol == "binary" else over_http
        for part in range(4):
            with here.connect() as qm:
                for at in range(part * messages // 4, (part + 1) * messages // 4):
                    record(qm, range(at * calls, (at + 1) * calls), destination, transactional=True)
            if part == 1:
                here.restart(kill=True)
            if part == 2:
                there.restart(kill=True)
            if part < 3:
                with player_process(there) as process:
                    eventually(lambda: waiting(there) == 0 or process.poll() is not None, "it plays")
        with player_process(there):
            eventually(lambda: len(effects(there)) >= messages * calls, "all is played")
        assert effects(there) == list(range(messages * calls))


@pytest.mark.spec("QC-001", "QC-008")
def test_ten_thousand_calls_are_recorded_and_played_over_rpc_across_a_restart(tmp_path: Path) -> None:
    """Recorder and player are clients of one queue manager, over TCP, each with a user's name and password."""
    messages, calls = 100, 100
    with lior.open(tmp_path / "data"):
        pass
    AccountFile(tmp_path / "data").add("clerk", "a good password", administrator=True)
    who = {"user": "clerk", "password": "a good password"}
    with Serving(tmp_path / "data") as server:
        make_queues(server)
        for part in range(2):
            with lior.connect(server.address, **who) as here, lior.connect(server.address, **who) as there:
                for at in range(part * messages // 2, (part + 1) * messages // 2):
                    record(here, range(at * calls, (at + 1) * calls), transactional=True)
                if part == 0:
                    server.restart(kill=True)
                    continue
                with Player(there, app):
                    eventually(lambda: len(effects(server)) >= messages * calls, "all is played")
        assert effects(server) == list(range(messages * calls))


def test_a_recorder_keeps_its_calls_while_the_other_host_is_off(tmp_path: Path) -> None:
    with Serving(tmp_path / "here", settings=QUICK) as here, Serving(tmp_path / "there", settings=QUICK) as there:
        make_queues(there)
        there.kill()
        with here.connect() as qm:
            record(qm, range(5), there.queue("Orders"), transactional=True)
        here.restart()
        there.start()
        with player_process(there):
            eventually(lambda: effects(there) == list(range(5)), "it is delivered and played")


def test_a_player_whose_server_goes_away_says_so(tmp_path: Path) -> None:
    with Serving(tmp_path / "data") as server:
        make_queues(server)
        with server.connect() as qm:
            player = Player(qm, app)
            player.start()
            server.kill()
            with pytest.raises(LiorError):
                player.wait()
            player.stop()
            assert player.figures.last_error
