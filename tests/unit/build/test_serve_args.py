"""The engine's command line, and the user's arguments that collide with it."""

import json

import pytest
from builders import COMMIT, deployment

from specdecode_operator.api.profiles import resolve
from specdecode_operator.api.types import Spec
from specdecode_operator.build.args import OWNED_FLAGS, OWNED_SHORT, collisions, follower_args, owned_flag, serve_args
from specdecode_operator.plan.validate import validate_args


def args_of(spec: Spec) -> list[str]:
    return serve_args(spec, resolve(spec.accelerator))


def value_of(args: list[str], flag: str) -> str:
    return args[args.index(flag) + 1]


def test_the_model_comes_first_and_the_users_arguments_last() -> None:
    args = args_of(deployment().args("--load-format", "dummy").spec())
    assert args[0] == "/models/plain"
    assert args[-2:] == ["--load-format", "dummy"]
    assert value_of(args, "--served-model-name") == "demo-model"
    assert value_of(args, "--port") == "8000"
    assert value_of(args, "--shutdown-timeout") == "120"


@pytest.mark.parametrize(
    ("source", "revision", "loaded"),
    [
        ("/models/hybrid", None, "/models/hybrid"),
        ("pvc://weights/llama/70b", None, "/mnt/claims/weights/llama/70b"),
        ("hf://org/name", COMMIT, "org/name"),
    ],
)
def test_a_source_becomes_what_the_engine_loads(source: str, revision: str | None, loaded: str) -> None:
    args = args_of(deployment().serving(source, revision).spec())
    assert args[0] == loaded
    assert ("--revision" in args) == (revision is not None)


def test_speculation_is_one_json_argument_with_sorted_keys() -> None:
    spec = (
        deployment()
        .drafting("dspark", "pvc://drafts/dspark", tokens=3)
        .set("spec.speculative.attentionBackend", "TRITON_ATTN")
        .set("spec.speculative.rejection", {"method": "synthetic", "acceptanceLength": 2.6})
        .spec()
    )
    text = value_of(args_of(spec), "--speculative-config")
    assert json.loads(text) == {
        "method": "dspark",
        "model": "/mnt/claims/drafts/dspark",
        "num_speculative_tokens": 3,
        "attention_backend": "TRITON_ATTN",
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 2.6,
    }
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_standard_rejection_is_left_to_the_engines_default() -> None:
    text = value_of(args_of(deployment().drafting("mtp").spec()), "--speculative-config")
    assert json.loads(text) == {"method": "mtp", "num_speculative_tokens": 3}


def test_sizes_of_one_are_left_out_but_for_tensor() -> None:
    one = args_of(deployment().spec())
    assert value_of(one, "--tensor-parallel-size") == "1"
    assert not {"--pipeline-parallel-size", "--data-parallel-size", "--enable-expert-parallel"} & set(one)
    sizes = {"tensor": 4, "pipeline": 2, "data": 2, "expert": True}
    many = args_of(deployment().set("spec.parallelism", sizes).spec())
    assert value_of(many, "--tensor-parallel-size") == "4"
    assert value_of(many, "--pipeline-parallel-size") == "2"
    assert value_of(many, "--data-parallel-size") == "2"
    assert "--enable-expert-parallel" in many


def test_pods_of_a_replica_that_spans_nodes_find_each_other() -> None:
    spec = deployment().on("gb200", nodesPerReplica=2).set("spec.parallelism.tensor", 8).spec()
    args = args_of(spec)
    assert value_of(args, "--nnodes") == "2"
    assert value_of(args, "--node-rank") == "$(LWS_WORKER_INDEX)"
    assert value_of(args, "--master-addr") == "$(LWS_LEADER_ADDRESS)"
    assert "--headless" not in args
    assert follower_args(spec, resolve(spec.accelerator)) == [*args, "--headless"]


# --- Collisions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arg", "flag"),
    [
        ("--port", "--port"),
        ("--port=9000", "--port"),
        ("--served_model_name", "--served-model-name"),
        ("--served_model_name=x", "--served-model-name"),
        ("--speculative-config.method", "--speculative-config"),
        ("--tensor-par", "--tensor-parallel-size"),
        ("-tp", "--tensor-parallel-size"),
        ("-tp=4", "--tensor-parallel-size"),
        ("-tp4", "--tensor-parallel-size"),
        ("-sc.method=mtp", "--speculative-config"),
        ("--api-key=s3cret", "--api-key"),
        ("--config", "--config"),
    ],
)
def test_an_owned_flag_is_known_in_every_spelling_of_the_engines_parser(arg: str, flag: str) -> None:
    assert owned_flag(arg) == flag


@pytest.mark.parametrize(
    "arg",
    [
        "--max-num-seqs",
        "--load-format",
        "--config-format",
        "--model-impl",
        "--model-loader-extra-config",
        "--enforce-eager",
        "--enable-prefix-caching",
        "--compilation-config.level=3",
        "-cc",
        "-dcp",
        "-O3",
        "-1",
        "--",
        "dummy",
        "",
        "--portfolio",
    ],
)
def test_other_arguments_are_the_users(arg: str) -> None:
    assert owned_flag(arg) is None


def test_a_collision_names_place_flag_and_owner_but_never_the_value() -> None:
    found = collisions(["--load-format", "dummy", "--api-key=s3cret", "-tp", "2"])
    assert [(collision.index, collision.flag) for collision in found] == [
        (2, "--api-key"),
        (3, "--tensor-parallel-size"),
    ]
    assert found[1].owner == "parallelism.tensor"
    assert "s3cret" not in str(found)


def test_a_flag_that_a_variable_completes_is_known_and_the_value_is_not_told() -> None:
    spec = deployment().args("--$(F)=9000", "$(WHOLE)", "--seed", "$(SEED)", "--$$(F)")
    found = list(validate_args(spec.env(F="port", KEY="key", SEED="7", WHOLE="--api-$(KEY)=s3cret").spec()))
    assert [(error.path, error.found) for error in found] == [
        ("spec.engine.args[0]", "--port"),
        ("spec.engine.args[1]", "--api-key"),
    ]
    assert "s3cret" not in str(found)


def test_what_the_operator_sets_is_owned() -> None:
    """Else a user's argument would silently win over a field of the spec."""
    spec = (
        deployment()
        .serving("hf://org/name", COMMIT)
        .on("gb200", nodesPerReplica=2)
        .set("spec.parallelism", {"tensor": 2, "pipeline": 2, "data": 2, "expert": True})
        .spec()
    )
    flags = {arg for arg in follower_args(spec, resolve(spec.accelerator)) if arg.startswith("--")}
    assert flags <= set(OWNED_FLAGS)
    assert set(OWNED_SHORT.values()) <= set(OWNED_FLAGS)
