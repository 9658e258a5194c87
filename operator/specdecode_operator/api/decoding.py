"""What is decoded and how: the model, its drafter, how drafts are accepted (`spec.model`, `spec.speculative`)."""

from typing import Annotated, Literal

from pydantic import Field

from specdecode_operator.api.cel import Rule
from specdecode_operator.api.fields import Commit, Model, ModelName, Source, spelled

_SOURCE = r"^(hf://[A-Za-z0-9][\\w.-]*/[A-Za-z0-9][\\w.-]*|pvc://[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[^:[:cntrl:]]+|/[^:[:cntrl:]]+)$"

SOURCE_RULES = (
    Rule(
        rule=f"self.source.matches('{_SOURCE}')",
        found="{self.source}",
        allowed="hf://org/name, pvc://claim/path or an absolute path",
        action="write the source in one of these forms",
        field_path=".source",
    ),
    Rule(
        rule="!self.source.matches('/[.][.]?(/|$)')",
        found="{self.source}",
        allowed="a path without the parts . and .., which could lead out of the claim",
        action="write the path out",
        field_path=".source",
    ),
    Rule(
        rule="!self.source.startsWith('hf://') || has(self.revision)",
        found="no revision beside {self.source}",
        allowed="a commit of the repository, 40 hexadecimal digits",
        action="set it, so that all pods load the same weights",
        field_path=".revision",
    ),
    Rule(
        rule="self.source.startsWith('hf://') || !has(self.revision)",
        found="a revision beside {self.source}",
        allowed="none, since only hf:// sources have commits",
        action="remove it",
        field_path=".revision",
    ),
)


class ModelSpec(Model):
    """The model that is served."""

    RULES = (
        *SOURCE_RULES,
        Rule(
            rule="(has(self.servedName) ? self.servedName : self.name) == "
            "(has(oldSelf.servedName) ? oldSelf.servedName : oldSelf.name)",
            found="a change of the name that clients send, from "
            "{(has(oldSelf.servedName) ? oldSelf.servedName : oldSelf.name)} to "
            "{(has(self.servedName) ? self.servedName : self.name)}",
            allowed="the same name as before, since old and new pods serve side by side during a replacement",
            action="set servedName to the old name, or make a second object",
        ),
    )

    name: ModelName = Field(
        description="Name of the model, for people and dashboards, and for clients unless servedName is set."
    )
    source: Source = Field(
        description="Where the weights are: hf://org/name (a Hugging Face repository; revision is then needed), "
        "pvc://claim/path (a PersistentVolumeClaim of the namespace, mounted read-only), or an absolute path inside "
        "the image or a volume of the template."
    )
    revision: Commit | None = Field(
        default=None,
        description="Commit of the Hugging Face repository, 40 hexadecimal digits, so that every pod serves the same "
        "weights. Needed for hf:// sources, refused for others.",
    )
    served_name: ModelName | None = Field(
        default=None,
        description="Model name that clients send. Absent: the same as name. It cannot change: while a revision "
        "takes over from another, both must answer to one name.",
    )

    @property
    def serves_as(self) -> str:
        """The name clients send."""
        return self.served_name or self.name


Method = Literal["mtp", "eagle", "eagle3", "dflash", "dspark", "draft_model", "ngram"]


class DraftModel(Model):
    """The model that drafts tokens for the target to verify."""

    RULES = SOURCE_RULES

    source: Source = Field(
        description="Where the drafter's weights are: hf://org/name, pvc://claim/path or an absolute path, as in "
        "model.source."
    )
    revision: Commit | None = Field(
        default=None,
        description="Commit of the drafter's Hugging Face repository, 40 hexadecimal digits. Needed for hf:// sources, "
        "refused for others.",
    )


class Rejection(Model):
    """How drafted tokens are accepted."""

    RULES = (
        Rule(
            rule="self.method != 'synthetic' || has(self.acceptanceLength)",
            found="no acceptanceLength",
            allowed="1 to numSpeculativeTokens + 1 with method synthetic",
            action="set it",
            field_path=".acceptanceLength",
        ),
        Rule(
            rule="self.method == 'synthetic' || !has(self.acceptanceLength)",
            found="acceptanceLength with method standard",
            allowed="none, since the target decides",
            action="remove it, or set method to synthetic",
            field_path=".acceptanceLength",
        ),
    )

    method: Literal["standard", "synthetic"] = Field(
        default="standard",
        description="standard: the target decides. synthetic: a fixed acceptance is forced, whatever the target says; "
        "for tests of the machinery on random weights, only with accelerator profile cpu.",
    )
    acceptance_length: Annotated[float, Field(ge=1, le=9)] | None = Field(
        default=None,
        description="Mean number of tokens a step emits under synthetic rejection, from 1 to numSpeculativeTokens + 1. "
        "Needed for synthetic, refused for standard.",
    )


class Speculative(Model):
    """How tokens are drafted and verified."""

    RULES = (
        Rule(
            rule="self.method in ['mtp', 'ngram'] || has(self.draftModel)",
            found="no drafter for method {self.method}",
            allowed="a draftModel, which this method needs",
            action="set draftModel.source, or take method mtp or ngram",
            field_path=".draftModel",
        ),
        Rule(
            rule="!(self.method in ['mtp', 'ngram']) || !has(self.draftModel)",
            found="a drafter for method {self.method}",
            allowed="none, since this method drafts without a second model",
            action="remove draftModel, or take a method that uses it",
            field_path=".draftModel",
        ),
        Rule(
            rule="!has(self.rejection.acceptanceLength) || "
            "self.rejection.acceptanceLength <= double(self.numSpeculativeTokens + 1)",
            found="more than numSpeculativeTokens + 1",
            allowed="1 to numSpeculativeTokens + 1, since a step emits no more",
            action="lower it, or raise numSpeculativeTokens",
            field_path=".rejection.acceptanceLength",
        ),
    )

    method: Method = Field(
        description="Drafting method. mtp and ngram draft without a second model; eagle, eagle3, dflash, dspark and "
        "draft_model need draftModel."
    )
    draft_model: DraftModel | None = Field(
        default=None,
        description="The drafter. Needed for eagle, eagle3, dflash, dspark and draft_model, refused for mtp and ngram.",
    )
    num_speculative_tokens: Annotated[int, Field(ge=1, le=8)] = Field(
        description="Tokens drafted a step (K), 1 to 8. A step emits at most K + 1."
    )
    attention_backend: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=64,
                json_schema_extra=spelled(
                    "^[A-Z][A-Z0-9_]*$", "the engine's name of a backend, in capitals, such as TRITON_ATTN"
                ),
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Attention backend of the drafter, by the engine's name for it (TRITON_ATTN, "
        "FLASH_ATTN, FLASHINFER, ...). Absent: the engine chooses.",
    )
    rejection: Rejection = Field(default_factory=Rejection, description="How drafted tokens are accepted.")
