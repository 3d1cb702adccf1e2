"""From the weights as a package carries them to the folder a model is loaded from.

The int8 ONNX graph of a BERT cross-encoder is de-quantised into the float32 trunk under its classifier. The trunk has
seen ranking pairs but has no embedding ability, which makes it an honest untrained backbone where the published one
cannot be reached. The 4-bit GGUF of a Llama is de-quantised into a causal language model with its tokenizer. What a hub
has as a pickle alone becomes safetensors once, since nothing here loads pickles.
"""

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pipeline_tasks.core.errors import InputError

PICKLE = "pytorch_model.bin"
_EMBEDDINGS = "bert.embeddings."
_QUANTISED_NODE_ENDS = ("/MatMul_quant", "/Gemm_MatMul_quant", "/Gemm/MatMul_quant")
_BERT_CONFIG: dict[str, Any] = {
    "architectures": ["BertModel"],
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 384,
    "initializer_range": 0.02,
    "intermediate_size": 1536,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 0,
    "torch_dtype": "float32",
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
_BLOCK = re.compile(r"blk\.(\d+)\.(\w+)\.weight")
_LLAMA_WEIGHTS = {
    "token_embd.weight": "model.embed_tokens",
    "output_norm.weight": "model.norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL = 3  # the type of a token that text is never read as


def bert_trunk_from_onnx(folder: Path) -> None:
    """Replace the folder's ``model.onnx`` by a ``BertModel`` (weights and config), with the same bytes every time.

    Raises:
        InputError: the graph is not a MiniLM-L12 BERT cross-encoder quantised by ONNX Runtime.
    """
    from safetensors.numpy import save_file

    source = folder / "model.onnx"
    weights = dequantised_weights(source)
    trunk = {name.removeprefix("bert."): value for name, value in weights.items() if name.startswith("bert.")}
    wanted = 5 + 16 * _BERT_CONFIG["num_hidden_layers"] + 2
    if len(trunk) != wanted:
        raise InputError(
            f"{source} holds {len(trunk)} BERT tensors, not {wanted}: take the package version of the registry"
        )
    save_file(dict(sorted(trunk.items())), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(_BERT_CONFIG, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    source.unlink()


def dequantised_weights(source: Path) -> dict[str, np.ndarray]:
    """Every parameter of a dynamically quantised BERT graph as float32, by PyTorch name, in PyTorch's layout.

    A quantised matrix ``q`` with scale ``s`` and zero point ``z`` stands for ``(q - z) * s``; ONNX keeps it
    as [in, out], PyTorch as [out, in]. Matrices of products have lost their names: the name of the node that
    multiplies by them says which layer they are.
    """
    import onnx

    graph = onnx.load(source).graph
    raw = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}

    def real(base: str) -> np.ndarray:
        zero = raw[f"{base}_zero_point"].astype(np.float32)
        return (raw[f"{base}_quantized"].astype(np.float32) - zero) * raw[f"{base}_scale"]

    weights = {name: value for name, value in raw.items() if value.dtype == np.float32 and not name.endswith("_scale")}
    for name in raw:
        if name.startswith(_EMBEDDINGS) and name.endswith("_quantized"):
            weights[name.removesuffix("_quantized")] = real(name.removesuffix("_quantized"))
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            weights[_parameter_of(node.name)] = np.ascontiguousarray(real(node.input[1].removesuffix("_quantized")).T)
    return weights


def _parameter_of(node_name: str) -> str:
    """``/bert/encoder/layer.0/output/dense/MatMul_quant`` -> ``bert.encoder.layer.0.output.dense.weight``."""
    for end in _QUANTISED_NODE_ENDS:
        if node_name.endswith(end):
            return node_name.removesuffix(end).strip("/").replace("/", ".") + ".weight"
    raise InputError(f"unknown quantised product {node_name!r}: take the package version of the registry")


def llama_from_gguf(folder: Path) -> None:
    """Replace the folder's GGUF file by a ``LlamaForCausalLM`` and its tokenizer, with the same bytes every time.

    Raises:
        InputError: it is no Llama with a tied head and SmolLM's tokenizer.
    """
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from safetensors.numpy import save_file

    (source,) = folder.glob("*.gguf")
    reader = GGUFReader(source)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    kind = tuple(facts.get(name) for name in ("general.architecture", "tokenizer.ggml.model", "tokenizer.ggml.pre"))
    names = [tensor.name for tensor in reader.tensors]
    if kind != ("llama", "gpt2", "smollm") or "output.weight" in names:
        raise InputError(
            f"{source} is {kind}, not a Llama with SmolLM's tokenizer and a tied head: take the package version of the "
            "registry"
        )
    config = _llama_config(facts)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        block = _BLOCK.fullmatch(tensor.name)
        if block and block[2] in heads:
            values = _halves_of_rotation(values, heads[block[2]])
        name = f"model.layers.{block[1]}.{_LLAMA_WEIGHTS[block[2]]}" if block else _LLAMA_WEIGHTS[tensor.name]
        weights[f"{name}.weight"] = np.ascontiguousarray(values, dtype=np.float32)
    save_file(dict(sorted(weights.items())), folder / "model.safetensors", metadata={"format": "pt"})
    for name, content in ({"config.json": config} | _smollm_tokenizer(facts)).items():
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    del reader  # it maps the file
    source.unlink()


def _llama_config(facts: dict[str, Any]) -> dict[str, Any]:
    """What transformers' configuration of a Llama is, of what a GGUF file says."""
    special = {f"{end}_token_id": facts[f"tokenizer.ggml.{end}_token_id"] for end in ("bos", "eos")}
    return special | {
        "architectures": ["LlamaForCausalLM"],
        "dtype": "float32",
        "hidden_size": facts["llama.embedding_length"],
        "intermediate_size": facts["llama.feed_forward_length"],
        "max_position_embeddings": facts["llama.context_length"],
        "model_type": "llama",
        "num_attention_heads": facts["llama.attention.head_count"],
        "num_hidden_layers": facts["llama.block_count"],
        "num_key_value_heads": facts["llama.attention.head_count_kv"],
        "pad_token_id": facts["tokenizer.ggml.padding_token_id"],
        "rms_norm_eps": round(facts["llama.attention.layer_norm_rms_epsilon"], 9),  # it was rounded to float32
        "rope_theta": facts["llama.rope.freq_base"],
        "tie_word_embeddings": True,
        "vocab_size": facts["llama.vocab_size"],
    }


def _halves_of_rotation(matrix: np.ndarray, n_heads: int) -> np.ndarray:
    """Rows in transformers' order: GGUF has the two that rotate together side by side, transformers half a head apart.

    Shapes:
        [q, h] both.
    """
    pairs = matrix.reshape(n_heads, -1, 2, matrix.shape[1])
    return pairs.swapaxes(1, 2).reshape(matrix.shape)


def _smollm_tokenizer(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """``tokenizer.json`` and ``tokenizer_config.json``: byte-level BPE, in which every digit is a token of its own."""
    tokens, kinds = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [
        {"id": number, "content": tokens[number], **plain} for number, kind in enumerate(kinds) if kind == _CONTROL
    ]
    to_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    model = {
        "type": "BPE",
        "vocab": {token: number for number, token in enumerate(tokens)},
        "merges": [merge.split(" ") for merge in facts["tokenizer.ggml.merges"]],
    }
    whole = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, to_bytes],
        },
        "decoder": to_bytes,
        "model": model,
    }
    names = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    special = {f"{name}_token": tokens[facts[f"tokenizer.ggml.{key}_token_id"]] for name, key in names.items()}
    how = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": facts["llama.context_length"]}
    return {"tokenizer.json": whole, "tokenizer_config.json": special | how}


def safetensors_from_pickle(folder: Path) -> None:
    """Replace ``pytorch_model.bin`` by safetensors of the same weights; the pickle runs no code of its own.

    Raises:
        InputError: it is damaged, or holds anything but dense tensors by name.
    """
    import torch
    from safetensors.torch import save_file

    source = folder / PICKLE
    remedy = "take a revision or a folder with safetensors"
    try:
        weights = torch.load(source, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        cause = str(error).split("\n")[0]
        raise InputError(f"{PICKLE} is damaged, or holds code, which is never run ({cause}): {remedy}") from error
    named = isinstance(weights, dict) and all(
        isinstance(name, str)
        and isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and not (value.is_quantized or value.is_meta)
        for name, value in weights.items()
    )
    if not named:
        raise InputError(f"{PICKLE} holds something else than dense tensors by name: {remedy}")
    # Safetensors takes neither tied weights, which share memory, nor transposed views.
    whole = {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in weights.items()}
    save_file(whole, folder / "model.safetensors", {"format": "pt"})
    source.unlink()


CONVERTERS: dict[str, Callable[[Path], Any]] = {
    "bert_trunk_from_onnx": bert_trunk_from_onnx,
    "llama_from_gguf": llama_from_gguf,
}
