"""Makes the small models of the CPU engine image: two targets and two drafters, tokenizer included.

Their weights are random from a fixed seed, so a build gives the same bytes everywhere. They say nothing sensible, but
all of the engine's code runs on them: a plain attention target, a hybrid one (Mamba-2, attention and MLP layers), and
drafters of both block methods. Targets only ever say printable ASCII and never stop by themselves: a request runs to
its max_tokens, which makes streams of a known length. Drafters carry no vocabulary of their own; the engine gives them
their target's, so each serves either target.

    python3 make_models.py FOLDER        writes FOLDER/{plain,hybrid,dspark,dflash}
"""

from __future__ import annotations

import json
import math
import random
import struct
import sys
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

SEED = 20_26
END_TOKEN = 256
MASK_TOKEN = 257
VOCABULARY = 258
PRINTABLE = range(32, 127)

HIDDEN = 128
HEADS, KV_HEADS, HEAD = 4, 2, 32
MLP = 256
MAMBA_HEADS, MAMBA_HEAD, MAMBA_STATE, MAMBA_CONV = 8, 32, 32, 4
MAMBA_INNER = MAMBA_HEADS * MAMBA_HEAD
MAMBA_CHANNELS = MAMBA_INNER + 2 * MAMBA_STATE
HYBRID_PATTERN = "M-M*M-"
PLAIN_LAYERS, DRAFT_LAYERS = 4, 2
TARGET_LAYERS = [1, 3]
MARKOV_RANK = 32
CONTEXT = 4096

# How far apart the logits of two printable tokens lie, about: far enough that no other token is ever drawn.
LOGIT_SPREAD = 12.0

Shape = tuple[int, ...]
Tensors = dict[str, tuple[Shape, bytes]]


