"""A run as its record holds it, judged again.

The page says nothing that the record can't prove: plan and digest are checked, and each step's verdict is reached anew
from the recorded samples.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Base64Bytes, BaseModel, Field, ValidationError

from specdecode_operator.api import names
from specdecode_operator.api.errors import FieldError, InvalidObject
from specdecode_operator.build import runplan, runrecord
from specdecode_operator.gates.course import Course
from specdecode_operator.gates.intake import Intake, take_in
from specdecode_operator.gates.judge import course_of, judge
from specdecode_operator.gates.plan import Plan, digest, read_plan
from specdecode_operator.gates.run import RunStep
from specdecode_operator.gates.samples import Sample, read_samples
from specdecode_operator.gates.verdict import Verdict
from specdecode_operator.plan.canary.record import Record, StepRecord
from specdecode_operator.plan.canary.runs import Run, runs_of

Json = dict[str, Any]


class _Metadata(BaseModel):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None


class _ConfigMap(BaseModel):
    """The shape of a ConfigMap, as the API server sees to it; a file may have any."""

    metadata: _Metadata
    data: dict[str, str] | None = None
    binary_data: dict[str, Base64Bytes] | None = Field(default=None, alias="binaryData")


@dataclass(frozen=True)
class Judged:
    """A step's samples, and what they say."""

    verdict: Verdict
    intake: Intake
    courses: Mapping[str, Course]
    """By gate; none where the samples were too unfit to be looked at."""


@dataclass(frozen=True)
class Step:
    """One step of the run."""

    number: int
    """From 1."""
    registered: RunStep | None
    """None: the plan is gone."""
    record: StepRecord | None
    """None: its slots never all served."""
    plan: Plan | None
    """With its start; None until there is one."""
    judged: Judged | None
    looks: tuple[Json, ...]
    """What each look said when it was made."""

    @property
    def as_registered(self) -> bool:
        """Whether the plan that was judged is the registered one, moved to the step's start."""
        if self.plan is None or self.registered is None or self.record is None:
            return self.plan is None
        return digest(self.plan) == digest(self.registered.starting(self.record.start))

    @property
    def confirmed(self) -> bool | None:
        """Whether the samples give the recorded verdict again; None where none is recorded."""
        if self.judged is None or self.record is None or self.record.verdict is None:
            return None
        said, again = self.record.verdict, self.judged.verdict
        return (said.outcome, said.reason, said.decided_at) == (again.outcome, again.reason, again.decided_at)


@dataclass(frozen=True)
class Case:
    """One run."""

    namespace: str
    name: str
    """The object's."""
    run: Run
    text: str
    """The registered plan, as it was written down."""
    steps: tuple[Step, ...]

    @property
    def record(self) -> Record:
        """Where the run stands."""
        return self.run.record

    @property
    def last(self) -> Step:
        """The step that it is in, or ended in."""
        return self.steps[-1]


def case_of(config_maps: Iterable[Json], *, name: str = "", run: str = "") -> Case:
    """A run from its ConfigMaps.

    Args:
        config_maps: those of plans and records, as the API gives them.
        name: the object's; empty if all are of one.
        run: its id; empty for the newest.

    Raises:
        InvalidObject: there is no such run, or its files can't be read.
    """
    maps = tuple(each for each in map(_shaped, config_maps) if _of_run(each))
    name = name or _only_name(maps)
    runs = runs_of(name, tuple(each for each in maps if _label(each, names.LABEL_NAME) == name))
    found = [each for each in runs if run in ("", each.record.id)]
    if not found:
        known = ", ".join(each.record.id for each in runs) or "none"
        raise _fault("run", run or "no run that can be read", f"one of: {known}", "name a run whose record is kept")
    chosen = found[-1]
    by_name = {each["metadata"]["name"]: each for each in maps}
    return Case(
        namespace=str(by_name[names.run_record(name, chosen.record.id)]["metadata"].get("namespace", "")),
        name=name,
        run=chosen,
        text=runplan.text_of(by_name.get(names.run_plan(name, chosen.record.id), {})),
        steps=tuple(_step(chosen, place, record) for place, record in enumerate(chosen.record.steps)),
    )


def _shaped(config_map: Json) -> Json:
    try:
        _ConfigMap.model_validate(config_map)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"]))
        raise _fault(
            f"configmap.{path}", "what no ConfigMap has", first["msg"], "give it as kubectl wrote it"
        ) from None
    return config_map


def _of_run(config_map: Json) -> bool:
    return bool(_label(config_map, names.LABEL_RUN) and _label(config_map, names.LABEL_NAME))


def _label(config_map: Json, label: str) -> str:
    return str((config_map["metadata"].get("labels") or {}).get(label, ""))


def _only_name(maps: Iterable[Json]) -> str:
    found = sorted({_label(each, names.LABEL_NAME) for each in maps})
    if len(found) != 1:
        raise _fault("name", ", ".join(found) or "no run's ConfigMap", "one object's runs", "name the object")
    return found[0]


def _step(run: Run, place: int, record: StepRecord | None) -> Step:
    text = run.files.get(runrecord.plan_file(place))
    plan = read_plan(text) if text and record is not None else None
    samples = tuple(read_samples(_lines(run.packed.get(runrecord.samples_file(place), b""))))
    return Step(
        number=place + 1,
        registered=run.plan.steps[place] if run.plan and place < len(run.plan.steps) else None,
        record=record,
        plan=plan,
        judged=judged_of(plan, samples, record.through) if plan and record and record.through else None,
        looks=tuple(map(_look, _lines(run.packed.get(runrecord.looks_file(place), b"")))),
    )


def judged_of(plan: Plan, samples: tuple[Sample, ...], through: int) -> Judged:
    """The first `through` windows of a step, as far as its verdict looked."""
    verdict = judge(plan, samples, through=through)
    intake = take_in(plan, samples, through=verdict.decided_at or through)
    looked_at = any(gate.looks for gate in verdict.gates)
    return Judged(verdict, intake, {gate.name: course_of(intake, gate) for gate in plan.gates if looked_at})


def _look(line: bytes) -> Json:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _fault("looks", "a line that isn't a JSON object", "one look a line", "give the record as it was kept")
    return found


def _lines(packed: bytes) -> list[bytes]:
    """Lines of a compressed file."""
    try:
        return runrecord.unpacked(packed).splitlines() if packed else []
    except ValueError:
        allowed = f"gzip of at most {runrecord.MOST_UNPACKED} bytes"
        raise _fault("record", "a file that doesn't unpack", allowed, "give it as it was") from None


def _fault(path: str, found: str, allowed: str, action: str) -> InvalidObject:
    return InvalidObject([FieldError(path, found, allowed, action)])
