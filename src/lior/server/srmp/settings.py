"""Settings of SOAP reliable messaging."""

from dataclasses import dataclass, field

from lior.protocols.srmp.redirection import Redirections


@dataclass(frozen=True, slots=True)
class SrmpSettings:
    addresses: tuple[str, ...] = ("127.0.0.1",)
    http_port: int = 80
    https_port: int = 443
    certificate: str = ""  # PEM files; without them there is no HTTPS server
    key: str = ""
    client_ca_file: str = ""  # whose certificates clients must show; empty: nobody asks for one
    ca_file: str = ""  # whom the client believes; empty: the system's
    max_body: int = 4 << 20
    max_envelope: int = 256 << 10
    max_connections: int = 1024
    header_timeout: float = 30.0
    body_timeout: float = 60.0
    send_timeout: float = 20.0
    connect_timeout: float = 20.0
    pipeline: int = 64  # requests without an answer on one connection, to a server that says it takes them
    retransmission_timeout: float = 20.0  # [MC-MQSRM] 3.1.2.1
    session_cleanup: float = 300.0  # 3.1.2.4
    receipt_delay: float = 0.5  # 3.1.2.3
    longest_receipt_delay: float = 10.0
    resend_table: tuple[float, ...] = (30.0,) * 3 + (300.0,) * 3 + (1800.0,) * 3 + (21600.0,)
    text_form: bool = False
    store_and_forward: bool = False  # TransparentStoreAndForward
    receipts_allowed: tuple[str, ...] = ()  # URLs or URL* that receipts may go to; empty: anywhere
    most_destinations: int = 4096  # outgoing queues beyond which receipts make no more of them
    receipts_host: str = ""  # in sendReceiptsTo; empty: the computer's name
    inbound: Redirections = field(default_factory=Redirections)
    outbound: Redirections = field(default_factory=Redirections)
    receipt_urls: Redirections = field(default_factory=Redirections)
    default_receipt_url: str = ""  # DefaultStreamReceiptURLReplacement
