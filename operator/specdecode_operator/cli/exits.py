"""Exit codes, for scripts that act on a verdict. Only a Pass is 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specdecode_operator.gates.verdict import Outcome

OF_OUTCOME: Final[Mapping[Outcome, int]] = {
    Outcome.PASS: 0,
    Outcome.FAIL: 10,
    Outcome.INCONCLUSIVE: 20,
    Outcome.INVALID: 30,
}
USAGE: Final = 64
INTERNAL: Final = 70
