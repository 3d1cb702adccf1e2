"""From the weights as a package carries them to the folder a model is loaded from.

The int8 ONNX graph of a BERT cross-encoder is de-quantised into the float32 trunk under its classifier. The trunk has
seen ranking pairs but has no embedding ability, which makes it an honest untrained backbone where the published one
cannot be reached. What a hub has as a pickle alone becomes safetensors once, since nothing here loads pickles.
"""

import json
import pickle
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


CONVERTERS: dict[str, Callable[[Path], Any]] = {"bert_trunk_from_onnx": bert_trunk_from_onnx}
