"""Triggers: rules on a queue that run a command or make an HTTP request for its messages; see docs/triggers.md.

    triggers = load("triggers.toml")
    async with lior.aio.open("./data") as manager, TriggerRunner(manager, triggers) as runner:
        await runner.wait()
"""

from lior.client.triggers.loading import load, loads
from lior.client.triggers.matching import Searcher, SearchTimeout, matching_rules
from lior.client.triggers.rules import Command, Conditions, Http, Rule, Trigger
from lior.client.triggers.running import TriggerRunner
from lior.client.triggers.watching import Figures

__all__ = [
    "Command", "Conditions", "Figures", "Http", "Rule", "SearchTimeout", "Searcher", "Trigger", "TriggerRunner",
    "load", "loads", "matching_rules",
]
