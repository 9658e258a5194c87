"""`status`: what is, as the operator last saw it."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from specdecode_operator.api.fields import (
    Model,
    Text,
    atomic,
    keyed,
)


class Condition(Model):
    """One aspect of the object's state."""

    type: Annotated[str, Field(min_length=1, max_length=316)] = Field(
        description="Which aspect: Ready, Progressing, Attested or Routable."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: Annotated[str, Field(min_length=1, max_length=1024)] = Field(description="Why, in one word for programs.")
    message: Annotated[str, Field(max_length=32768)] = Field(description="Why, in sentences for people.")
    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Generation of the object that this was said about."
    )
    last_transition_time: datetime = Field(description="When status last changed.")


class ProfileStatus(Model):
    """The accelerator as it was understood, overrides included."""

    name: Text = Field(description="Name of the profile.")
    arch: Text | None = Field(default=None, description="CPU architecture of the nodes.")
    gpus_per_node: int = Field(description="GPUs a replica takes of each node.")
    nodes_per_replica: int = Field(description="Nodes a replica spans.")
    gpus_per_replica: int = Field(description="GPUs a replica has.")


class RevisionStatus(Model):
    """One revision that holds slots."""

    revision: Text = Field(description="Hash of what shapes its pods; the suffix of its children's names.")
    engine_version: Text = Field(description="Its engine's release line.")
    image: Text = Field(description="Its image.")
    slots: Annotated[int, Field(ge=0)] = Field(description="Replicas it holds.")
    ready: Annotated[int, Field(ge=0)] = Field(description="How many of them are Ready.")
    weight: Annotated[int, Field(ge=0)] = Field(description="Its weight in the route.")
    unproven: bool | None = Field(
        default=None,
        description="True while the object's first revision has never held all its slots, under strategy Canary: there "
        "is nothing yet to compare with, so what replaces it isn't gated.",
    )


class RunStatus(Model):
    """The replacement that is under way."""

    id: Text | None = Field(default=None, description="Id of the canary's run; requests name it.")
    candidate: Text | None = Field(default=None, description="Revision that the canary is about.")
    plan: Text | None = Field(default=None, description="ConfigMap with the registered plan.")
    plan_digest: Text | None = Field(default=None, description="sha256 of the registered plan.")
    step: Text = Field(
        description="Slots moved of slots to move, as in 1/3; of a canary, its step of the steps that it has."
    )
    phase: Text = Field(
        description="What is being done: Swapping or Settling; of a canary also Planning, Measuring, Judging, "
        "Promoting or Ended."
    )
    since: datetime = Field(description="When this phase began.")
    message: Text = Field(default="", description="What is awaited, in a sentence.")


class VerdictStatus(Model):
    """How one run of a canary ended."""

    run: Text = Field(description="Id of the run.")
    revision: Text = Field(description="The candidate.")
    step: Text = Field(description="The step in which it ended, as in 2/2.")
    outcome: Text = Field(
        description="Pass, Fail, Inconclusive or Invalid; Promoted, Aborted or Cancelled if people decided."
    )
    reason: Text = Field(description="Why, in one word.")
    message: Text = Field(description="Why, in sentences.")
    time: datetime = Field(description="When.")


class RejectedStatus(Model):
    """A revision that failed. It isn't tried again until somebody asks to retry."""

    revision: Text = Field(description="The revision.")
    run: Text = Field(description="Id of the run that it failed in.")
    reason: Text = Field(description="Why, in one word.")
    time: datetime = Field(description="When.")


class RequestStatus(Model):
    """The last request that was applied or refused."""

    id: Text = Field(description="Its id; the same id isn't applied again.")
    verb: Text = Field(description="What was asked: promote, abort, pause, resume or retry.")
    run: Text = Field(description="Id of the run that it was about.")
    by: Text = Field(description="Who is said to have asked.")
    reason: Text = Field(default="", description="Why, in the words of whoever asked.")
    refused: Text | None = Field(default=None, description="Why it wasn't applied. Absent: it was.")


class Status(Model):
    """What is."""

    observed_generation: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Generation of the object that this status is about."
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = Field(
        default=(), description="Ready, Progressing, Attested, Routable.", json_schema_extra=keyed("type")
    )
    replicas: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Replicas there are, of all revisions."
    )
    ready_replicas: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Replicas that are Ready, of all revisions."
    )
    selector: Text | None = Field(
        default=None, description="Label selector of all pods; it never changes, so an autoscaler can rely on it."
    )
    profile: ProfileStatus | None = Field(default=None, description="The accelerator as it was understood.")
    stable: RevisionStatus | None = Field(default=None, description="The revision that serves.")
    candidate: RevisionStatus | None = Field(default=None, description="The revision that is taking over.")
    run: RunStatus | None = Field(default=None, description="The replacement that is under way.")
    verdicts: Annotated[tuple[VerdictStatus, ...], Field(max_length=10)] | None = Field(
        default=None, description="How the last canaries ended, the newest last.", json_schema_extra=atomic()
    )
    rejected: Annotated[tuple[RejectedStatus, ...], Field(max_length=10)] | None = Field(
        default=None, description="The last revisions that failed.", json_schema_extra=atomic()
    )
    request: RequestStatus | None = Field(default=None, description="The last request that was applied or refused.")
