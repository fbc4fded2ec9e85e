"""lior subscription: list, show, abandon."""

from __future__ import annotations

from typing import Any, Final

import click

from lior.cli.connection import Session, connected
from lior.cli.inputs import confirm
from lior.cli.output import age, iso
from lior.errors import NoSubscription

HEADINGS: Final = ("SUBSCRIPTION", "CLAIMED", "RELEASED", "LAG", "OLDEST", "TOUCHED", "QUEUES")


@click.group(short_help="Readers that claim messages: list, show, abandon.")
def subscription() -> None:
    """Subscriptions: readers, Spark above all, that claim messages, read them, and release them when they are safe."""


@subscription.command(name="list", short_help="List the subscriptions.")
@connected
def list_(session: Session) -> None:
    """List the subscriptions: messages claimed now, ordinals released, messages that wait, and the oldest's age."""
    with session.open() as manager:
        found = manager.subscriptions()
    if session.out.as_json:
        for known in found:
            session.out.record(presented(known))
        return
    session.out.table(HEADINGS, map(row, found))


@subscription.command()
@click.argument("name")
@connected
def show(session: Session, name: str) -> None:
    """Show everything about the subscription NAME."""
    with session.open() as manager:
        found = next((each for each in manager.subscriptions() if each["name"].casefold() == name.casefold()), None)
    if found is None:
        raise NoSubscription(f"there is no subscription {name}", where="subscription",
                             remedy="see: lior subscription list")
    if session.out.as_json:
        session.out.record(presented(found))
        return
    session.out.fields({key: ", ".join(value) if isinstance(value, list) else str(value)
                        for key, value in presented(found).items()})


@subscription.command(short_help="Give back what a subscription has claimed, and forget it.")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for the name on a terminal.")
@connected
def abandon(session: Session, name: str, yes: bool) -> None:
    """Give back to its queues what the subscription NAME has claimed, and forget it.

    Its reader is locked out: with its checkpoint it cannot go on.
    """
    confirm(name, f"What {name} has claimed will be given back, and its reader cannot go on", yes)
    with session.open() as manager:
        manager.abandon_subscription(name)
    session.out.done(f"abandoned {name}", abandoned=name)


def presented(known: dict[str, Any]) -> dict[str, Any]:
    return known | {"created": iso(known["created"]), "touched": iso(known["touched"]),
                    "oldest": iso(known["oldest"])}


def row(known: dict[str, Any]) -> tuple[str, ...]:
    figures = (f"{known[each]:,}" for each in ("claimed", "released", "lag"))
    return (known["name"], *figures, age(known["oldest"]), iso(known["touched"]) or "", ", ".join(known["queues"]))
