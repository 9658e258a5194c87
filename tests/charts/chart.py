"""The chart as helm sees it: rendered, linted or refused."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from specdecode_local import paths
from specdecode_local.gobuild import KUBERNETES_VERSION

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "specdecode-operator"
VALUES = Path(__file__).parent / "values"
VALUE_SETS = sorted(path.stem for path in VALUES.glob("*.yaml"))

RELEASE = "specdecode-operator"
NAMESPACE = "specdecode-system"

Json = dict[str, Any]


def built(name: str) -> Path:
    """A program of the local cluster's builds. Not a skip: a test that did not run proves nothing."""
    binary = paths.binary(name)
    if not binary.exists():
        pytest.fail(f"{binary} is missing: `make up` builds it")
    return binary


@dataclass(frozen=True)
class Rendered:
    """What `helm template` printed."""

    text: str

    @functools.cached_property
    def objects(self) -> list[Json]:
        """Read once, and by libyaml: the CRD alone is thousands of lines."""
        return [found for found in yaml.load_all(self.text, yaml.CSafeLoader) if found]

    def of_kind(self, kind: str) -> list[Json]:
        return [found for found in self.objects if found["kind"] == kind]

    def only(self, kind: str) -> Json:
        """The one object of a kind; a test about it fails here if there are none or several."""
        found = self.of_kind(kind)
        assert len(found) == 1, f"{len(found)} objects of kind {kind}: {[one['metadata']['name'] for one in found]}"
        return found[0]


@dataclass(frozen=True)
class Chart:
    """Runs one helm binary on the chart."""

    helm: Path

    def _run(self, command: str, values: str, settings: Sequence[str]) -> subprocess.CompletedProcess[str]:
        # Without a cluster helm assumes the version it was built with, which a build from its module doesn't know.
        name = [RELEASE, "--kube-version", KUBERNETES_VERSION] if command == "template" else []
        sets = [part for setting in settings for part in ("--set-json", setting)]
        line = [str(self.helm), command, *name, str(CHART), "--namespace", NAMESPACE]
        return subprocess.run(
            [*line, "--values", str(VALUES / f"{values}.yaml"), *sets], capture_output=True, text=True, check=False
        )

    @functools.cache  # noqa: B019 (one chart for the whole run; most tests look at the same manifests)
    def render(self, values: str = "digest", *settings: str) -> Rendered:
        """The manifests under a set of values and further `path=json` settings."""
        done = self._run("template", values, settings)
        assert done.returncode == 0, f"helm template with values {values} {settings} failed: {done.stderr}"
        return Rendered(done.stdout)

    def refusal(self, *settings: str) -> str:
        """What helm says to values that it refuses."""
        done = self._run("template", "digest", settings)
        assert done.returncode != 0, f"helm took {settings} and rendered:\n{done.stdout}"
        return done.stderr

    def lint(self, values: str) -> str:
        done = self._run("lint", values, [])
        assert done.returncode == 0, f"helm lint with values {values} failed:\n{done.stdout}{done.stderr}"
        return done.stdout
