"""The ConfigMap `<name>-plan-<run>`: a canary's plan, as it was registered before anything moved.

Immutable: the API server lets no one change it, and its digest stands in the object's status. So nobody can choose what
is judged after having looked.
"""

from collections.abc import Mapping
from typing import Any, Final

from specdecode_operator.api import names
from specdecode_operator.build.owner import Owner, metadata

FILE: Final = "plan.json"


def build(owner: Owner, run: str, text: str) -> dict[str, Any]:
    """The plan of a run; `text` is its canonical JSON."""
    labels = {**names.child_labels(owner.name), names.LABEL_RUN: run}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, names.run_plan(owner.name, run), labels),
        "immutable": True,
        "data": {FILE: text},
    }


def text_of(config_map: Mapping[str, Any]) -> str:
    """The plan's JSON; empty if it holds none."""
    return str((config_map.get("data") or {}).get(FILE, ""))
