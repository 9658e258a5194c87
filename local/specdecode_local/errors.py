"""The one error type a person sees: what is wrong, and what to do about it."""

from __future__ import annotations


class LocalError(Exception):
    """A failure with its remedy. `__main__` prints it without a traceback and exits with 1."""

    def __init__(self, problem: str, *, remedy: str = "", detail: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.detail = detail

    def __str__(self) -> str:
        parts = [self.problem]
        if self.detail:
            parts.append("\n".join(f"    {line}" for line in self.detail.rstrip().splitlines()))
        if self.remedy:
            parts.append(f"What to do: {self.remedy}")
        return "\n".join(parts)
