"""A revision's hash moves with what shapes the pod, and with nothing else, ever."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import OTHER_IMAGE, DeploymentBuilder, deployment

from specdecode_operator.api import names
from specdecode_operator.api.types import Spec
from specdecode_operator.build.revision import (
    FORM_1,
    FORMS,
    LATEST_FORM,
    Form,
    as_hashed,
    canonical,
    digest,
    revision_of,
    says_more,
)

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.yaml"))


def golden(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    return content


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_spec_hashes_as_it_did_when_its_revision_was_made(path: Path) -> None:
    """If this fails, an upgrade of the operator restarts every engine: mend the code, never the file."""
    known = golden(path)
    for form, revision in known["revisions"].items():
        assert revision_of(Spec.model_validate(known["spec"]), form=form) == revision


@pytest.mark.parametrize(
    "path", [path for path in GOLDEN if 1 in golden(path)["revisions"]], ids=lambda path: path.stem
)
def test_fields_that_came_later_leave_a_spec_without_them_its_revision(path: Path) -> None:
    known = golden(path)
    assert revision_of(Spec.model_validate(known["spec"])) == known["revisions"][1]


def test_every_version_of_the_form_has_goldens_and_the_newest_is_in_use() -> None:
    assert {form for path in GOLDEN for form in golden(path)["revisions"]} == set(FORMS)
    assert max(FORMS) == LATEST_FORM


BASE = deployment().on("gb200").behind("inference")

KEPT = {
    "replicas": BASE.replicas(7),
    "minAvailable": BASE.set("spec.minAvailable", 0),
    "traffic": BASE.set("spec.traffic.path", "/v1"),
    "no traffic": BASE.without("spec.traffic"),
    "scrape interval": BASE.set("spec.metrics", {"scrapeInterval": "30s"}),
    "how it is proven": BASE.set("spec.rollout", {"strategy": "Canary", "steps": [{"slots": 1}]}).set(
        "spec.gates", [{"name": "drafter", "metric": "drafterGpuSpan", "margin": "2%"}]
    ),
    "pod labels": BASE.set("spec.template.labels", {"team": "a"}),
    "pod annotations": BASE.set("spec.template.annotations", {"note": "b"}),
    "a default written out": BASE.set("spec.parallelism", {"tensor": 1}),
    "an empty parent": BASE.set("spec.template", {}),
    "a name that clients do not send": BASE.set("spec.model.name", "other").set("spec.model.servedName", "demo-model"),
    "the object's name": BASE.named("other", "elsewhere"),
    "nothing switched off": BASE.set("spec.engine.optimizations", {"disable": []}),
    "the build that is meant anyway": BASE.set("spec.engine.build", "patched"),
}

MOVED = {
    "image": BASE.image(OTHER_IMAGE),
    "a stock engine": BASE.stock(),
    "an optimization off": BASE.switched_off("splitkv-decode"),
    "another off": BASE.switched_off("telemetry"),
    "both off": BASE.switched_off("splitkv-decode", "telemetry"),
    "engine line": BASE.set("spec.engine.version", "0.30.0"),
    "arguments": BASE.args("--enforce-eager"),
    "order of arguments": BASE.args("--a", "--b"),
    "another order of arguments": BASE.args("--b", "--a"),
    "environment": BASE.env(A="1"),
    "K": BASE.set("spec.speculative.numSpeculativeTokens", 4),
    "method": BASE.drafting("mtp"),
    "served name": BASE.set("spec.model.servedName", "chat"),
    "parallelism": BASE.set("spec.parallelism", {"tensor": 4}),
    "drain": BASE.set("spec.drain", {"preStopSeconds": 20}),
    "profile": BASE.on("h200"),
    "probe timing": BASE.on("gb200", probes={"startup": {"failureThreshold": 300}}),
    "no tolerations at all": BASE.on("gb200", tolerations=[]),
    "no runtime class": BASE.on("gb200", runtimeClassName=""),
    "resources": BASE.set("spec.template.resources", {"limits": {"memory": "1Gi"}}),
    "node selector": BASE.set("spec.template.nodeSelector", {"pool": "a"}),
    "volume": BASE.set("spec.template.volumes", [{"name": "v", "emptyDir": {}}]),
    "service account": BASE.set("spec.template.serviceAccountName", "engine"),
}


@pytest.mark.parametrize("builder", KEPT.values(), ids=KEPT.keys())
def test_what_shapes_no_pod_keeps_the_revision(builder: DeploymentBuilder) -> None:
    assert revision_of(builder.spec()) == revision_of(BASE.spec())


def test_what_shapes_the_pod_makes_a_revision_of_its_own() -> None:
    revisions = {change: revision_of(builder.spec()) for change, builder in {"nothing": BASE, **MOVED}.items()}
    assert len(set(revisions.values())) == len(revisions), revisions


def test_a_quantity_is_the_same_as_number_and_as_text() -> None:
    number, text = (BASE.set("spec.template.resources", {"requests": {"cpu": cpu}}).spec() for cpu in (4, "4"))
    assert revision_of(number) == revision_of(text)


def test_the_order_of_what_is_switched_off_means_nothing() -> None:
    one, other = BASE.switched_off("splitkv-decode", "telemetry"), BASE.switched_off("telemetry", "splitkv-decode")
    assert revision_of(one.spec()) == revision_of(other.spec())


def test_an_older_form_is_blind_to_what_came_later_and_says_so() -> None:
    assert not says_more(BASE.spec(), 1)
    assert not says_more(BASE.switched_off("telemetry").spec(), LATEST_FORM)
    for builder in (BASE.switched_off("telemetry"), BASE.stock()):
        assert revision_of(builder.spec(), 1) == revision_of(BASE.spec(), 1)
        assert says_more(builder.spec(), 1)


def test_a_revision_fits_a_name() -> None:
    revision = revision_of(BASE.spec())
    assert len(revision) == names.REVISION_LENGTH
    assert len(names.revision_child("a" * names.NAME_LENGTH, revision)) + len("-xxxxx") <= 63


# --- A later version --------------------------------------------------------------------------------------------------

LATER = Form(
    version=2,
    fields={
        **FORM_1.fields,
        "drain": {**(FORM_1.fields["drain"] or {}), "handOverSeconds": None},
        "warmUp": {"prompts": None},
    },
    neutral={"drain.handOverSeconds": 5},
)
"""As if drain.handOverSeconds (default 5) and warmUp had been added after version 1."""


def plain(builder: DeploymentBuilder) -> dict[str, Any]:
    return as_hashed(builder.spec())


def test_an_upgrade_that_brings_fields_moves_no_hash() -> None:
    before = plain(BASE)
    after = {**before, "drain": {**before["drain"], "handOverSeconds": 5}}
    assert digest(canonical(after, LATER)) == digest(canonical(before, FORM_1)) == revision_of(BASE.spec())
    assert digest(canonical(after, FORM_1)) == revision_of(BASE.spec())


def test_using_what_is_new_makes_a_new_revision() -> None:
    before = plain(BASE)
    for after in (
        {**before, "drain": {**before["drain"], "handOverSeconds": 9}},
        {**before, "warmUp": {"prompts": ["hello"]}},
    ):
        assert digest(canonical(after, LATER)) != revision_of(BASE.spec())
