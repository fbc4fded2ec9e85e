"""The one place that joins the server to what carries messages between queue managers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lior.protocols.multicast.settings import PgmSettings
from lior.protocols.srmp.redirection import Redirection, Redirections
from lior.server.config import Routes, Settings
from lior.server.engine import Engine
from lior.server.multicast import Multicast, MulticastSettings
from lior.server.srmp import Srmp, SrmpSettings
from lior.server.transfer import Transfer, TransferSettings
from lior.server.transfer.settings import PING_PORT
from lior.server.transfer_security import SecurityFiles, install


def network(engine: Engine, settings: Settings, directory: Path) -> Transfer:
    """The binary protocol, with the guard that checks what it brings."""
    binary, ping = settings.binary, settings.ping
    session = replace(
        binary.session,
        send_pings=ping.before_connecting,
        answer_pings=ping.port != 0,
        ping_response=ping.response_timeout,
    )
    told = TransferSettings(
        addresses=settings.server.bind,
        port=binary.port,
        peer_port=binary.peer_port,
        session=session,
        connect_timeout=binary.connect_timeout,
        max_sessions=binary.max_sessions,
        max_half_open=binary.max_half_open,
        ping_port=ping.port or PING_PORT,
        routes=settings.routes,
        trace_queues=settings.trace_queues,
    )
    return Transfer(engine, told, guard=install(engine.manager, directory, settings.security))


def soap(engine: Engine, settings: Settings, directory: Path) -> Srmp:
    """SOAP reliable messaging over HTTP."""
    given = settings.srmp
    told = SrmpSettings(
        addresses=settings.server.bind,
        http_port=given.http_port,
        https_port=given.https_port,
        certificate=given.certificate,
        key=given.key,
        client_ca_file=given.client_ca_file,
        ca_file=given.ca_file,
        max_body=given.max_body,
        max_envelope=given.max_envelope,
        max_connections=given.max_connections,
        header_timeout=given.header_timeout,
        body_timeout=given.body_timeout,
        send_timeout=given.send_timeout,
        connect_timeout=given.connect_timeout,
        pipeline=given.pipeline,
        retransmission_timeout=given.retransmission_timeout,
        session_cleanup=given.session_cleanup,
        receipt_delay=given.receipt_delay,
        longest_receipt_delay=given.longest_receipt_delay,
        resend_table=(given.resend_short,) * 3 + (given.resend_medium,) * 3 + (given.resend_long,) * 3
        + (given.resend_final,),
        text_form=given.text_form,
        store_and_forward=given.store_and_forward,
        receipts_allowed=given.receipts_allowed,
        receipts_host=given.receipts_host,
        inbound=_redirections(settings.srmp_inbound),
        outbound=_redirections(settings.srmp_outbound, given.exempt),
        receipt_urls=_redirections(settings.srmp_receipts),
        default_receipt_url=given.receipt_url,
    )
    return Srmp(engine, told, SecurityFiles(directory, settings.security))


def _redirections(table: Routes, exempt: tuple[str, ...] = ()) -> Redirections:
    return Redirections((Redirection(source, target) for source, target in table.items()), exempt)


def multicast(engine: Engine, settings: Settings, srmp: Srmp) -> Multicast:
    """SRMP over PGM; what arrives takes the way of what arrives over HTTP."""
    given = settings.multicast
    pgm = PgmSettings(rate=given.rate, window=given.window, mtu=given.mtu)
    told = MulticastSettings(given.interface, settings.server.bind, given.ttl, given.session_cleanup, pgm)
    return Multicast(engine, told, srmp.incoming)
