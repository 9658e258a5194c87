"""What is wrong with a field, said so that the reader can act: where, what was found, what is allowed, what to do.

Values of environment variables and of user arguments never enter `found`: they may be secrets, and messages end up in
status, events and logs.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class FieldError:
    """One rule that a spec breaks."""

    path: str
    """Field path from the object's root, as kubectl prints it: `spec.engine.args[2]`."""
    found: str
    """What is there now, without values that may be secret."""
    allowed: str
    """What would be accepted."""
    action: str
    """What the user can do about it, as an imperative clause."""

    def __str__(self) -> str:
        return f"{self.path}: found {self.found}; allowed: {self.allowed}; {self.action}."


class InvalidObject(Exception):
    """The object cannot be read as a SpecDecodeDeployment: it was written past its own schema."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors: tuple[FieldError, ...] = tuple(errors)
        super().__init__(" ".join(str(error) for error in self.errors))
