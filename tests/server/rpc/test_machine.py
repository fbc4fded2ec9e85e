"""What a client asks of the queue manager itself ([MS-MQMP] 3.1.4.23, 3.1.4.24)."""

from __future__ import annotations

import re

import pytest

from lior.errors import HRESULTS
from tests.server.rpc.calling import Server


@pytest.mark.spec("MP-146", "MP-147", "MP-148", "MP-149")
def test_answers_each_query_in_its_grammar() -> None:
    server = Server()
    server.manager.core.properties.default_time_to_reach_queue = 12345
    client = server.client()
    answers = [client.qmcomm(28, dw_query_type=kind) for kind in range(5)]
    assert [each.result for each in answers] == [0, 0, HRESULTS["MQ_ERROR_NO_DS"], 0, 0]
    servers, time_to_reach_queue, forest, version, identifier = (each.lplp_mqis_server for each in answers)
    assert servers == ""  # there are no directory servers
    assert time_to_reach_queue == "12345"
    assert forest is None
    assert re.fullmatch(r"\d{1,4}(\.\d{1,4}){2}", version)
    assert identifier == str(server.manager.core.properties.identifier).upper()
    assert re.fullmatch(r"[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}", identifier)


@pytest.mark.spec("MP-148")
def test_messages_have_four_days_unless_it_is_configured_otherwise() -> None:
    assert Server().client().qmcomm(28, dw_query_type=1).lplp_mqis_server == "345600"


@pytest.mark.spec("MP-146")
def test_answers_no_other_query() -> None:
    client = Server().client()
    for kind in (5, 0xFFFFFFFF):
        assert client.qmcomm(28, dw_query_type=kind) == (None, HRESULTS["MQ_ERROR_INVALID_PARAMETER"])


@pytest.mark.parametrize(("kind", "port"), [(0, 2103), (1, 2105), (2, 0), (3, 0), (4, 0), (0xFFFFFFFF, 0)])
@pytest.mark.spec("MP-150")
def test_tells_the_ports(kind: int, port: int) -> None:
    assert Server().client().qmcomm(31, f_ip=kind) == (port,)
