"""What a triggers file may say, and what its errors say."""

from pathlib import Path

import pytest

from lior.client.triggers import Command, Conditions, Http, Rule, Trigger, load, loads
from lior.client.triggers.loading import LARGEST_FILE
from lior.errors import BadConfiguration

WHOLE = r"""
[[trigger]]
name = "orders"
queue = '.\private$\orders'
mode = "transaction"
concurrency = 4
enabled = false
retry_delay = 0.5

[[trigger.rule]]
name = "ship"
command = ["ship", "--label={label}", "{{{message_id}}}", ""]
environment = { DEPARTMENT = "west" }
directory = "/var/lib/ship"
body = "text"
timeout = 5
stop = true
[trigger.rule.when]
label_contains = "order"
label_matches = "^order [0-9]+$"
priority_min = 2
priority_max = 5
application_tag_equals = 7
body_contains = "west"
body_matches = "(?i)ship"
message_class = "NORMAL"
sender = "s-1-5-21-1-2-3-500"
authenticated = true

[[trigger.rule]]
name = "tell"
http = { url = "https://example.org:8443/hook?x=1", method = "PUT", headers = { Authorization = "Bearer x" } }
"""


def file_with(*, trigger: str = "", rule: str = "", action: str = 'command = ["true"]') -> str:
    name = "" if "name =" in trigger else 'name = "a"\n'
    queue = "" if "queue =" in trigger else "queue = '.\\private$\\q'\n"
    rule_name = "" if "name =" in rule else 'name = "r"\n'
    return f"[[trigger]]\n{name}{queue}{trigger}\n[[trigger.rule]]\n{rule_name}{action}\n{rule}\n"


def test_every_key_is_read() -> None:
    (trigger,) = loads(WHOLE)
    when = Conditions(
        label_contains="order", label_matches="^order [0-9]+$", priority_min=2, priority_max=5,
        application_tag_equals=7, body_contains="west", body_matches="(?i)ship", message_class="NORMAL",
        sender="s-1-5-21-1-2-3-500", authenticated=True,
    )  # fmt: skip
    command = Command(
        ("ship", "--label={label}", "{{{message_id}}}", ""), {"DEPARTMENT": "west"}, "/var/lib/ship"
    )
    http = Http("https://example.org:8443/hook?x=1", "PUT", {"Authorization": "Bearer x"})
    assert trigger == Trigger(
        name="orders", queue=r".\private$\orders", mode="transaction", concurrency=4, enabled=False, retry_delay=0.5,
        rules=(
            Rule(name="ship", action=command, when=when, body="text", timeout=5, stop=True),
            Rule(name="tell", action=http),
        ),
    )  # fmt: skip


def test_what_is_left_out_has_its_default() -> None:
    (trigger,) = loads(file_with())
    assert (trigger.mode, trigger.concurrency, trigger.enabled, trigger.retry_delay) == ("peek", 1, True, 1.0)
    (rule,) = trigger.rules
    assert (rule.when, rule.timeout, rule.stop, rule.body) == (Conditions(), 60.0, False, "raw")


def test_two_opening_braces_are_one_and_three_hold_a_placeholder() -> None:
    first, second = Command(("x", "{{{message_id}}}")).templates
    assert first.fill({}) == "x"
    assert second.fill({"message_id": "7"}) == "{7}"


