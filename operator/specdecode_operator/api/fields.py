"""What the models of this room are made of: bounded texts, maps and lists, and their common base."""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from specdecode_operator.api.cel import Rule

# --- Bounded scalars: CEL's cost estimate needs every string, list and map to have an end -----------------------------

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

Text = Annotated[str, Field(max_length=1024)]
LongText = Annotated[str, Field(max_length=32768)]
LabelName = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_NAME)]
AbsolutePath = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^/[^:]*$")]
RelativePath = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^/:][^:]*$")]
Quantity = (
    Annotated[int, Field(ge=0)]
    | Annotated[
        str, Field(min_length=1, max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?([numkKMGTPE]|[KMGTPE]i|[eE][0-9]+)?$")
    ]
)
Key = Annotated[str, Field(min_length=1, max_length=253)]
LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
Labels = Annotated[dict[LabelKey, LabelValue], Field(max_length=64)]
Annotations = Annotated[dict[LabelKey, LongText], Field(max_length=64)]
Quantities = Annotated[dict[LabelKey, Quantity], Field(max_length=32)]
Duration = Annotated[str, Field(min_length=2, max_length=24, pattern=r"^([0-9]{1,5}(h|m|s|ms)){1,4}$")]
PrometheusDuration = Annotated[str, Field(min_length=2, max_length=16, pattern=r"^[1-9][0-9]{0,4}(ms|s|m|h)$")]
Source = Annotated[str, Field(min_length=1, max_length=512)]
ModelName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
Commit = Annotated[str, Field(min_length=40, max_length=40, pattern=r"^[0-9a-f]{40}$")]

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
