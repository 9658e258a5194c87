"""What the engine says of its own files: checked at start, served afterwards.

The digest of the manifest names release, series and every file's hash after; a pod's expected digest comes with
its revision (`SPECDECODE_EXPECT_MANIFEST`).  The answer is built from the installed files, once, at start: what this
process runs is what was there then.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdecode_engine import installed, overlay, toggles, tree
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
    expected: str | None
    """The digest that the pod's revision names, if it names one."""
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
            "expected_manifest": self.expected,
            "disabled": sorted(self.disabled),
            "optimizations": [{**row.row(), "state": self.state_of(row)} for row in self.rows],
            "findings": [finding.row() for finding in self.findings],
        }


def attest(root: Path, manifest: Manifest, environment: Mapping[str, str] = os.environ) -> Attestation:
    """Check the files under `root` and what the pod expects.  Raises Refused for a switch that is not one."""
    return conclude(
        manifest, tree.hashes(root, manifest), environment, [*overlay.interrupted(root), *installed.edited()]
    )


def conclude(
    manifest: Manifest,
    found: Mapping[str, str | None],
    environment: Mapping[str, str],
    others: Sequence[Finding] = (),
) -> Attestation:
    """The attestation that follows from the files' hashes `found`, and what `others` found wrong beside them.

    Raises Refused as `attest` does.
    """
    expected = environment.get(EXPECTED) or None
    return Attestation(
        release=manifest.release,
        series=manifest.series,
        digest=manifest.digest,
        rows=tuple(tree.states(manifest, found)),
        disabled=toggles.parse(environment.get(toggles.VARIABLE, ""), manifest.switchable),
        expected=expected,
        findings=(*others, *tree.deviations(manifest, found), *_unexpected(manifest, expected)),
    )


def _unexpected(manifest: Manifest, expected: str | None) -> list[Finding]:
    if expected is None or expected == manifest.digest:
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
