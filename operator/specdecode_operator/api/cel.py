"""Rules in CEL, the language of the API server's own validation, and the messages they give.

A rule stands beside the model whose fields it spans. What it says is made of what was found, what is allowed and what
to do, as every error of this project is.
"""

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rule:
    """One CEL rule of the CRD. The API server puts the field's path before what the rule says.

    In `found` and `allowed`, `{...}` holds a CEL expression of a string. Never a value that may be a secret.
    """

    rule: str
    """CEL over `self`; over `oldSelf` too, then the rule is asked on updates only."""
    found: str
    allowed: str
    action: str
    """What the user can do about it, as an imperative clause."""
    field_path: str | None = None
    """Path below the model that the error is about, when one field is to blame."""

    def schema(self) -> dict[str, Any]:
        """The rule as `x-kubernetes-validations` takes it. `message` is what is said if the expression fails."""
        said = f"found {self.found}; allowed: {self.allowed}; {self.action}"
        schema = {
            "rule": self.rule,
            "message": _without_values(f"allowed: {self.allowed}; {self.action}"),
            "messageExpression": _cel_text(said),
        }
        return schema if self.field_path is None else {**schema, "fieldPath": self.field_path}


_VALUE = re.compile(r"{([^}]*)}")


def _without_values(said: str) -> str:
    return _VALUE.sub("...", said)


def _cel_text(said: str) -> str:
    """`said` as one CEL expression: text in quotes, joined with the expressions in braces."""
    parts = _VALUE.split(said)
    texts = [quoted(text) if text else "" for text in parts[::2]]
    joined = [part for pair in zip(texts, [*parts[1::2], ""], strict=True) for part in pair if part]
    return " + ".join(joined)


def quoted(text: str) -> str:
    """`text` as a CEL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def number(value: str, digits: int) -> str:
    """CEL that writes the non-negative integer `value`, at most `digits` digits long, as text.

    CEL's own `string()` makes a text without a bound, and the API server's cost estimate then refuses the message.
    """
    places = [10**place for place in reversed(range(digits))]
    digit = "'0123456789'.substring({0}, {0} + 1)"
    return " + ".join(
        digit.format(f"({value}) % 10")
        if place == 1
        else f"(({value}) < {place} ? '' : {digit.format(f'({value}) / {place} % 10')})"
        for place in places
    )


def given(*fields: str) -> str:
    """CEL for how many of the optional `fields` are set."""
    return " + ".join(f"(has(self.{field}) ? 1 : 0)" for field in fields)