WRONG = [
    ("x = 1", "triggers", "no key 'x'", "There are trigger"),
    ("", "triggers", "no triggers", "[[trigger]]"),
    ("trigger = 1", "triggers: trigger", "no list", "[[trigger]]"),
    ("trigger = [1]", "triggers: trigger number 1", "no table", ""),
    ("[[trigger", "triggers", "no TOML", ""),
    ("x = " + "[" * 5000, "triggers", "nested", ""),
    ("x = " + "9" * 5000, "triggers", "no TOML", ""),
    (file_with(trigger='mod = "peek"'), "trigger a", "no key 'mod'", "did you mean 'mode'?"),
    (file_with(trigger='mode = "recieve"'), "trigger a: mode", "'recieve'", "did you mean 'receive'?"),
    (file_with(trigger="concurrency = 0"), "trigger a: concurrency", "1 to 64", ""),
    (file_with(trigger="concurrency = true"), "trigger a: concurrency", "True", ""),
    (file_with(trigger="enabled = 1"), "trigger a: enabled", "neither true nor false", ""),
    (file_with(trigger="retry_delay = 0"), "trigger a: retry_delay", "above 0", ""),
    (file_with(trigger="retry_delay = nan"), "trigger a: retry_delay", "above 0", ""),
    (file_with(trigger='queue = "orders"'), "trigger a: queue", "orders", ""),
    (file_with(trigger='queue = "PRIVATE=7A0E9C30-6F5D-4C4C-8C40-2B1F3B1D2E11\\\\1"'), "trigger a: queue", "direct",
     "path name"),
    (file_with(trigger='name = "a/b"'), "trigger a/b: name", "no name", ""),
    (file_with(trigger='name = "' + "a" * 25 + '"'), "name", "no name", "1 to 24"),
    (file_with() + file_with(trigger='name = "A"'), "triggers: trigger", "two are named 'A'", ""),
    ("[[trigger]]\nname = 'a'\nqueue = '.\\private$\\q'", "trigger a", "'rule' is missing", ""),
    ("[[trigger]]\nname = 'a'\nqueue = '.\\private$\\q'\nrule = []", "trigger a: rule", "0 rules", ""),
    (file_with(rule='when = { label_contain = "x" }'), "rule r: when", "label_contain", "'label_contains'?"),
    (file_with(rule="when = { label_equals = 1 }"), "when: label_equals", "no text", ""),
    (file_with(rule='when = { label_contains = "" }'), "when: label_contains", "empty", ""),
    (file_with(rule='when = { label_matches = "(" }'), "when: label_matches", "no regular expression", ""),
    (file_with(rule="when = { priority_min = 8 }"), "when: priority_min", "0 to 7", ""),
    (file_with(rule="when = { priority_min = 4, priority_max = 3 }"), "priority_min", "above priority_max", ""),
    (file_with(rule='when = { message_class = "NORMALL" }'), "message_class", "NORMALL", "did you mean 'NORMAL'?"),
    (file_with(rule='when = { sender = "root" }'), "when: sender", "SID", "S-1-5"),
    (file_with(rule="when = []"), "rule r: when", "no table", ""),
    (file_with(rule="timeout = 100000"), "rule r: timeout", "at most 86400", ""),
    (file_with(rule='stop = "yes"'), "rule r: stop", "neither", ""),
    (file_with(rule='body = "utf8"'), "rule r: body", "utf8", "raw, text"),
    (file_with(action=""), "rule r", "one action", ""),
    (file_with(action='command = ["x"]\nhttp = { url = "http://h/" }'), "rule r", "one action", ""),
    (file_with(action='command = "ls -l"'), "rule r: command", "no list", "no shell"),
    (file_with(action="command = []"), "rule r: command", "no list", ""),
    (file_with(action='command = ["{label}"]'), "rule r: command[0]", "depends on the message", ""),
    (file_with(action='command = ["x", "{lable}"]'), "rule r: command[1]", "'lable'", "did you mean 'label'?"),
    (file_with(action='command = ["x", "{"]'), "command[1]", "single '{'", "write two"),
    (file_with(action='command = ["x", "a}"]'), "command[1]", "single '}'", "write two"),
    (file_with(action='command = ["x", "\\u0000"]'), "command[1]", "NUL", ""),
    (file_with(rule='environment = { LIOR_LABEL = "x" }'), "environment", "LIOR_LABEL", ""),
    (file_with(rule='environment = { "A=B" = "x" }'), "environment", "A=B", ""),
    (file_with(rule="environment = { A = 1 }"), "environment.A", "no text", ""),
    (file_with(action='http = { url = "http://h/" }\ndirectory = "/"'), "rule r: directory", "command", ""),
    (file_with(action='http = { uri = "http://h/" }'), "rule r: http", "'uri'", "'url'?"),
    (file_with(action='http = { url = "ftp://h/" }'), "http: url", "ftp", "https://"),
    (file_with(action='http = { url = "file:///etc/passwd" }'), "http: url", "file", "https://"),
    (file_with(action='http = { url = "http:///x" }'), "http: url", "cannot be called", ""),
    (file_with(action='http = { url = "http://h:99999/" }'), "http: url", "99999", ""),
    (file_with(action='http = { url = "http://u:secret@h/" }'), "http: url", "password", "headers"),
    (file_with(action='http = { url = "http://h/{label}" }'), "http: url", "not for URLs", "placeholders"),
    (file_with(action='http = { url = "http://h/ x" }'), "http: url", "not for URLs", ""),
    (file_with(action='http = { url = "http://h/", method = "GET" }'), "http: method", "GET", "POST"),
    (file_with(action='http = { url = "http://h/", headers = { Host = "x" } }'), "http: headers", "Host", ""),
    (file_with(action='http = { url = "http://h/", headers = { X-Lior-Label = "x" } }'), "headers", "X-Lior", ""),
    (file_with(action='http = { url = "http://h/", headers = { A = "x\\r\\nB: y" } }'), "headers.A", "one line", ""),
]


@pytest.mark.parametrize(("text", "where", "what", "remedy"), WRONG, ids=range(len(WRONG)))
def test_error_says_where_what_and_the_way_out(text: str, where: str, what: str, remedy: str) -> None:
    with pytest.raises(BadConfiguration) as caught:
        loads(text)
    assert where in caught.value.where
    assert what in caught.value.what
    assert remedy in caught.value.remedy
    assert "secret" not in str(caught.value)


def test_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    for content, what in ((None, "No such file"), (b"\xff", "no UTF-8"), (b"#" * (LARGEST_FILE + 1), "1 MiB")):
        path = tmp_path / "triggers.toml"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(BadConfiguration) as caught:
            load(path)
        assert what in caught.value.what
        assert str(path) in caught.value.where


def test_what_is_built_in_python_is_checked_as_strictly() -> None:
    with pytest.raises(BadConfiguration):
        Trigger(name="a", queue=r".\private$\q", rules=(Rule(name="r", action=Command(("x",)), timeout=-1),))
    with pytest.raises(BadConfiguration):
        Command(["true"])  # type: ignore[arg-type]
