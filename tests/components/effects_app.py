"""An application for player processes: one effect in the transaction for each message, naming all of its calls."""

from lior.components import Application, Long, current_call, interface

ORDERS = "{5d1c3a70-9b24-4e6f-8a51-c0de0a11ce01}"
QUEUE, OUT = r".\private$\Orders", r".\private$\out"


@interface("{3c0d9a52-7e41-4b8f-a1d6-52c8e9b07f60}")
class ICount:
    def count(self, number: Long) -> None: ...
    def done(self, expected: Long) -> None: ...


app = Application("Orders")


@app.serves(ORDERS, ICount)
class Counter:
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def count(self, number: int) -> None:
        self.numbers.append(number)

    def done(self, expected: int) -> None:
        if len(self.numbers) != expected:
            raise ValueError(f"{len(self.numbers)} calls of {expected}")
        current_call().send(OUT, " ".join(map(str, self.numbers)))
