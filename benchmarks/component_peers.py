"""Celery and Dramatiq on a RabbitMQ, as processes of their own: they may have a Python of their own.

    python benchmarks/component_peers.py celery|dramatiq versions
    python benchmarks/component_peers.py celery|dramatiq record PORT CALLS QUEUE
    python benchmarks/component_peers.py celery|dramatiq play PORT CALLS QUEUE

Persistent messages in a durable queue, publisher confirms, one worker with one thread, acknowledged after the call.
Each prints one JSON object. Playing is timed from the first call to the last, so that no start-up counts.
"""

import json
import os
import sys
import time
from typing import Any

QUEUE = sys.argv[5] if len(sys.argv) > 5 else ""


class Counter:
    """The called function's work, and the end of the measurement."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._count = 0
        self._began = 0.0

    def call(self, order_id: int, customer: str, amount: float) -> None:
        if not self._count:
            self._began = time.perf_counter()
        self._count += 1
        if self._count == self._calls:
            tell(self._calls, time.perf_counter() - self._began)
            os._exit(0)


def tell(calls: int, seconds: float) -> None:
    print(json.dumps({"calls": calls, "seconds": seconds}), file=sys.__stdout__, flush=True)  # celery takes sys.stdout


def celery_app(port: int, counter: Counter | None = None) -> Any:
    from celery import Celery

    app = Celery("bench", broker=f"amqp://guest:guest@127.0.0.1:{port}//")
    app.conf.update(task_ignore_result=True, task_default_queue=QUEUE, task_acks_late=True, broker_heartbeat=0,
                    worker_prefetch_multiplier=64, broker_transport_options={"confirm_publish": True},
                    worker_enable_remote_control=False, worker_send_task_events=False)  # fmt: skip

    @app.task(name="place_order")
    def place_order(order_id: int, customer: str, amount: float) -> None:
        if counter is not None:
            counter.call(order_id, customer, amount)

    return app, place_order


def celery_record(port: int, calls: int) -> None:
    app, place_order = celery_app(port)
    with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
        place_order.apply_async((0, "warm", 0.0), producer=producer)
        began = time.perf_counter()
        for number in range(calls):
            place_order.apply_async((number, "Zoë", 249.5), producer=producer)
        tell(calls, time.perf_counter() - began)


def celery_play(port: int, calls: int) -> None:
    app, _ = celery_app(port, Counter(calls))
    app.worker_main(["worker", "--pool=solo", "--loglevel=CRITICAL", "--without-gossip", "--without-mingle",
                     "--without-heartbeat", f"--queues={QUEUE}"])  # fmt: skip


def dramatiq_actor(port: int, counter: Counter | None = None) -> Any:
    import dramatiq
    from dramatiq.brokers.rabbitmq import RabbitmqBroker

    broker = RabbitmqBroker(url=f"amqp://guest:guest@127.0.0.1:{port}/?heartbeat=0", confirm_delivery=True)
    dramatiq.set_broker(broker)

    @dramatiq.actor(queue_name=QUEUE)
    def place_order(order_id: int, customer: str, amount: float) -> None:
        if counter is not None:
            counter.call(order_id, customer, amount)

    return broker, place_order


def dramatiq_record(port: int, calls: int) -> None:
    _, place_order = dramatiq_actor(port)
    place_order.send(0, "warm", 0.0)
    began = time.perf_counter()
    for number in range(calls):
        place_order.send(number, "Zoë", 249.5)
    tell(calls, time.perf_counter() - began)


def dramatiq_play(port: int, calls: int) -> None:
    import dramatiq

    broker, _ = dramatiq_actor(port, Counter(calls))
    worker = dramatiq.Worker(broker, worker_threads=1)
    worker.start()
    worker.join()
    time.sleep(3600)


def versions(peer: str) -> None:
    from importlib.metadata import version

    __import__(peer)
    print(json.dumps({peer: version(peer)}))


def main() -> None:
    peer, what, *numbers = sys.argv[1:]
    if what == "versions":
        versions(peer)
        return
    work = {("celery", "record"): celery_record, ("celery", "play"): celery_play,
            ("dramatiq", "record"): dramatiq_record, ("dramatiq", "play"): dramatiq_play}  # fmt: skip
    work[peer, what](*map(int, numbers[:2]))


if __name__ == "__main__":
    main()