def bfloat16(value: float) -> int:
    """The bits of a value, cut to bfloat16."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0]) >> 16


def little_endian(bits: array[int]) -> bytes:
    """Bytes of 16-bit words as safetensors wants them."""
    if sys.byteorder == "big":
        bits.byteswap()
    return bits.tobytes()


def uniform(draw: random.Random, shape: Shape, bound: float) -> tuple[Shape, bytes]:
    """Values drawn evenly from 256 steps in [-bound, bound]."""
    steps = [bfloat16(bound * (2 * step / 255 - 1)) for step in range(256)]
    return shape, little_endian(array("H", (steps[byte] for byte in draw.randbytes(math.prod(shape)))))


def constant(shape: Shape, value: float) -> tuple[Shape, bytes]:
    """One value everywhere."""
    return shape, little_endian(array("H", [bfloat16(value)]) * math.prod(shape))


def linear(draw: random.Random, outputs: int, inputs: int) -> tuple[Shape, bytes]:
    """A projection that keeps the size of what it projects, about."""
    return uniform(draw, (outputs, inputs), math.sqrt(3 / inputs))


def printable_head(draw: random.Random) -> tuple[Shape, bytes]:
    """The output projection: rows of tokens that are not printable are zero, so that these are never drawn."""
    row_bytes = 2 * HIDDEN
    shape, rows = uniform(draw, (VOCABULARY, HIDDEN), LOGIT_SPREAD * math.sqrt(3 / HIDDEN))
    kept = [
        rows[token * row_bytes : (token + 1) * row_bytes] if token in PRINTABLE else bytes(row_bytes)
        for token in range(VOCABULARY)
    ]
    return shape, b"".join(kept)


def attention(draw: random.Random, prefix: str, *, norms: bool) -> Tensors:
    """Grouped-query attention; with `norms` also the query and key norms of Qwen3."""
    tensors: Tensors = {
        f"{prefix}.q_proj.weight": linear(draw, HEADS * HEAD, HIDDEN),
        f"{prefix}.k_proj.weight": linear(draw, KV_HEADS * HEAD, HIDDEN),
        f"{prefix}.v_proj.weight": linear(draw, KV_HEADS * HEAD, HIDDEN),
        f"{prefix}.o_proj.weight": linear(draw, HIDDEN, HEADS * HEAD),
    }
    if norms:
        tensors |= {f"{prefix}.{name}_norm.weight": constant((HEAD,), 1.0) for name in "qk"}
    return tensors


def qwen3_layer(draw: random.Random, prefix: str) -> Tensors:
    """One decoder layer of a Qwen3 checkpoint."""
    return {
        **attention(draw, f"{prefix}.self_attn", norms=True),
        f"{prefix}.mlp.gate_proj.weight": linear(draw, MLP, HIDDEN),
        f"{prefix}.mlp.up_proj.weight": linear(draw, MLP, HIDDEN),
        f"{prefix}.mlp.down_proj.weight": linear(draw, HIDDEN, MLP),
        f"{prefix}.input_layernorm.weight": constant((HIDDEN,), 1.0),
        f"{prefix}.post_attention_layernorm.weight": constant((HIDDEN,), 1.0),
    }


def mamba2(draw: random.Random, prefix: str) -> Tensors:
    """One Mamba-2 mixer: input gate and channels, causal convolution, state decay, output."""
    return {
        f"{prefix}.in_proj.weight": linear(draw, MAMBA_INNER + MAMBA_CHANNELS + MAMBA_HEADS, HIDDEN),
        f"{prefix}.conv1d.weight": uniform(draw, (MAMBA_CHANNELS, 1, MAMBA_CONV), math.sqrt(3 / MAMBA_CONV)),
        f"{prefix}.conv1d.bias": constant((MAMBA_CHANNELS,), 0.0),
        f"{prefix}.A_log": constant((MAMBA_HEADS,), 0.0),
        f"{prefix}.D": constant((MAMBA_HEADS,), 1.0),
        f"{prefix}.dt_bias": constant((MAMBA_HEADS,), 0.0),
        f"{prefix}.norm.weight": constant((MAMBA_INNER,), 1.0),
        f"{prefix}.out_proj.weight": linear(draw, HIDDEN, MAMBA_INNER),
    }


def hybrid_mixer(draw: random.Random, kind: str, prefix: str) -> Tensors:
    """The mixer that a letter of the pattern stands for."""
    match kind:
        case "M":
            return mamba2(draw, prefix)
        case "*":
            return attention(draw, prefix, norms=False)
        case "-":
            up, down = linear(draw, MLP, HIDDEN), linear(draw, HIDDEN, MLP)
            return {f"{prefix}.up_proj.weight": up, f"{prefix}.down_proj.weight": down}
    raise ValueError(f"pattern {HYBRID_PATTERN!r}: {kind!r} is no layer kind; allowed are M, * and -")


def plain_tensors(draw: random.Random) -> Tensors:
    tensors: Tensors = {"model.embed_tokens.weight": uniform(draw, (VOCABULARY, HIDDEN), 1.0)}
    for layer in range(PLAIN_LAYERS):
        tensors |= qwen3_layer(draw, f"model.layers.{layer}")
    return {**tensors, "model.norm.weight": constant((HIDDEN,), 1.0), "lm_head.weight": printable_head(draw)}


def hybrid_tensors(draw: random.Random) -> Tensors:
    tensors: Tensors = {"backbone.embeddings.weight": uniform(draw, (VOCABULARY, HIDDEN), 1.0)}
    for layer, kind in enumerate(HYBRID_PATTERN):
        tensors[f"backbone.layers.{layer}.norm.weight"] = constant((HIDDEN,), 1.0)
        tensors |= hybrid_mixer(draw, kind, f"backbone.layers.{layer}.mixer")
    return {**tensors, "backbone.norm_f.weight": constant((HIDDEN,), 1.0), "lm_head.weight": printable_head(draw)}


def drafter_tensors(draw: random.Random) -> Tensors:
    """What DSpark and DFlash drafters share: decoder layers, and the projection of the target's hidden states."""
    tensors: Tensors = {}
    for layer in range(DRAFT_LAYERS):
        tensors |= qwen3_layer(draw, f"layers.{layer}")
    return {
        **tensors,
        "fc.weight": linear(draw, HIDDEN, len(TARGET_LAYERS) * HIDDEN),
        "hidden_norm.weight": constant((HIDDEN,), 1.0),
        "norm.weight": constant((HIDDEN,), 1.0),
    }


def dspark_tensors(draw: random.Random) -> Tensors:
    return {
        **drafter_tensors(draw),
        "markov_head.markov_w1.weight": uniform(draw, (VOCABULARY, MARKOV_RANK), 1.0),
        "markov_head.markov_w2.weight": linear(draw, VOCABULARY, MARKOV_RANK),
    }


def common_config(architecture: str, model_type: str) -> dict[str, Any]:
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "torch_dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": END_TOKEN,
        "eos_token_id": END_TOKEN,
        "pad_token_id": END_TOKEN,
        "tie_word_embeddings": False,
    }


