"""A child whose name was free when it was looked for, and isn't when it is written: planned again, never an error."""

from dataclasses import dataclass
from typing import Any

import pytest
from builders import deployment

from specdecode_operator.api import names
from specdecode_operator.api.catalogue import CATALOGUE
from specdecode_operator.api.profiles import resolve
from specdecode_operator.apply.client import Api, ApiError, Conflict, Invalid, NotFound
from specdecode_operator.apply.execute import Executor, Refusal
from specdecode_operator.apply.meters import Meters
from specdecode_operator.apply.store import Key, Store
from specdecode_operator.build import controllerrevision
from specdecode_operator.build.owner import owner_of
from specdecode_operator.plan.actions import Apply

Json = dict[str, Any]
SDD = deployment().parsed()
FROZEN = controllerrevision.build(
    owner_of(SDD), SDD.spec, resolve(SDD.spec.accelerator), "0123456789", 1, series=CATALOGUE.of_line("0.33.0")
)
IMMUTABLE = Invalid(422, {"message": "data: field is immutable"})


@dataclass
class Race(Api):
    """The API server as far as one child goes, at which somebody else is faster than our write."""

    found: list[Json | None]
    """What each look finds."""
    write: ApiError
    """What becomes of the write."""

    async def named(self, path: str, name: str) -> Json | None:
        return self.found.pop(0)

    async def apply(self, path: str, manifest: Json, *, manager: str, force: bool = True) -> Json:
        raise self.write

    async def merge(self, path: str, patch: Json, *, manager: str) -> Json:
        raise self.write


async def make(api: Api) -> tuple[Refusal, ...]:
    executor = Executor(api, Store(lambda _: None), Meters())
    return await executor.carry_out(Key("serving", "demo"), (Apply(FROZEN, "freezes it", fresh=True),))


async def test_one_that_appears_between_look_and_write_is_a_conflict() -> None:
    with pytest.raises(Conflict, match="has just been made"):
        await make(Race([None, FROZEN], IMMUTABLE))


async def test_one_that_the_api_server_wont_have_at_all_is_refused_with_its_words() -> None:
    (refusal,) = await make(Race([None, None], IMMUTABLE))
    assert refusal.reason == names.REASON_CHILD_REFUSED
    assert "field is immutable" in refusal.message


async def test_one_that_goes_between_look_and_write_is_a_conflict() -> None:
    with pytest.raises(Conflict, match="is gone"):
        await make(Race([FROZEN], NotFound(404, {"message": "not found"})))
