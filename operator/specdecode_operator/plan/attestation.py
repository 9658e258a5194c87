"""Whether a pod is what its revision says: its image, and what its process attests of its own files.

The engine checks itself before it serves, and its readiness probe asks for that. This is the second look, by somebody
else: what the pod answers against what was frozen with the revision. A slot that differs gets no requests; one that has
yet to answer doesn't bring a new revision into the route, and changes nothing where it serves already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from specdecode_operator.api import names
from specdecode_operator.build.frozen import Expected, Frozen
from specdecode_operator.plan.actions import Patch
from specdecode_operator.plan.observe import (
    ATTESTED,
    DIFFERS,
    PENDING,
    SILENT,
    UNCONFIRMED,
    UNEXPECTED,
    Json,
    Pod,
    Revision,
    Verdict,
)
from specdecode_operator.plan.slots import NEXT_TO_GO, Arm, Slot
from specdecode_operator.plan.testimony import Absent, Answer, Attestation, Garbled, Silence
from specdecode_operator.plan.trouble import Trouble

TAKES_OUT: Final = "takes it out of its Services: "
"""How the reason of such a patch begins; an event repeats what follows."""
LETS_BACK: Final = "lets it back into its Services"
NOTES: Final = "notes that it attested its files"


def judged(pod: Pod, frozen: Mapping[Revision, Frozen], answers: Mapping[str, Answer]) -> Pod:
    """`pod` with what is to be thought of it. Nothing tells what a pod must attest whose revision's frozen self is
    lost: where it serves it goes on, where it doesn't it has to wait, whatever it answers."""
    each = frozen.get(pod.revision)
    return replace(pod, verdict=judge(pod, each, answers.get(pod.uid)) if each else Verdict(PENDING))


def judge(pod: Pod, frozen: Frozen, answer: Answer | None) -> Verdict:
    """The pod against its frozen revision. `answer` is what its process said last, if it was asked already."""
    wrong = _wrong_image(pod, frozen.image)
    if wrong:
        return Verdict(DIFFERS, wrong)
    if frozen.expected is None or not pod.asked:
        return Verdict(UNEXPECTED)
    said = answer.said if answer is not None and answer.process == pod.process else None
    if said is None or isinstance(said, Silence):
        return _without_answer(pod, said)
    wrong = _difference(pod, frozen.expected, frozen.engine_version, said)
    if wrong:
        return Verdict(DIFFERS, wrong)
    unsure = _other_image_id(pod, frozen.image)
    return Verdict(UNCONFIRMED, unsure) if unsure else Verdict(ATTESTED)


def _without_answer(pod: Pod, said: Silence | None) -> Verdict:
    """A process that attested once is what it was: it read its files at start. So an operator that has just started,
    or can't reach the pod for a while, takes nothing back."""
    if pod.process and pod.attested_as == pod.process:
        return Verdict(ATTESTED)
    if said is None or not pod.ready:
        return Verdict(PENDING)
    return Verdict(
        SILENT,
        f"pod {pod.name} doesn't answer {names.ATTESTATION_PATH} on port {names.PORT}: {said.why}. It must be "
        "reachable from the operator: look for a NetworkPolicy that keeps them apart.",
    )


def _wrong_image(pod: Pod, image: str) -> str:
    """A pod's image can be edited while it runs. By digest: admission may have put a mirror's name before it."""
    found = _engine(pod.raw.get("spec") or {}, "containers").get("image", "")
    if not found or _digest(found) == _digest(image):
        return ""
    return (
        f"pod {pod.name} has image {found[:256]}, its revision {image}: somebody edited the pod. Delete it, and it is "
        "made anew."
    )


def _other_image_id(pod: Pod, image: str) -> str:
    """Some runtimes name a platform's manifest or the image's configuration here (cri-o#7143, kruise#2572): another
    digest proves nothing, and nothing is claimed then."""
    found = _engine(pod.raw.get("status") or {}, "containerStatuses").get("imageID", "")
    if "@" not in found or _digest(found) == _digest(image):
        return ""
    return (
        f"pod {pod.name} attests the right files, but its node names its image {found[:256]}, the revision {image}. "
        "That may be the same image's manifest for one platform: compare them in the registry."
    )


