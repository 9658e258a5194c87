"""Pure: which engines are compared on one line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

PAIRS = (("hybrid", "dspark"), ("plain", "dspark"), ("hybrid", "dflash"), ("plain", "dflash"))
"""Targets and drafters of the image; a drafter's name is its method's."""

QUICK_PAIRS = PAIRS[:1]

AGAIN = "stock again"


@dataclass(frozen=True)
class Variant:
    """One engine: the release's tree with some of the series' patches, some of them switched off."""

    name: str
    patches: frozenset[str]
    disabled: frozenset[str] = frozenset()
    whole: bool = False
    """The tree as the image ships it: only that one passes the check at start."""

    @property
    def worth(self) -> int:
        """What to run first, the lowest: stock, all and each alone, then the switches, then stock once more."""
        return 2 if self.name == AGAIN else 1 if self.disabled else 0

    def acts(self, optimization: str, carried: Sequence[str]) -> bool:
        """Whether the optimization acts here: upstream's own always does."""
        if optimization not in carried:
            return True
        return optimization in self.patches and optimization not in self.disabled


def of(carried: Sequence[str], *, quick: bool) -> Iterator[Variant]:
    """Stock first: the others are compared with it.  Then each patch alone, all, and all with one switched off;
    `quick` leaves out those alone, and all but one of those switched off: one whose effect shows in the answers.
    """
    everything = frozenset(carried)
    yield Variant("stock", frozenset())
    if not quick:
        yield Variant(AGAIN, frozenset())
        yield from (Variant(f"{name} alone", frozenset({name})) for name in carried)
    yield Variant("all", everything, whole=True)
    yield from (
        Variant(f"all, {name} off", everything, frozenset({name}), whole=True)
        for name in (_shown_by_quick(carried) if quick else carried)
    )


def _shown_by_quick(carried: Sequence[str]) -> Sequence[str]:
    return ["prefix-cache-tail"] if "prefix-cache-tail" in carried else carried[:1]


def environment(variant: Variant) -> Mapping[str, str]:
    """Of the engine.  A tree that is not the whole series does not pass the check that our plugin makes at start, so
    there only the plugin of the metrics is loaded, and on stock's none."""
    if variant.whole:
        return {"SPECDECODE_DISABLE": ",".join(sorted(variant.disabled))}
    return {"VLLM_PLUGINS": "specdecode" if variant.patches else "none"}
