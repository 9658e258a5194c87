"""The runs of an object, from their ConfigMaps, and which of them is current."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from specdecode_operator.api import names
from specdecode_operator.api.status import Status
from specdecode_operator.build import runplan, runrecord
from specdecode_operator.gates.run import RunPlan, digest_of
from specdecode_operator.plan.canary import record as records
from specdecode_operator.plan.canary.record import PROMOTING, Record
from specdecode_operator.plan.observe import Json, Revision, by_name
from specdecode_operator.plan.slots import Arm

KEPT: Final = 5
"""Runs whose ConfigMaps are kept, the current one included."""


@dataclass(frozen=True)
class Run:
    """One run with its registered plan."""

    record: Record
    plan: RunPlan | None
    """None: it is gone, or not the one that was registered."""
    files: Mapping[str, str]
    packed: Mapping[str, bytes]
    """The record's files."""


def runs_of(name: str, config_maps: tuple[Json, ...]) -> tuple[Run, ...]:
    """All runs that can be read, oldest first."""
    maps = by_name(config_maps)
    prefix = names.run_record(name, "")
    found = [_run(name, maps, each) for each in maps if each.startswith(prefix)]
    return tuple(sorted((run for run in found if run), key=lambda run: (run.record.registered, run.record.id)))


def _run(name: str, maps: Mapping[str, Json], config_map: str) -> Run | None:
    files = runrecord.files_of(maps[config_map])
    record = records.read(files.get(runrecord.FILE, ""))
    if record is None or config_map != names.run_record(name, record.id):
        return None
    text = runplan.text_of(maps.get(names.run_plan(name, record.id), {}))
    return Run(record, _plan(text, record.plan), files, runrecord.packed_of(maps[config_map]))


def _plan(text: str, digest: str) -> RunPlan | None:
    if digest_of(text) != digest:
        return None
    try:
        return RunPlan.model_validate_json(text)
    except ValidationError:
        return None


def current(runs: tuple[Run, ...], status: Status, stable: Revision, wanted: Revision) -> Run | None:
    """The run that the object is in, or was in last.

    Status names it. If status was still planning, it is the one that was registered meanwhile: the operator was stopped
    after the run's first write. If status is lost as a whole, it is the newest between these revisions, finished or
    not.
    """
    planned = status.run
    if planned is not None and planned.id is not None:
        return next((run for run in runs if run.record.id == planned.id), None)
    between = [run for run in runs if (run.record.stable, run.record.candidate) == (stable, wanted)]
    newest = between[-1] if between else None
    if newest is None or status.stable is None:
        return newest
    begun = planned is not None and planned.candidate == wanted and newest.record.registered >= planned.since
    return newest if begun and newest.record.ended is None else None


def stable_of(runs: tuple[Run, ...], arms: Mapping[Revision, Arm]) -> Revision | None:
    """Which revision is stable, should status be lost: what the newest run says, whoever happens to be ready now."""
    if not runs:
        return None
    newest = runs[-1].record
    promoted = newest.ended is not None and newest.ended.outcome in PROMOTING
    before = arms.get(Revision(newest.stable))
    return Revision(newest.candidate if promoted and (before is None or before.empty) else newest.stable)


def outdated(runs: tuple[Run, ...], config_maps: tuple[Json, ...], kept: str | None) -> tuple[Json, ...]:
    """ConfigMaps of runs beyond those that are kept; `kept` is the id of one that stays."""
    spare = [run.record.id for run in runs if run.record.id != kept]
    going = set(spare[: max(len(spare) - KEPT + (kept is not None), 0)])
    return tuple(each for each in config_maps if (each["metadata"].get("labels") or {}).get(names.LABEL_RUN) in going)
