"""What the tests of automation types share: values as octets, and back."""

from typing import Any

import pytest

from lior.errors import Malformed
from lior.wire import automation_types as types
from lior.wire.automation_arrays import SafeArrayType
from lior.wire.automation_types import AutomationReader, AutomationType, AutomationWriter, Scope
from tests.wire.second_recorded_call import Data

LONGS = SafeArrayType(types.I4)


def written(kind: AutomationType, value: Any, scope: Scope = types.NOTHING) -> bytes:
    writer = AutomationWriter(scope)
    kind.write_parameter(writer, value)
    return writer.to_bytes()


def read(kind: AutomationType, data: bytes, scope: Scope = types.NOTHING) -> Any:
    return kind.read_parameter(AutomationReader(data, scope))


def refuses(kind: AutomationType, data: bytes, scope: Scope = types.NOTHING) -> None:
    with pytest.raises(Malformed):
        read(kind, data, scope)


def laid_down(build: Any) -> bytes:
    data = Data()
    build(data)
    return data.octets
