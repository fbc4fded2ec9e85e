"""What Prometheus asks for about RPC."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lior.server.rpc.service import RpcService


class RpcFigures(Collector):
    def __init__(self, service: RpcService) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        service = self._service
        connections = GaugeMetricFamily("lior_rpc_connections", "Connections of clients over RPC, by transport.",
                                        labels=["transport"])
        local = sum(connection.is_local for connection in service.connections)
        connections.add_metric(["unix"], local)
        connections.add_metric(["tcp"], len(service.connections) - local)
        yield connections
        yield GaugeMetricFamily("lior_rpc_clients", "Clients over RPC: their association groups.", len(service.groups))
        yield GaugeMetricFamily("lior_rpc_handles", "Context handles of clients.", service.groups.handles)
        associations = [each.association for each in service.connections if each.association is not None]
        yield GaugeMetricFamily("lior_rpc_calls_under_way", "Calls that are not answered yet.",
                                sum(len(association.calls) for association in associations))
        calls = service.dispatcher.calls + service.mapper.calls
        yield CounterMetricFamily("lior_rpc_calls", "Calls of clients.", calls)
        yield self._faults()
        yield CounterMetricFamily("lior_rpc_connections_refused", "Connections refused for want of room.",
                                  service.refused)
        signed = CounterMetricFamily("lior_rpc_sign_ins", "Attempts to sign in, by their result.", labels=["result"])
        accounts = service.accounts
        signed.add_metric(["accepted"], accounts.signed_in_count if accounts else 0)
        signed.add_metric(["refused"], accounts.refused_count if accounts else 0)
        yield signed

    def _faults(self) -> Metric:
        found = CounterMetricFamily("lior_rpc_faults", "Calls that ended in a fault, by its status.", labels=["status"])
        for status, count in sorted(self._service.dispatcher.faults.items()):
            found.add_metric([f"0x{status:08X}"], count)
        return found
