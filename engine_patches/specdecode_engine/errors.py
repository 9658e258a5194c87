"""What this package says when it refuses: findings that a person can act on and a program can read."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing wrong with an installed tree or a setting, and what to do about it.

    `reason` is a stable word for programs; the rest is for people.
    """

    reason: str
    subject: str
    found: str
    expected: str
    action: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.reason}: found {self.found}, expected {self.expected}. {self.action}"

    def row(self) -> dict[str, str]:
        """The same as one JSON object."""
        return {
            "reason": self.reason,
            "subject": self.subject,
            "found": self.found,
            "expected": self.expected,
            "action": self.action,
        }


class Refused(Exception):
    """Nothing was changed, for these reasons; all independent ones at once."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("\n".join(str(finding) for finding in findings))
        self.findings = findings
