"""What the engine says of its own files: checked at start, served afterwards.

The digest of the manifest names release, series and every file's hash after; a pod's expected digest comes with
its revision (`SPECDECODE_EXPECT_MANIFEST`).  The answer is built from the installed files, once, at start: what this
process runs is what was there then.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from specdecode_engine import overlay, toggles, tree
from specdecode_engine.errors import Finding
from specdecode_engine.manifests import Manifest

EXPECTED = "SPECDECODE_EXPECT_MANIFEST"


@dataclass(frozen=True)
class Attestation:
    """The result of one check."""

    release: str
    series: str
    digest: str
    rows: tuple[tree.Row, ...]
    disabled: frozenset[str]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not self.findings

    def state_of(self, row: tree.Row) -> str:
        """An active optimization that this process has switched off is `disabled`; else the files' state."""
        return "disabled" if row.name in self.disabled and row.state == "active" else row.state

    def document(self) -> dict[str, object]:
        """What `/specdecode/attestation` answers."""
        return {
            "ok": self.ok,
            "release": self.release,
            "series": self.series,
            "manifest_digest": self.digest,
            "optimizations": [{**row.row(), "state": self.state_of(row)} for row in self.rows],
            "findings": [finding.row() for finding in self.findings],
        }


def attest(root: Path, manifest: Manifest, environment: Mapping[str, str] = os.environ) -> Attestation:
    """Check the files under `root` and what the pod expects.  Raises Refused for a switch that is not one."""
    switchable = {o.name: o.switchable for o in manifest.optimizations}
    return Attestation(
        release=manifest.release,
        series=manifest.series,
        digest=manifest.digest,
        rows=tuple(tree.states(manifest, tree.hashes(root, manifest))),
        disabled=toggles.parse(environment.get(toggles.VARIABLE, ""), switchable),
        findings=(*overlay.verify(root, manifest), *_unexpected(manifest, environment.get(EXPECTED))),
    )


def _unexpected(manifest: Manifest, expected: str | None) -> list[Finding]:
    if not expected or expected == manifest.digest:
        return []
    return [
        Finding(
            reason="another manifest than the pod's revision names",
            subject=EXPECTED,
            found=manifest.digest,
            expected=expected,
            action="Give the deployment an image whose series the operator's catalogue knows, or upgrade the operator.",
        )
    ]
