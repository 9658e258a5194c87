"""The CustomResourceDefinition, made from the typed view.

python -m specdecode_operator.api.crd            prints it as the chart's template
python -m specdecode_operator.api.crd --check F  fails if F is not what would be printed
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from specdecode_operator.api import names
from specdecode_operator.api.schema import Schema, structural
from specdecode_operator.api.status import Status
from specdecode_operator.api.types import ROOT_RULES, Spec

_COLUMNS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "Ready",
        "type": "string",
        "jsonPath": f'.status.conditions[?(@.type=="{names.CONDITION_READY}")].status',
        "description": "Whether enough replicas serve.",
    },
    {
        "name": "Replicas",
        "type": "integer",
        "jsonPath": ".status.readyReplicas",
        "description": "Replicas that are Ready, of all revisions.",
    },
    {
        "name": "Revision",
        "type": "string",
        "jsonPath": ".status.stable.revision",
        "description": "The revision that serves.",
    },
    {
        "name": "Attested",
        "type": "string",
        "jsonPath": f'.status.conditions[?(@.type=="{names.CONDITION_ATTESTED}")].status',
        "description": "Whether the pods run the files that their revision says.",
    },
    {
        "name": "Step",
        "type": "string",
        "jsonPath": ".status.run.step",
        "description": "Slots moved of slots to move, while a revision takes over.",
    },
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {
        "name": "Image",
        "type": "string",
        "jsonPath": ".status.stable.image",
        "priority": 1,
        "description": "Image of the revision that serves.",
    },
    {
        "name": "Message",
        "type": "string",
        "jsonPath": f'.status.conditions[?(@.type=="{names.CONDITION_PROGRESSING}")].message',
        "priority": 1,
        "description": "What is going on, or what is in the way.",
    },
)

_HEADER: Final = "# Made from operator/specdecode_operator/api/types.py by `python -m specdecode_operator.api.crd`.\n"


def crd() -> dict[str, Any]:
    """The CustomResourceDefinition as the API server takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": names.CRD_NAME,
            "labels": {"app.kubernetes.io/name": names.MANAGED_BY},
            # Uninstalling the chart must not take the objects, and with them their engines.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": names.GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": root_schema()},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [dict(column) for column in _COLUMNS],
                }
            ],
        },
    }


def root_schema() -> Schema:
    """The schema of the whole object. Of metadata, a schema may bound the name and nothing else."""
    return {
        "description": "An LLM served with speculative decoding.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "maxLength": 64, "description": "Version of this resource."},
            "kind": {"type": "string", "maxLength": 64, "description": "Kind of this resource."},
            "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 253}}},
            "spec": structural(Spec),
            "status": structural(Status),
        },
        "x-kubernetes-validations": [rule.schema() for rule in ROOT_RULES],
    }


def text() -> str:
    """The chart's template."""
    return _HEADER + yaml.dump(crd(), Dumper=_Dumper, sort_keys=False, width=116, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes each value out where it stands: an alias would tie two fields together."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def main(argv: list[str] | None = None) -> int:
    """Print the definition, or compare a file with it."""
    parser = argparse.ArgumentParser(prog="python -m specdecode_operator.api.crd", description=__doc__)
    parser.add_argument("--check", metavar="FILE", type=Path, help="fail if FILE differs")
    file: Path | None = parser.parse_args(argv).check
    if file is None:
        sys.stdout.write(text())
        return 0
    if file.read_text() == text():
        return 0
    sys.stderr.write(f"{file}: stale; run `python -m specdecode_operator.api.crd > {file}`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
