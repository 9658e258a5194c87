"""Which steps are sampled: each k-th one wholly, the others not at all.

What a hook does costs ten times in a step what it costs in a loop of its own, since the step's work has taken the
caches: tens of microseconds of a step of a few milliseconds.  So a step is either sampled, and pays, or each of its
hooks looks at one flag and goes on.  All spans of a sampled step are taken, so that they can be compared with each
other.

The stride is fixed, because then both arms of a comparison sample alike and nothing is drawn in a step.  It is a prime,
because what repeats in an engine repeats every few steps or every power of two of them (blocks of 16 tokens, batches
padded to a graph's size, a chunked prefill): a stride with which such a period has no common factor visits each of its
phases equally often, where a stride of 8 or 16 could see the same phase for ever.
"""

EVERY = 53
"""On a device, each how many steps one is sampled.  Both arms of a comparison must use the same."""

SAMPLED, AFTER = 0, 1
"""Turns: the sampled step, and the one in which what it left on the device is read."""


class Step:
    """The step that runs now, as far as the hooks have to know it."""

    __slots__ = ("every", "sampled", "turn")

    def __init__(self) -> None:
        self.every = 1
        self.sampled = False
        """All that a hook looks at."""
        self.turn = -1

    def next(self) -> bool:
        """Go on to the next step.  Whether it has anything to do: it is to be sampled, or follows one that was."""
        self.turn = turn = (self.turn + 1) % self.every
        self.sampled = False
        return turn <= AFTER
