"""Which revision is stable, which is wanted, and what each was frozen as.

Status records stable and candidate. Should status be lost, the children tell: whoever has slots and isn't what the
spec asks for was serving before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Final

from specdecode_operator.api.types import Spec, SpecDecodeDeployment
from specdecode_operator.build import controllerrevision
from specdecode_operator.build.frozen import Frozen
from specdecode_operator.build.revision import LATEST_FORM, revision_of, says_more
from specdecode_operator.plan.differs import quantity
from specdecode_operator.plan.observe import Json, Observed, Revision, revision_of_child
from specdecode_operator.plan.slots import Arm

HISTORY: Final = 10
"""ControllerRevisions kept, those in use included."""


@dataclass(frozen=True)
class History:
    """The object's frozen revisions."""

    objects: Mapping[Revision, Json]
    frozen: Mapping[Revision, Frozen]

    @property
    def next_number(self) -> int:
        """Number of a revision that is new now."""
        return max((item.get("revision", 0) for item in self.objects.values()), default=0) + 1

    def number(self, revision: Revision) -> int:
        """Number of a revision; 0 if it isn't there."""
        return int(self.objects.get(revision, {}).get("revision", 0))


def history(observed: Observed) -> History:
    """Read the ControllerRevisions; one that can't be read is as good as absent."""
    objects: dict[Revision, Json] = {}
    frozen: dict[Revision, Frozen] = {}
    for item in observed.revisions:
        revision = revision_of_child(item)
        try:
            frozen[revision] = controllerrevision.frozen(item)
        except (KeyError, TypeError, ValueError):
            continue
        objects[revision] = item
    return History(objects, frozen)


def wanted_revision(desired: SpecDecodeDeployment, past: History) -> Revision:
    """The revision that the spec asks for: an existing one if the spec hashes to it in the form that it was made under.

    So an operator that knows more fields restarts nothing, and a spec that comes back finds its old revision. But a
    spec that uses such a field is none that the older form can tell: its revision is new. A spec that only spells a
    resource's amount otherwise, `0.01` for `10m`, finds the revision too: with the old spelling it hashes to it.
    """
    spec, newest_first = desired.spec, sorted(past.frozen, key=past.number, reverse=True)
    hashes = {form: revision_of(spec, form) for form in {_form(each) for each in past.frozen.values()}}
    exact = (
        each
        for each in newest_first
        if hashes[_form(past.frozen[each])] == each and not says_more(spec, _form(past.frozen[each]))
    )
    respelled = (each for each in newest_first if _is_respelled(spec, each, past.frozen[each]))
    return next(chain(exact, respelled), Revision(revision_of(spec)))


def _form(frozen: Frozen) -> int:
    return min(frozen.form_version, LATEST_FORM)


def _is_respelled(spec: Spec, revision: Revision, frozen: Frozen) -> bool:
    other, form = _respelled(spec, frozen), _form(frozen)
    return other != spec and revision_of(other, form) == revision and not says_more(other, form)


def _respelled(spec: Spec, frozen: Frozen) -> Spec:
    """`spec` with the amounts of its resources spelled as in a revision that was frozen, where they are the same."""
    given = spec.template.resources
    there = frozen.template["spec"]["containers"][0].get("resources") or {}
    resources = given.model_copy(
        update={
            "requests": _spelled_as(given.requests, there.get("requests") or {}),
            "limits": _spelled_as(given.limits, there.get("limits") or {}),
        }
    )
    return spec.model_copy(update={"template": spec.template.model_copy(update={"resources": resources})})


def _spelled_as(amounts: Mapping[str, int | str], there: Mapping[str, str]) -> dict[str, int | str]:
    return {
        name: there[name] if name in there and quantity(there[name]) == quantity(amount) is not None else amount
        for name, amount in amounts.items()
    }


@dataclass(frozen=True)
class Roles:
    """`target` is where slots go; `stable` is what has held them all before. Equal at rest."""

    stable: Revision
    target: Revision


def roles(
    desired: SpecDecodeDeployment, wanted: Revision, past: History, arms: Mapping[Revision, Arm], *, valid: bool
) -> Roles | None:
    """Roles of the revisions; None if nothing ever served and the spec is invalid.

    With an invalid spec nothing new starts: the target is whatever was on its way before.
    """
    stable = _recorded_stable(desired, past, arms) or _derived_stable(wanted, past, arms)
    if valid:
        return Roles(stable or wanted, wanted)
    if stable is None:
        return None
    candidate = desired.status.candidate
    moving = Revision(candidate.revision) if candidate else None
    known = moving is not None and moving in past.frozen and moving in arms and not arms[moving].empty
    return Roles(stable, moving if known and moving is not None else stable)


def _recorded_stable(desired: SpecDecodeDeployment, past: History, arms: Mapping[Revision, Arm]) -> Revision | None:
    recorded = desired.status.stable
    revision = Revision(recorded.revision) if recorded else None
    return revision if revision is not None and (revision in past.frozen or revision in arms) else None


def _derived_stable(wanted: Revision, past: History, arms: Mapping[Revision, Arm]) -> Revision | None:
    held = [revision for revision, arm in arms.items() if not arm.empty]
    before = [revision for revision in held if revision != wanted] or held
    return min(before, key=lambda revision: (-arms[revision].ready, past.number(revision), revision), default=None)


def outdated(past: History, in_use: frozenset[Revision]) -> tuple[Json, ...]:
    """ControllerRevisions beyond the history, oldest first; never one in use."""
    spare = sorted((revision for revision in past.objects if revision not in in_use), key=past.number)
    surplus = len(past.objects) - HISTORY
    return tuple(past.objects[revision] for revision in spare[: max(surplus, 0)])
