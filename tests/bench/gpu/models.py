"""Pure: a small hybrid target and its drafters.

The target is a Mamba-2 hybrid of 22 layers; each drafter attends over a window, with sinks, as those that are served.
The weights are the engine's own dummies: it draws them from a fixed seed, so every arm has the same.
"""

import json
from pathlib import Path
from typing import Any

from bench.gpu import arms

TARGET = "target"
WINDOW = 1024
LAYERS = "M-M-M*-M-M-M*-M-M-M*-M"
"""The target's: M a Mamba-2 layer, * attention, - an MLP."""

ANCHORS = [1, 5, 9]
"""Target layers whose hidden states the drafter reads."""

_COMMON = {
    "vocab_size": arms.MASK + 1,
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "max_position_embeddings": 65_536,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def target() -> dict[str, Any]:
    """Configuration of the target."""
    return _COMMON | {
        "architectures": ["NemotronHForCausalLM"],
        "model_type": "nemotron_h",
        "hybrid_override_pattern": LAYERS,
        "num_hidden_layers": len(LAYERS),
        "intermediate_size": 8192,
        "mlp_hidden_act": "relu2",
        "attention_head_dim": 128,
        "layer_norm_epsilon": 1e-5,
        "mamba_num_heads": 64,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "use_conv_bias": True,
        "expand": 2,
        "chunk_size": 128,
        "residual_in_fp32": False,
    }


def drafter(method: str) -> dict[str, Any]:
    """Configuration of the drafter: four layers that read the target's hidden states.  KeyError for no such method."""
    return _COMMON | _DRAFTER | _OF_METHOD[method]


_ATTENTION = {
    "target_layer_ids": ANCHORS,
    "mask_token_id": arms.MASK,
    "causal": True,
    "attention_sink_bias": True,
    "use_aux_hidden_state": True,
}

_DRAFTER = {
    "model_type": "qwen3",
    "num_hidden_layers": 4,
    "num_target_layers": len(LAYERS),
    "target_layer_ids": ANCHORS,
    "mask_token_id": arms.MASK,
    "intermediate_size": 6144,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "attention_bias": False,
    "layer_types": ["sliding_attention"] * 4,
    "sliding_window": WINDOW,
    "use_sliding_window": True,
}

_OF_METHOD: dict[str, dict[str, Any]] = {
    "dspark": {
        "architectures": ["Qwen3DSparkModel"],
        "block_size": 3,
        "markov_rank": 32,
        "enable_confidence_head": False,
        "sample_from_anchor": True,
        "dflash_config": _ATTENTION,
    },
    "dflash": {
        "architectures": ["DFlashDraftModel"],
        "block_size": 4,
        "sample_from_anchor": False,
        "dflash_config": _ATTENTION | {"use_swa": True, "swa_window_size": WINDOW},
    },
}


def write(folder: Path, method: str) -> None:
    """The target and the method's drafter, each in a folder by its name."""
    for name, config in ((TARGET, target()), (method, drafter(method))):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(config, indent=1) + "\n")
