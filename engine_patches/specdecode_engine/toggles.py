"""`SPECDECODE_DISABLE=name,...`: which optimizations of the installed line are switched off.

Read once a process, so that capture and replay of a CUDA graph, and every worker, see the same answer.
"""

import functools
import os
from collections.abc import Mapping

from specdecode_engine import manifests
from specdecode_engine.errors import Finding, Refused

VARIABLE = "SPECDECODE_DISABLE"


def parse(value: str, switchable: Mapping[str, bool]) -> frozenset[str]:
    """The names in `value` (comma-separated, blanks ignored).

    `switchable` says of each optimization of the line whether it can be switched.  Raises Refused with one finding a
    name that is unknown or cannot be switched: a switch that does nothing must not be accepted.
    """
    names = {name for part in value.split(",") if (name := part.strip())}
    findings = [_refusal(name, switchable) for name in sorted(names) if not switchable.get(name, False)]
    if findings:
        raise Refused(findings)
    return frozenset(names)


def _refusal(name: str, switchable: Mapping[str, bool]) -> Finding:
    allowed = ", ".join(sorted(known for known, can in switchable.items() if can)) or "nothing on this line"
    known = name in switchable
    return Finding(
        reason="not switchable" if known else "unknown optimization",
        subject=VARIABLE,
        found=name,
        expected=allowed,
        action="Upstream has it built in on this release: remove the name." if known else "Correct or remove the name.",
    )


@functools.cache
def disabled() -> frozenset[str]:
    """What this process has switched off.  Raises Refused as `parse` does, and without an engine to switch."""
    value = os.environ.get(VARIABLE, "")
    if not value.strip():
        return frozenset()
    return parse(value, manifests.of_installed_release().switchable)


def enabled(name: str) -> bool:
    """Whether the optimization may act in this process.  The hooks of the series ask this, and nothing else."""
    return name not in disabled()
