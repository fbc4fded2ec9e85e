"""lior certificate and lior key: whose signatures count, and which keys bodies are encrypted with."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from lior import Identity, embedded
from lior.cli.connection import json_option
from lior.cli.output import Output, number
from lior.errors import StoreUnusable

FILE = click.Path(dir_okay=False)
CERTIFICATE_HEADINGS = ("SID", "DIGEST", "KEY", "UNTIL", "SUBJECT")


def on_directory(function: Callable[..., Any]) -> Callable[..., Any]:
    """A command on the files of a data directory; a server that runs on it sees the change by itself."""

    @functools.wraps(function)
    def command(as_json: bool, data: str, **options: Any) -> Any:
        return function(Output(as_json), data, **options)

    return json_option(click.option(
        "--data", metavar="DIR", envvar="LIOR_DATA", show_envvar=True, required=True,
        type=click.Path(file_okay=False), help="Data directory of the queue manager.")(command))  # fmt: skip


@click.group(short_help="Certificates: whose signatures count.")
def certificate() -> None:
    """Certificates of users: whose signatures count, and as whose."""


@certificate.command(short_help="Make a key and a certificate to sign with.")
@click.argument("file", type=FILE, metavar="FILE")
@click.option("--name", required=True, help="Name in the certificate, for people.")
@click.option("--sid", help="Whom it stands for. Default: the local user.")
@click.option("--days", type=click.IntRange(1, 36500), default=3650, show_default=True, help="How long it is valid.")
@json_option
def create(as_json: bool, file: str, name: str, sid: str | None, days: int) -> None:
    """Make a key and a certificate to sign messages with, in the new file FILE.

    FILE holds the private key: it stays with who signs. FILE.crt, beside it, is what receivers register.
    """
    identity = Identity.create(name, sid=sid, days=days)
    identity.save(file)
    public = f"{file}.crt"
    put(public, identity.certificate_pem)
    Output(as_json).done(f"wrote {file} and {public} for {identity.sid}", file=file, certificate=public,
                         sid=str(identity.sid))  # fmt: skip


@certificate.command(short_help="Let what a certificate signs count as a user's.")
@click.argument("file", type=FILE, metavar="FILE")
@click.option("--sid", required=True, help="Whose: S-1-..., or the GUID of a queue manager.")
@on_directory
def register(out: Output, data: str, file: str, sid: str) -> None:
    """Let messages signed with the certificate in FILE (PEM or DER) count as the user's."""
    found = embedded.security(data).register_certificate(sid, taken(file))
    out.done(f"registered {found['digest']} for {found['sid']}", **dated(found))


@certificate.command(name="list")
@click.option("--sid", default="", help="Of this user only.")
@on_directory
def list_certificates(out: Output, data: str, sid: str) -> None:
    """List the registered certificates."""
    found = embedded.security(data).certificates(sid)
    if out.as_json:
        for each in found:
            out.record(dated(each))
        return
    out.table(CERTIFICATE_HEADINGS, [(each["sid"], each["digest"], f"{each['key_bits']} bits",
                                      day(each["not_after"]), each["subject"]) for each in found])  # fmt: skip


@certificate.command(name="show", short_help="Show a certificate by its digest.")
@click.argument("digest")
@on_directory
def show_certificate(out: Output, data: str, digest: str) -> None:
    """Show the certificates whose digest begins with DIGEST, with their text."""
    for each in embedded.security(data).certificate(digest):
        if out.as_json:
            out.record(dated(each))
            continue
        out.fields({"sid": each["sid"], "digest": each["digest"], "sha-256": each["sha256"],
                    "subject": each["subject"], "key": f"RSA, {each['key_bits']} bits",
                    "valid": f"{day(each['not_before'])} to {day(each['not_after'])}"})  # fmt: skip
        out.line(each["pem"].rstrip())


@certificate.command(name="remove", short_help="Forget a certificate.")
@click.argument("digest")
@click.option("--sid", default="", help="Of this user only.")
@on_directory
def remove_certificate(out: Output, data: str, digest: str, sid: str) -> None:
    """Forget the certificates whose digest begins with DIGEST: what they sign is refused."""
    removed = embedded.security(data).remove_certificate(digest, sid)
    if out.as_json:
        for each in removed:
            out.record(dated(each))
        return
    out.line(f"removed {number(len(removed), 'certificate')}")


@click.group(short_help="Keys for the encryption of bodies.")
def key() -> None:
    """Keys that bodies are encrypted with: our own, and those of other queue managers."""


def providers(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--provider", "providers", multiple=True, type=click.Choice(("advanced", "enhanced", "base")),
        default=("advanced",), help="advanced: AES (default); enhanced and base: RC2 and RC4, for peers that know "
        "nothing better and servers that allow it. Again for more.")(function)  # fmt: skip


@key.command(name="show", short_help="Show the own keys.")
@providers
@on_directory
def show_keys(out: Output, data: str, providers: tuple[str, ...]) -> None:
    """Show the own keys; those that are missing are made."""
    found = embedded.security(data, providers).own_keys()
    if out.as_json:
        for each in found:
            out.record(each)
        return
    out.table(("PROVIDER", "KEY", "FILE"), [(k["provider"], f"{k['bits']} bits", k["file"]) for k in found])


@key.command(short_help="Write the own public keys into a file.")
@click.argument("file", type=FILE, metavar="FILE")
@providers
@on_directory
def export(out: Output, data: str, file: str, providers: tuple[str, ...]) -> None:
    """Write the own public keys into FILE, for other queue managers to import."""
    exported = embedded.security(data, providers).export_keys()
    put(file, exported)
    out.done(f"wrote {file} ({len(exported)} bytes)", file=file, bytes=len(exported))


@key.command(name="import", short_help="Take over the public keys of a peer.")
@click.argument("guid")
@click.argument("file", type=FILE, metavar="FILE")
@on_directory
def import_(out: Output, data: str, guid: str, file: str) -> None:
    """Take over the public keys in FILE as those of the queue manager GUID."""
    peer = embedded.security(data).import_peer(guid, taken(file))
    out.done(f"imported {number(len(peer['keys']), 'key')} of {peer['queue_manager'].upper()}", **peer)


@key.command(name="list", short_help="List the peers whose keys are known.")
@on_directory
def list_keys(out: Output, data: str) -> None:
    """List the queue managers whose public keys are known."""
    found = embedded.security(data).peers()
    if out.as_json:
        for each in found:
            out.record(each)
        return
    out.table(("QUEUE MANAGER", "KEYS"), [
        (each["queue_manager"].upper(), ", ".join(f"{k['provider']}: {k['bits']} bits" for k in each["keys"]))
        for each in found])


@key.command(name="remove", short_help="Forget the public keys of a peer.")
@click.argument("guid")
@on_directory
def remove_key(out: Output, data: str, guid: str) -> None:
    """Forget the public keys of the queue manager GUID: nothing is encrypted for it any more."""
    embedded.security(data).remove_peer(guid)
    out.done(f"removed the keys of {guid.upper()}", queue_manager=guid)


def taken(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise StoreUnusable(error.strerror or str(error), where=file, remedy="check the file and its rights") from None


def put(file: str, data: bytes) -> None:
    try:
        with open(file, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise StoreUnusable(error.strerror or str(error), where=file, remedy="name a file that is not there") from None


def day(moment: float | None) -> str:
    return "" if moment is None else datetime.fromtimestamp(moment, UTC).date().isoformat()


def dated(found: dict[str, Any]) -> dict[str, Any]:
    """With the dates as text."""
    return found | {name: day(found[name]) or None for name in ("not_before", "not_after")}
