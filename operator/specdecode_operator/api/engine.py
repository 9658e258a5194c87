"""The engine: image, arguments, environment, optimizations switched off (`spec.engine`)."""

from typing import Annotated, Literal

from pydantic import Field

from specdecode_operator.api import names
from specdecode_operator.api.cel import Rule, given, number
from specdecode_operator.api.fields import (
    QUALIFIED,
    Key,
    LabelName,
    Model,
    ObjectName,
    as_set,
    atomic,
    keyed,
    spelled,
    without_nul,
)

EngineLine = Literal["0.33.0", "0.30.0"]


class KeyRef(Model):
    """A key of a Secret or ConfigMap in the object's namespace."""

    name: ObjectName = Field(description="Name of the Secret or ConfigMap, in the object's namespace.")
    key: Key = Field(description="Key inside it.")
    optional: bool | None = Field(
        default=None, description="True: the pod starts without the variable if the object or key is absent."
    )


_POD_FIELD = (
    "^(metadata[.](name|namespace|uid)|spec[.](nodeName|serviceAccountName)|status[.](hostIPs?|podIPs?)|"
    rf"metadata[.](labels|annotations)\['{QUALIFIED}'\])$"
)
_POD_FIELD_IN_WORDS = (
    "metadata.name, .namespace, .uid, .labels['key'] or .annotations['key'], spec.nodeName or .serviceAccountName, "
    "status.hostIP, .hostIPs, .podIP or .podIPs"
)


class FieldRef(Model):
    """A field of the pod."""

    field_path: Annotated[
        str, Field(min_length=1, max_length=256, json_schema_extra=spelled(_POD_FIELD, _POD_FIELD_IN_WORDS))
    ] = Field(description="Path of the pod's field, such as status.podIP or metadata.labels['key'].")


class EnvSource(Model):
    """Where an environment variable's value comes from."""

    RULES = (
        Rule(
            rule=f"{given('secretKeyRef', 'configMapKeyRef', 'fieldRef')} == 1",
            found=f"{{{number(given('secretKeyRef', 'configMapKeyRef', 'fieldRef'), 1)}}} sources",
            allowed="exactly one of secretKeyRef, configMapKeyRef and fieldRef",
            action="keep one",
        ),
    )

    secret_key_ref: KeyRef | None = Field(default=None, description="A key of a Secret.")
    config_map_key_ref: KeyRef | None = Field(default=None, description="A key of a ConfigMap.")
    field_ref: FieldRef | None = Field(default=None, description="A field of the pod.")


class EnvVar(Model):
    """One environment variable of the engine."""

    RULES = (
        Rule(
            rule="!(has(self.value) && has(self.valueFrom))",
            found="value and valueFrom for {self.name}",
            allowed="one of the two",
            action="remove one",
        ),
        Rule(
            rule=f"!self.name.startsWith('{names.ENV_PREFIX}')",
            found="{self.name}",
            allowed=f"names without the prefix {names.ENV_PREFIX}, which is the operator's",
            action="remove it, or rename it",
            field_path=".name",
        ),
    )

    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=256,
            json_schema_extra=spelled("^[A-Za-z_][A-Za-z0-9_]*$", "letters, digits and underscores, no digit first"),
        ),
    ] = Field(description="Name of the variable. Names that begin with SPECDECODE_ belong to the operator.")
    value: Annotated[str, Field(max_length=32768, json_schema_extra=without_nul("the value"))] | None = Field(
        default=None, description="Its value. $(NAME) expands to a variable that stands before it."
    )
    value_from: EnvSource | None = Field(default=None, description="Where the value comes from instead.")


class Optimizations(Model):
    """The optimizations of the decode path that the image carries."""

    disable: Annotated[tuple[LabelName, ...], Field(max_length=32)] = Field(
        default=(),
        description="Names of optimizations that are switched off; off is the release's own path. A name that the "
        "engine's line doesn't have, or can't switch, is refused. A change replaces the pods.",
        json_schema_extra=as_set(),
    )


class Engine(Model):
    """The engine's image and how it is started."""

    RULES = (
        Rule(
            rule="self.build != 'stock' || !has(self.optimizations) || !has(self.optimizations.disable) || "
            "size(self.optimizations.disable) == 0",
            found=f"{{{number('size(self.optimizations.disable)', 2)}}} names with build stock",
            allowed="none, since a stock engine has nothing of ours to switch off",
            action="remove them, or take an image with the series and build patched",
            field_path=".optimizations.disable",
        ),
        Rule(
            rule="self.image.matches('^[a-z0-9][-A-Za-z0-9._:/]*@sha256:[0-9a-f]{64}$')",
            found="{self.image}",
            allowed="an image by digest, repository@sha256:<64 hexadecimal digits>, since a tag can move",
            action="write the digest that the registry shows for the tag",
            field_path=".image",
        ),
    )

    version: EngineLine = Field(description="The engine's release line: what its arguments and metrics are called.")
    image: Annotated[str, Field(min_length=1, max_length=512)] = Field(
        description="Image by digest: repository@sha256:<64 hexadecimal digits>. A tag can move, and then two pods of "
        "one revision run different code."
    )
    build: Literal["patched", "stock"] = Field(
        default="patched",
        description="What the image holds. patched: the engine with the operator's series of patches for its line; a "
        "revision gets requests only once its pods have attested their files. stock: a release as it is; it serves, "
        "but Attested stays Unknown, and there is nothing to switch off.",
    )
    optimizations: Optimizations = Field(
        default_factory=Optimizations, description="The optimizations of the decode path that the image carries."
    )
    args: Annotated[
        tuple[Annotated[str, Field(max_length=4096, json_schema_extra=without_nul("an argument"))], ...],
        Field(max_length=128),
    ] = Field(
        default=(),
        description="Further arguments of the engine's serve command, after the operator's own. Arguments that say "
        "what a field of this object says are refused.",
        json_schema_extra=atomic(),
    )
    env: Annotated[tuple[EnvVar, ...], Field(max_length=128)] = Field(
        default=(),
        description="Environment variables of the engine; they win over those of the accelerator profile.",
        json_schema_extra=keyed("name"),
    )
