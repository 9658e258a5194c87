"""The models of the CPU engine image: the same bytes from every build, and checkpoints an engine can read."""

import hashlib
import json
import math
import struct
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tokenizers import Tokenizer


def digests(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.fixture(scope="module")
def models(make_models: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_models.write_models(folder)
    return folder


def tensors(folder: Path) -> dict[str, Any]:
    data = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    return {name: {**entry, "size": len(data) - 8 - length} for name, entry in header.items()}


def test_two_builds_give_the_same_bytes(make_models: ModuleType, models: Path, tmp_path: Path) -> None:
    make_models.write_models(tmp_path)
    assert digests(tmp_path) == digests(models)


def test_one_model_does_not_depend_on_the_others(make_models: ModuleType, models: Path, tmp_path: Path) -> None:
    make_models.write_model(tmp_path / "dflash", "dflash")
    assert digests(tmp_path / "dflash") == digests(models / "dflash")


def test_there_are_two_targets_and_two_drafters(models: Path) -> None:
    architectures = {
        folder.name: json.loads((folder / "config.json").read_text())["architectures"] for folder in models.iterdir()
    }
    assert architectures == {
        "plain": ["Qwen3ForCausalLM"],
        "hybrid": ["NemotronHForCausalLM"],
        "dspark": ["Qwen3DSparkModel"],
        "dflash": ["DFlashDraftModel"],
    }


@pytest.mark.parametrize("name", ["plain", "hybrid", "dspark", "dflash"])
def test_tensors_fill_their_file_without_gap_or_overlap(models: Path, name: str) -> None:
    end = 0
    for tensor, entry in tensors(models / name).items():
        first, last = entry["data_offsets"]
        assert first == end, tensor
        assert last - first == 2 * math.prod(entry["shape"]), tensor
        end = last
    assert end == entry["size"]


@pytest.mark.parametrize("name", ["plain", "hybrid"])
def test_a_target_gives_only_printable_tokens_a_chance(models: Path, make_models: ModuleType, name: str) -> None:
    data = (models / name / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    first, last = tensors(models / name)["lm_head.weight"]["data_offsets"]
    rows = data[8 + length + first : 8 + length + last]
    width = 2 * make_models.HIDDEN
    alive = {token for token in range(make_models.VOCABULARY) if any(rows[token * width : (token + 1) * width])}
    assert alive == set(range(32, 127))


@pytest.mark.parametrize("name", ["dspark", "dflash"])
def test_a_drafter_reads_layers_that_both_targets_have(models: Path, name: str) -> None:
    drafter = json.loads((models / name / "config.json").read_text())
    for target in ("plain", "hybrid"):
        config = json.loads((models / target / "config.json").read_text())
        assert max(drafter["dflash_config"]["target_layer_ids"]) < config["num_hidden_layers"]
        assert drafter["hidden_size"] == config["hidden_size"]
        assert drafter["vocab_size"] == config["vocab_size"]


@pytest.mark.parametrize("text", ["Hello, world!", "line\nbreak\ttab", "Grüße, 世界 🙂", ""])
def test_the_tokenizer_gives_bytes_and_takes_them_back(models: Path, text: str) -> None:
    tokenizer = Tokenizer.from_file(str(models / "plain" / "tokenizer.json"))
    tokens = tokenizer.encode(text).ids
    assert tokens == list(text.encode())
    assert tokenizer.decode(tokens) == text


def test_special_tokens_come_after_the_bytes(models: Path, make_models: ModuleType) -> None:
    tokenizer = Tokenizer.from_file(str(models / "hybrid" / "tokenizer.json"))
    assert tokenizer.token_to_id("<|end|>") == make_models.END_TOKEN
    assert tokenizer.token_to_id("<|mask|>") == make_models.MASK_TOKEN
    assert tokenizer.get_vocab_size() == make_models.VOCABULARY