def qwen3_config(architecture: str, layers: int) -> dict[str, Any]:
    return {
        **common_config(architecture, "qwen3"),
        "num_hidden_layers": layers,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "attention_bias": False,
    }


def hybrid_config() -> dict[str, Any]:
    return {
        **common_config("NemotronHForCausalLM", "nemotron_h"),
        "num_hidden_layers": len(HYBRID_PATTERN),
        "hybrid_override_pattern": HYBRID_PATTERN,
        "mlp_hidden_act": "relu2",
        "layer_norm_epsilon": 1e-5,
        "mamba_num_heads": MAMBA_HEADS,
        "mamba_head_dim": MAMBA_HEAD,
        "ssm_state_size": MAMBA_STATE,
        "n_groups": 1,
        "conv_kernel": MAMBA_CONV,
        "chunk_size": 64,
        "use_conv_bias": True,
        "use_bias": False,
        "mlp_bias": False,
        "attention_bias": False,
        "mamba_hidden_act": "silu",
    }


def drafter_config(architecture: str, block: int, **more: object) -> dict[str, Any]:
    return {
        **qwen3_config(architecture, DRAFT_LAYERS),
        "layer_types": ["sliding_attention"] * DRAFT_LAYERS,
        "use_sliding_window": True,
        "sliding_window": 256,
        "max_window_layers": DRAFT_LAYERS,
        "block_size": block,
        "dflash_config": {
            "target_layer_ids": TARGET_LAYERS,
            "mask_token_id": MASK_TOKEN,
            "causal": True,
            "use_aux_hidden_state": True,
        },
        **more,
    }


def dspark_config() -> dict[str, Any]:
    return drafter_config(
        "Qwen3DSparkModel",
        block=3,
        target_layer_ids=TARGET_LAYERS,
        mask_token_id=MASK_TOKEN,
        markov_rank=MARKOV_RANK,
        enable_confidence_head=False,
        sample_from_anchor=True,
    )


def dflash_config() -> dict[str, Any]:
    return drafter_config("DFlashDraftModel", block=4, target_layer_ids=TARGET_LAYERS, mask_token_id=MASK_TOKEN)


def byte_characters() -> list[str]:
    """The character that stands for each byte in byte-level tokenizers: itself if visible, else one from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in visible]
    characters = {byte: chr(byte) for byte in visible} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    return [characters[byte] for byte in range(256)]


def tokenizer() -> dict[str, Any]:
    """A byte-level tokenizer without merges: the token of a byte is its value."""
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": END_TOKEN, "content": "<|end|>", **special},
            {"id": MASK_TOKEN, "content": "<|mask|>", **special},
        ],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {character: byte for byte, character in enumerate(byte_characters())},
            "merges": [],
        },
    }


TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": "<|end|>",
    "pad_token": "<|end|>",
    "model_max_length": CONTEXT,
    "clean_up_tokenization_spaces": False,
    "chat_template": "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}",
}

MODELS: Mapping[str, tuple[Callable[[], dict[str, Any]], Callable[[random.Random], Tensors]]] = {
    "plain": (lambda: qwen3_config("Qwen3ForCausalLM", PLAIN_LAYERS), plain_tensors),
    "hybrid": (hybrid_config, hybrid_tensors),
    "dspark": (dspark_config, dspark_tensors),
    "dflash": (dflash_config, drafter_tensors),
}


def safetensors(tensors: Tensors) -> bytes:
    """A checkpoint of bfloat16 tensors: header length, header, data (the safetensors format)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, data in tensors.values())


def write_model(folder: Path, name: str) -> None:
    """Writes one model; each is drawn from a generator of its own, so a new one changes no other."""
    config, tensors = MODELS[name]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(safetensors(tensors(random.Random(f"{SEED}/{name}"))))
    documents = {
        "config.json": config(),
        "generation_config.json": {"eos_token_id": END_TOKEN, "do_sample": True},
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": TOKENIZER_CONFIG,
    }
    for file, document in documents.items():
        (folder / file).write_text(json.dumps(document, indent=1, ensure_ascii=True) + "\n")


def write_models(folder: Path) -> None:
    for name in MODELS:
        write_model(folder / name, name)


if __name__ == "__main__":
    write_models(Path(sys.argv[1]))
