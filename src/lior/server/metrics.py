"""What Prometheus asks for at /metrics: computed when it asks, from figures that are there anyway.

`lior_*` are ours; `windows_msmq_*` are those of windows_exporter's msmq collector, so that dashboards move over.
docs/metrics.md lists all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from lior.message import MessageClass
from lior.names import QueueSuffix
from lior.queues.definition import QueueType
from lior.queues.descriptor import PEEK_ACCESS
from lior.queues.outgoing import OutgoingQueue, OutgoingState
from lior.queues.queue import Queue
from lior.server.admin.service import AdminService
from lior.server.figures import format_name, is_listed, oldest_arrival, subscription_figures
from lior.server.fill import fills, quota_bytes
from lior.server.lag import LoopLag
from lior.server.multicast import Multicast
from lior.server.srmp import Srmp
from lior.server.transfer import Transfer

COMPUTER_QUEUES: Final = "Computer Queues"  # how Windows names the machine's journal and dead letters together


class SoapFigures(Collector):
    """SOAP messaging and multicast."""

    def __init__(self, srmp: Srmp, groups: Multicast) -> None:
        self._srmp = srmp
        self._groups = groups

    def collect(self) -> Iterator[Metric]:
        srmp = self._srmp
        for name, text, label, counts in (
            ("lior_srmp_requests", "Requests of others, by what became of them.", "outcome", srmp.incoming.outcomes),
            ("lior_srmp_posts", "Requests of ours, by the status of the answer; 0 for none.", "status", srmp.statuses),
            ("lior_multicast_messages", "Messages and packets of multicast groups, by what happened.", "what",
             self._groups.counts),
        ):  # fmt: skip
            family = CounterMetricFamily(name, text, labels=[label])
            for value, count in sorted(counts.items(), key=str):
                family.add_metric([str(value)], count)
            yield family
        yield counter("lior_srmp_stream_receipts_sent", "Stream receipts sent.", srmp.stream_receipts.sent)
        yield counter("lior_srmp_receipts_suppressed", "Receipts that a limit to their addresses kept back.",
                      srmp.receipts.suppressed)
        yield counter("lior_srmp_signatures_refused", "Signatures that were not right.", srmp.signatures.refused)
        yield counter("lior_srmp_connections_refused", "Connections beyond srmp.max_connections.",
                      srmp.listener.refused)
        yield counter("lior_srmp_connections_slow", "Connections closed because their peer took too long.",
                      srmp.listener.slow)
        yield gauge("lior_srmp_connections", "Connections of others.", len(srmp.listener.open))
        yield gauge("lior_srmp_unreceipted_messages", "Messages of streams that wait for their receipt.",
                    sum(sender.unreceipted for sender in srmp.senders.values()))
        yield gauge("lior_multicast_sources", "Sources heard.", self._groups.sources)


class Figures(Collector):
    def __init__(self, admin: AdminService, transfer: Transfer, lag: LoopLag) -> None:
        self._admin = admin
        self._transfer = transfer
        self._lag = lag
        self._manager = admin.backend.manager
        self._core = self._manager.core

    def collect(self) -> Iterator[Metric]:
        yield from self._state()
        yield from self._traffic()
        yield from self._store()
        yield from self._clients()
        yield from self._network()
        yield from self._claims()
        queues = [queue for queue in self._core.queues.values() if is_listed(queue)]
        yield from self._queues(queues)
        yield from self._outgoing([queue for queue in queues if isinstance(queue, OutgoingQueue)])
        yield from self._windows(queues)

    # The queue manager

    def _state(self) -> Iterator[Metric]:
        core = self._core
        properties = core.properties
        info = InfoMetricFamily("lior", "The queue manager.")
        info.add_metric([], {"version": properties.queue_manager_version, "identifier": str(properties.identifier),
                             "computer_name": properties.computer_name})  # fmt: skip
        yield info
        serving, _ = self._admin.health()
        yield gauge("lior_serving", "1 while calls are taken, 0 when the store is broken or it stops.", serving)
        yield gauge("lior_throttled", "1 while new messages are refused for want of room on the disk.", core.throttled)
        yield gauge("lior_online", "1 while messages go over the network.", properties.connection_active)
        yield gauge("lior_start_time_seconds", "When it started, in unix seconds.", self._admin.started)
        share = {fill.what: fill.share for fill in fills(core) if fill.what in ("queue manager", "journals")}
        for name, what, used, quota in (
            ("lior", "queue manager", core.total_bytes, properties.queue_manager_quota),
            ("lior_journals", "journals", core.journal_bytes, properties.journal_quota),
        ):
            limit = quota_bytes(quota)
            yield gauge(f"{name}_bytes", f"Bytes that count against the quota of the {what}.", used)
            yield gauge(f"{name}_quota_bytes", f"Quota of the {what}; +Inf for none.",
                        float("inf") if limit is None else limit)
            yield gauge(f"{name}_quota_used_ratio", f"Part of the quota of the {what} that is used.",
                        share.get(what, 0.0))

    def _traffic(self) -> Iterator[Metric]:
        traffic = self._core.traffic
        yield counter("lior_messages_sent", "Messages sent by applications here.", traffic.sent)
        yield counter("lior_messages_arrived", "Messages that came into a queue, copies included.", traffic.arrived)
        yield counter("lior_arrived_bytes", "Bytes of the messages that came into a queue.", traffic.arrived_bytes)
        yield counter("lior_messages_received", "Messages taken by readers.", traffic.received)
        yield counter("lior_messages_acknowledged", "Outgoing messages that the next queue manager has.",
                      traffic.transferred)
        yield counter("lior_messages_dropped", "Copies and acknowledgements that could not be kept.", traffic.dropped)
        refused = CounterMetricFamily("lior_messages_refused", "Messages that expired, were purged or refused, by "
                                      "message class.", labels=["class"])
        for message_class in MessageClass:
            if message_class.name.startswith("NACK"):
                refused.add_metric([message_class.name], traffic.refused.get(message_class.value, 0))
        yield refused

    def _store(self) -> Iterator[Metric]:
        engine = self._admin.backend.engine
        yield counter("lior_store_commits", "Commits, each on disk before its messages are answered.", engine.commits)
        yield counter("lior_store_commit_failures", "Commits that failed.", engine.failed_commits)
        yield gauge("lior_store_commit_seconds", "What a commit takes lately.", engine.commit_seconds)
        yield gauge("lior_disk_free_bytes", "Free space of the store's disk.", self._admin.backend.free_bytes())
        yield gauge("lior_loop_lag_seconds", "How late the event loop ran last.", self._lag.last)
        yield gauge("lior_loop_lag_longest_seconds", "How late it ran at most within a minute.", self._lag.longest)

    def _clients(self) -> Iterator[Metric]:
        core = self._core
        yield gauge("lior_open_handles", "Handles of clients.", len(self._manager.opening.descriptors))
        yield gauge("lior_transactions", "Transactions open or in doubt.", len(core.transactions))
        yield gauge("lior_waiting_reads", "Reads that wait for a message.",
                    sum(len(queue.waiters) for queue in core.queues.values()))
        yield gauge("lior_admin_sessions", "Client sessions of the admin API.", len(self._admin.channels))
        yield counter("lior_admin_sessions_opened", "Client sessions opened.", self._admin.sessions_opened)
        yield counter("lior_admin_requests", "Requests to the admin API.", self._admin.requests)

    def _network(self) -> Iterator[Metric]:
        connections = GaugeMetricFamily("lior_connections", "Connections to other queue managers.", labels=["opened"])
        accepted = sum(connection.accepted for connection in self._transfer.connections)
        connections.add_metric(["there"], accepted)
        connections.add_metric(["here"], len(self._transfer.connections) - accepted)
        yield connections
        totals = self._transfer.totals()
        yield counter("lior_connections_opened", "Connections to other queue managers since the start.",
                      totals.connections)
        yield counter("lior_connection_messages_sent", "Messages written to connections.", totals.messages_sent)
        yield counter("lior_connection_messages_received", "Messages read from connections.", totals.messages_received)
        yield counter("lior_connection_bytes_sent", "Bytes written to connections.", totals.bytes_sent)
        yield counter("lior_connection_bytes_received", "Bytes read from connections.", totals.bytes_received)
        refusals = CounterMetricFamily("lior_connections_refused", "Connections refused, by the limit that they met.",
                                       labels=["limit"])
        for limit in ("sessions", "half open"):
            refusals.add_metric([limit], self._transfer.refusals.get(limit, 0))
        yield refusals

    def _claims(self) -> Iterator[Metric]:
        """What readers that claim messages hold, by subscription."""
        found = [subscription_figures(self._manager, log) for log in self._manager.subscriptions]
        for name, key, about in (
            ("lior_subscription_claimed", "claimed", "Messages claimed and not released."),
            ("lior_subscription_claimed_bytes", "claimed_bytes", "Their bytes."),
            ("lior_subscription_lag", "lag", "Messages in its queues that nobody has claimed."),
        ):
            metric = GaugeMetricFamily(name, about, labels=["subscription"])
            for each in found:
                metric.add_metric([each["name"]], each[key])
            yield metric
        released = CounterMetricFamily("lior_subscription_released", "Messages released.", labels=["subscription"])
        idle = GaugeMetricFamily("lior_subscription_touched_seconds", "When its reader last called, in unix seconds.",
                                 labels=["subscription"])
        age = GaugeMetricFamily("lior_subscription_oldest_message_age_seconds", "Age of the oldest message that is not "
                                "released; 0 if there is none.", labels=["subscription"])  # fmt: skip
        now = self._core.clock.wall()
        for each in found:
            age.add_metric([each["name"]], 0.0 if each["oldest"] is None else max(0.0, now - each["oldest"]))
            released.add_metric([each["name"]], each["released"])
            idle.add_metric([each["name"]], each["touched"])
        yield released
        yield idle
        yield age

    # Queues

    def _queues(self, queues: list[Queue]) -> Iterator[Metric]:
        now = self._core.clock.wall()
        shares = {fill.name: fill.share for fill in fills(self._core) if fill.what in ("queue", "outgoing queue")}

        def age(queue: Queue) -> float:
            oldest = oldest_arrival(self._manager, queue)
            return 0.0 if oldest is None else max(0.0, now - oldest)

        def quota(queue: Queue) -> float:
            limit = quota_bytes(queue.main.properties.quota)
            return float("inf") if limit is None else limit

        columns: tuple[tuple[str, str, Callable[[Queue], float]], ...] = (
            ("messages", "Messages in the queue.", lambda queue: queue.message_count),
            ("bytes", "Bytes of the messages in the queue.", lambda queue: queue.total_bytes),
            ("journal_messages", "Messages in the queue's journal.", lambda queue: _journal(queue, "message_count")),
            ("journal_bytes", "Bytes of the messages in its journal.", lambda queue: _journal(queue, "total_bytes")),
            ("oldest_message_age_seconds", "Age of the oldest message that can be read; 0 if there is none.", age),
            ("quota_bytes", "Quota of the queue; +Inf for none.", quota),
            ("quota_used_ratio", "Part of the quota that is used; of an outgoing queue, of the queue manager's.",
             lambda queue: shares.get(queue.main.name, 0.0)),
            ("readers", "Handles open for reading.",
             lambda queue: sum(descriptor.access in PEEK_ACCESS for descriptor in queue.descriptors)),
        )
        for name, text, value in columns:
            family = GaugeMetricFamily(f"lior_queue_{name}", text, labels=["queue", "kind"])
            for queue in queues:
                family.add_metric([queue.name, queue.kind.value], value(queue))
            yield family

    def _outgoing(self, queues: list[OutgoingQueue]) -> Iterator[Metric]:
        states = GaugeMetricFamily("lior_outgoing_state", "1 for the state that the outgoing queue is in.",
                                   labels=["destination", "state"])
        unacknowledged = GaugeMetricFamily("lior_outgoing_unacknowledged_messages", "Transactional messages sent and "
                                           "not acknowledged by their destination.", labels=["destination"])
        for queue in queues:
            for state in OutgoingState:
                states.add_metric([queue.name, state.value], float(queue.state is state))
            unacknowledged.add_metric([queue.name], 0 if queue.stream is None else queue.stream.unacked)
        yield states
        yield unacknowledged

    def _windows(self, queues: list[Queue]) -> Iterator[Metric]:
        """As windows_exporter names them; the machine's dead letters and journal are "Computer Queues"."""
        shown = [queue for queue in queues if queue.kind in (QueueType.PRIVATE, QueueType.PUBLIC, QueueType.OUTGOING)]
        dead = [self._system(QueueSuffix.DEADLETTER), self._system(QueueSuffix.DEADXACT)]
        journal = self._system(QueueSuffix.JOURNAL)
        for name, text, field in (
            ("bytes", "Size of queue in bytes", "total_bytes"), ("messages", "Count messages in queue", "message_count")
        ):  # fmt: skip
            family = GaugeMetricFamily(f"windows_msmq_{name}_in_queue", text, labels=["name"])
            family.add_metric([COMPUTER_QUEUES], sum(getattr(queue, field) for queue in dead))
            journals = GaugeMetricFamily(f"windows_msmq_{name}_in_journal_queue", f"{text} journal", labels=["name"])
            journals.add_metric([COMPUTER_QUEUES], getattr(journal, field))
            for queue in shown:
                label = format_name(self._manager, queue) if queue.path is None else str(queue.path)
                family.add_metric([label], getattr(queue, field))
                journals.add_metric([label], _journal(queue, field))
            yield family
            yield journals

    def _system(self, suffix: QueueSuffix) -> Queue:
        queue = self._manager.routing.system(suffix)
        assert queue is not None
        return queue


def _journal(queue: Queue, field: str) -> float:
    return 0 if queue.journal is None else float(getattr(queue.journal, field))


def gauge(name: str, text: str, value: Any) -> Metric:
    return GaugeMetricFamily(name, text, value=float(bool(value)) if isinstance(value, str | bool) else float(value))


def counter(name: str, text: str, value: int) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def exposition(collectors: Iterable[Collector]) -> Callable[[], bytes]:
    """The text of a registry of its own, with the process's figures beside ours."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    ProcessCollector(registry=registry)
    return lambda: generate_latest(registry)
