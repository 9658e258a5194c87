"""Conditions: set one, keep the others, and move a transition time only with its status."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from specdecode_operator.api import names
from specdecode_operator.api.status import Condition

MESSAGE_LENGTH = 32768


def set_condition(
    conditions: Iterable[Condition],
    *,
    type: str,
    status: Literal["True", "False", "Unknown"],
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """`conditions` with this one set, in the order of `names.CONDITIONS`, others after.

    `now` becomes the transition time only if the status is new or differs, so that an unchanged state makes an
    unchanged object, and nothing is written at rest.
    """
    held = {condition.type: condition for condition in conditions}
    before = held.get(type)
    held[type] = Condition(
        type=type,
        status=status,
        reason=reason,
        message=message[:MESSAGE_LENGTH],
        observed_generation=generation,
        last_transition_time=before.last_transition_time if before and before.status == status else _seconds(now),
    )
    return tuple(sorted(held.values(), key=_rank))


def get_condition(conditions: Iterable[Condition], type: str) -> Condition | None:
    """The condition of that type, if it is set."""
    return next((condition for condition in conditions if condition.type == type), None)


def _seconds(now: datetime) -> datetime:
    """Kubernetes' own times carry no fraction, and its typed clients drop one."""
    return now.replace(microsecond=0)


def _rank(condition: Condition) -> tuple[int, str]:
    known = names.CONDITIONS
    return (known.index(condition.type) if condition.type in known else len(known), condition.type)
