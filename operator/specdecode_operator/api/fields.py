"""What the models of this room are made of: bounded texts, maps and lists, and their common base."""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from specdecode_operator.api.cel import Rule, quoted

# --- How a text is spelled -------------------------------------------------------------------------------------------


def ruled(*rules: Rule) -> dict[str, Any]:
    """Schema extension of a value: rules of its own."""
    return {"x-kubernetes-validations": [rule.schema() for rule in rules]}


def spelled(expression: str, allowed: str, *, found: str = "{self}", never: str = "") -> dict[str, Any]:
    """Schema extension of a text: what it must match, and what must be nowhere in it.

    A rule, since a `pattern` would show people the bare expression.
    """
    rule = f"self.matches({quoted(expression)})" + (f" && !self.matches({quoted(never)})" if never else "")
    return ruled(Rule(rule=rule, found=found, allowed=allowed, action="correct it"))


def without_nul(what: str) -> dict[str, Any]:
    """Schema extension of a text that a process is given: none can have a NUL. What it says may be a secret."""
    return ruled(
        Rule(
            rule="!self.contains('\\x00')",
            found=f"a NUL character in {what}",
            allowed="text without it, since no process can be given one",
            action="remove it",
        )
    )


DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUALIFIED = (
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
QUALIFIED_IN_WORDS = "an optional DNS name and slash, then at most 63 letters, digits, dashes, dots and underscores"
_LABEL_IN_WORDS = "lower-case letters, digits and dashes, a letter or digit first and last"
_UP = "/[.][.](/|$)"
"""A part of a path that leads up, and with that out of what is mounted."""

# --- Bounded scalars: CEL's cost estimate needs every string, list and map to have an end -----------------------------

Text = Annotated[str, Field(max_length=1024)]
LongText = Annotated[str, Field(max_length=32768)]
LabelName = Annotated[str, Field(min_length=1, max_length=63, json_schema_extra=spelled(DNS_LABEL, _LABEL_IN_WORDS))]
ObjectName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=253,
        json_schema_extra=spelled(DNS_NAME, f"{_LABEL_IN_WORDS}; several such with dots between"),
    ),
]
AbsolutePath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1024,
        json_schema_extra=spelled("^/[^:[:cntrl:]]*$", "an absolute path without colons and without ..", never=_UP),
    ),
]
RelativePath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1024,
        json_schema_extra=spelled(
            "^[^/:][^:]*$", "a relative path without colons and without ..", never=f"^[.][.]|{_UP}"
        ),
    ),
]
Quantity = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[str, Field(min_length=1, max_length=32)],
    Field(
        json_schema_extra=ruled(
            Rule(
                rule="type(self) == int || self.matches('^[0-9]+([.][0-9]+)?([numkMGTPE]|[KMGTPE]i|[eE][0-9]+)?$')",
                found="a text that is no quantity",
                allowed="a number, with a unit such as m, k, M, G, Ki, Mi or Gi",
                action="correct it",
            )
        )
    ),
]
Key = Annotated[
    str,
    Field(
        min_length=1,
        max_length=253,
        json_schema_extra=spelled(
            "^([-_A-Za-z0-9]|[.][-_A-Za-z0-9])[-._A-Za-z0-9]*$",
            "letters, digits, dashes, underscores and dots, not two dots first",
        ),
    ),
]
LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
LabelValue = Annotated[
    str,
    Field(
        max_length=63,
        json_schema_extra=spelled(
            "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
            "letters, digits, dashes, dots and underscores, a letter or digit first and last, or nothing",
        ),
    ),
]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=64)]
Annotations = Annotated[dict[LabelKey, LongText], Field(max_length=64)]
Quantities = Annotated[dict[LabelKey, Quantity], Field(max_length=32)]
Duration = Annotated[
    str,
    Field(
        min_length=2,
        max_length=24,
        json_schema_extra=spelled(
            "^([0-9]{1,5}(h|m|s|ms)){1,4}$", "a time such as 90s or 1h30m, in h, m, s and ms; 0s for none"
        ),
    ),
]
PrometheusDuration = Annotated[
    str,
    Field(
        min_length=2,
        max_length=16,
        json_schema_extra=spelled("^[1-9][0-9]{0,4}(ms|s|m|h)$", "a time such as 10s or 1m, in one of ms, s, m and h"),
    ),
]
Source = Annotated[str, Field(min_length=1, max_length=512)]
ModelName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=128,
        json_schema_extra=spelled(
            "^[A-Za-z0-9][A-Za-z0-9._/-]*$",
            "letters, digits, dots, underscores, slashes and dashes, a letter or digit first",
        ),
    ),
]
Commit = Annotated[
    str,
    Field(
        min_length=40,
        max_length=40,
        json_schema_extra=spelled("^[0-9a-f]{40}$", "a commit, 40 hexadecimal digits in lower case"),
    ),
]


def qualified_keys(field: str, kind: str) -> Rule:
    """Rule of a model that each key of its map `field` is one that Kubernetes takes for a label or an annotation."""
    return Rule(
        rule=f"!has(self.{field}) || self.{field}.all(key, key.indexOf('/') <= 253 && "
        f"key.matches({quoted(f'^{QUALIFIED}$')}))",
        found=f"a key that is no {kind} key",
        allowed=QUALIFIED_IN_WORDS,
        action="correct the key",
        field_path=f".{field}",
    )


LIST_MAP = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"


def keyed(*keys: str) -> dict[str, Any]:
    """Schema extension of a list whose items are told apart by `keys`: the API server refuses a duplicate."""
    return {LIST_MAP: "map", LIST_KEYS: list(keys)}


def as_set() -> dict[str, Any]:
    """Schema extension of a list of scalars without duplicates."""
    return {LIST_MAP: "set"}


def atomic() -> dict[str, Any]:
    """Schema extension of a list that one writer owns whole."""
    return {LIST_MAP: "atomic"}


class Model(BaseModel):
    """Base of all models here: camelCase in the object, snake_case in the program."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True, protected_namespaces=()
    )

    RULES: ClassVar[tuple[Rule, ...]] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler(core_schema)
        if cls.RULES:
            handler.resolve_ref_schema(schema)["x-kubernetes-validations"] = [rule.schema() for rule in cls.RULES]
        return schema
