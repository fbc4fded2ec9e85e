"""What an examination or a repair of a store found."""

from dataclasses import dataclass, field
from enum import IntEnum


class Severity(IntEnum):
    NOTE = 0  # worth knowing
    WARNING = 1  # works, but somebody should look
    ERROR = 2  # messages or state are damaged, missing or at risk


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    what: str
    where: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.severity.name.lower()}: {self.where}: {self.what}" + (f" ({self.remedy})" if self.remedy else "")


@dataclass(slots=True)
class Report:
    """`messages` are those that can be read; `quarantined` and `lost` are a repair's."""

    directory: str
    findings: list[Finding] = field(default_factory=list)
    messages: int = 0
    queues: int = 0
    repaired: bool = False
    quarantined: int = 0
    lost: int = 0
    kept_in: str = ""  # where a repair put the damaged files and the quarantine

    @property
    def worst(self) -> Severity:
        return max((finding.severity for finding in self.findings), default=Severity.NOTE)

    @property
    def healthy(self) -> bool:
        return self.worst < Severity.ERROR

    def add(self, severity: Severity, what: str, where: str, remedy: str = "") -> None:
        self.findings.append(Finding(severity, what, where, remedy))
