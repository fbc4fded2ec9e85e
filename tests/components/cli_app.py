"""An application for the command line: orders of less than nothing fail."""

from lior.components import Application
from tests.components.order_scenario import ORDERS, IOrderSink


def _application(lowest: float) -> Application:
    made = Application("Orders")

    @made.serves(ORDERS, IOrderSink)
    class Orders:
        def place_order(self, order_id: int, customer: str | None, amount: float) -> None:
            if amount < lowest:
                raise ValueError(amount)

        def add_lines(self, warehouse: int, quantities: list[int], urgent: bool) -> None: ...

    return made


app = _application(0.0)
tolerant = [_application(-100.0)]  # in a list, so that the file has one application
