"""Which series of patches the operator knows, and what each does: `catalogue.json`, made from the engine's manifests.

A digest stands for every file of an engine whose whole series is applied; an engine attests it, and a pod that attests
another one runs other code. A new catalogue reaches new revisions only: what a revision expects is frozen with it.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Final, Literal

from specdecode_operator.api.engine import Engine

FORMAT: Final = 1
DISABLED: Final = "disabled"
"""What an engine attests of an optimization that is in its files and switched off."""


@dataclass(frozen=True)
class Optimization:
    """One change of the decode path, on one line."""

    name: str
    state: Literal["active", "upstream"]
    """What an engine attests of it unless it is switched off; upstream: the release itself has it."""
    switchable: bool
    spans: tuple[str, ...]
    """Metrics that it can move: none of them is a control in a run that compares it."""


@dataclass(frozen=True)
class Series:
    """The optimizations that an image of one line carries."""

    line: str
    name: str
    manifest_digest: str
    optimizations: tuple[Optimization, ...]

    @property
    def switchable(self) -> tuple[str, ...]:
        """Names that may be switched off, sorted."""
        return tuple(sorted(each.name for each in self.optimizations if each.switchable))

    def states(self, disabled: Iterable[str]) -> dict[str, str]:
        """What an engine attests of each optimization with these switched off."""
        off = frozenset(disabled)
        return {each.name: DISABLED if each.name in off else each.state for each in self.optimizations}


@dataclass(frozen=True)
class Catalogue:
    """All series that are known."""

    series: tuple[Series, ...]

    def carried_by(self, engine: Engine) -> Series | None:
        """What an engine's image should carry; None for a stock one."""
        return self.of_line(engine.version) if engine.build == "patched" else None

    def of_line(self, line: str) -> Series | None:
        """The newest series of a line: the last one listed."""
        return next((each for each in reversed(self.series) if each.line == line), None)


def parse(text: str) -> Catalogue:
    """A catalogue from its file's text. Raises ValueError for a format of another operator."""
    data = json.loads(text)
    if data["format"] != FORMAT:
        raise ValueError(f"the catalogue has format {data['format']}; this operator reads {FORMAT}")
    return Catalogue(
        tuple(
            Series(
                line=item["line"],
                name=item["series"],
                manifest_digest=item["manifest_digest"],
                optimizations=tuple(
                    Optimization(row["name"], row["state"], row["switchable"], tuple(row["spans"]))
                    for row in item["optimizations"]
                ),
            )
            for item in data["series"]
        )
    )


CATALOGUE: Final = parse(resources.files(__package__).joinpath("catalogue.json").read_text())
"""The one that this operator ships."""