def _difference(pod: Pod, expected: Expected, version: str, said: Attestation | Absent | Garbled) -> str:
    if isinstance(said, Absent):
        return (
            f"pod {pod.name} answers {said.status} at {names.ATTESTATION_PATH}: its image holds no series. Take an "
            f"image with series {expected.series}, or set spec.engine.build to stock."
        )
    if isinstance(said, Garbled):
        return (
            f"pod {pod.name} answers {said.what} at {names.ATTESTATION_PATH}: it isn't the engine of series "
            f"{expected.series}. Take an image of that series."
        )
    return _differs(pod, expected, version, said)


def _differs(pod: Pod, expected: Expected, version: str, said: Attestation) -> str:
    if said.release != version:
        return (
            f"pod {pod.name} runs engine {said.release}, its revision says {version}. Put spec.engine.version or "
            "spec.engine.image right."
        )
    if said.manifest_digest != expected.manifest_digest:
        return (
            f"pod {pod.name} attests manifest {_short(said.manifest_digest)}, its revision expects "
            f"{_short(expected.manifest_digest)} (series {expected.series}). Take an image with the series that this "
            "operator ships, or upgrade the operator to the image's."
        )
    if not said.ok:
        found = "; ".join(said.findings) or "no finding is named"
        return f"pod {pod.name} finds its own files wrong: {found}. Delete the pod, and look for what edits them."
    wrong = [
        f"{name} is {said.states.get(name, 'absent')}, not {state}"
        for name, state in sorted(expected.states.items())
        if said.states.get(name) != state
    ]
    if wrong:
        return (
            f"pod {pod.name} attests other optimizations than its revision: {', '.join(wrong)}. Delete the pod; if "
            f"that changes nothing, its image doesn't read {names.ENV_DISABLE}."
        )
    return ""


# --- What follows from it ---------------------------------------------------------------------------------------------


def marks(arms: Iterable[Arm]) -> Iterator[Patch]:
    """Pods to take out of their Services, to let back in, and to note as attested. Nothing for those that are right.

    By the label that the Services select by, so no other pod loses its place, and the ReplicaSet still counts it. It is
    the next to go then, also before one that is only marked: as long as it is Ready, the ReplicaSet controller would
    sooner take one that serves.
    """
    for slot in sorted((slot for arm in arms for slot in arm.standing), key=lambda slot: slot.leader.name):
        yield from _marks(slot)


def changes_who_serves(made: Iterable[Patch]) -> bool:
    """Whether one of the marks takes a pod out or lets one back. No slot goes in the same plan: the ReplicaSet
    controller must see what was taken out, and what is let back has yet to count as serving."""
    return any(each.why.startswith((TAKES_OUT, LETS_BACK)) for each in made)


def _marks(slot: Slot) -> Iterator[Patch]:
    pod, wrong = slot.leader, slot.difference
    if wrong is not None:
        if pod.serves:
            yield _patch(pod, "false", NEXT_TO_GO - 1, None, TAKES_OUT + wrong)
    elif pod.verdict.kind in (ATTESTED, UNCONFIRMED):
        if pod.taken_out:
            yield _patch(pod, "true", None, pod.process, LETS_BACK)
        elif pod.attested_as != pod.process:
            meta = {"uid": pod.uid, "annotations": {names.ANNOTATION_ATTESTED: pod.process}}
            yield Patch("v1", "Pod", pod.name, {"metadata": meta}, NOTES)
    elif pod.verdict.kind == UNEXPECTED and pod.taken_out:
        yield _patch(pod, "true", None, None, LETS_BACK)


def _patch(pod: Pod, serves: str, cost: int | None, attested: str | None, why: str) -> Patch:
    annotations = {
        names.ANNOTATION_DELETION_COST: None if cost is None else str(cost),
        names.ANNOTATION_ATTESTED: attested,
    }
    meta: Json = {"uid": pod.uid, "labels": {names.LABEL_SERVES: serves}, "annotations": annotations}
    return Patch("v1", "Pod", pod.name, {"metadata": meta}, why)


def trouble(pod: Pod) -> Trouble | None:
    """What keeps this pod from getting requests; None if its attestation doesn't."""
    if pod.terminating or pod.verdict.kind not in (DIFFERS, SILENT):
        return None
    return Trouble(names.REASON_NOT_ATTESTED, pod.verdict.words)


def _engine(part: Json, key: str) -> Json:
    """The engine's entry in a pod's list of containers or of their states."""
    found: Json = next((each for each in part.get(key) or () if each.get("name") == names.CONTAINER), {})
    return found


def _digest(image: str) -> str:
    return image.rpartition("@")[2]


def _short(digest: str) -> str:
    return digest[:12]
