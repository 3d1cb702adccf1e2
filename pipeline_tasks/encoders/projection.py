"""Linear maps of a pooled vector: the Dense modules of a sentence-transformers folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline_tasks.core.errors import InputError

_WEIGHTS, _BIAS = "linear.weight", "linear.bias"
_IDENTITY, _TANH = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh"
_FILE = "model.safetensors"


@dataclass(frozen=True, eq=False)
class Dense:
    """``weights @ vector + bias``, and perhaps the tanh of that.

    Shapes:
        weights: [outputs, inputs] float32; bias: [outputs] float32, or None.
    """

    weights: np.ndarray
    bias: np.ndarray | None = None
    tanh: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dense) or self.tanh != other.tanh or (self.bias is None) != (other.bias is None):
            return False
        same_bias = self.bias is None or other.bias is None or np.array_equal(self.bias, other.bias)
        return same_bias and np.array_equal(self.weights, other.weights)

    __hash__ = None  # type: ignore[assignment]

    def then(self, matrix: np.ndarray) -> Dense:
        """This map, followed by ``matrix`` [outputs, its outputs], as one; not of a tanh."""
        bias = None if self.bias is None else (matrix @ self.bias).astype(np.float32)
        return Dense((matrix @ self.weights).astype(np.float32), bias)


def project(vectors: np.ndarray, layers: Sequence[Dense]) -> np.ndarray:
    """What the layers make of vectors, one after the other.

    Shapes:
        vectors: [n, d] float32; returns [n, the last layer's outputs] float32.
    """
    for layer in layers:
        vectors = vectors @ layer.weights.T
        vectors = vectors if layer.bias is None else vectors + layer.bias
        vectors = np.tanh(vectors) if layer.tanh else vectors
    return vectors


def turned(layers: Sequence[Dense], matrix: np.ndarray) -> tuple[Dense, ...]:
    """The layers followed by ``matrix`` [outputs, width], in as few as that takes."""
    if layers and not layers[-1].tanh:
        return (*layers[:-1], layers[-1].then(matrix))
    return (*layers, Dense(np.ascontiguousarray(matrix, np.float32)))


def read_dense(folder: Path) -> Dense:
    """The Dense module in ``folder``; nothing is unpickled.

    Raises:
        InputError: its files are missing or of another shape than they say, or it does what is not supported.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = folder / _FILE
    if not path.is_file():
        raise InputError(f"there is no {path}: save the model with sentence-transformers 3 or later, without pickles")
    try:
        config, found = json.loads((folder / "config.json").read_text("utf-8")), load_file(path)
        weights = found[_WEIGHTS].float().numpy()
        bias = found[_BIAS].float().numpy() if config.get("bias", True) else None
        shape = (int(config["out_features"]), int(config["in_features"]))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise InputError(f"{folder} is no Dense module ({error!r}): save it again") from error
    activation = config.get("activation_function") or _IDENTITY
    if activation not in (_IDENTITY, _TANH) or config.get("use_residual"):
        what = "a residual" if config.get("use_residual") else f"the activation {activation}"
        raise InputError(f"{folder} has a Dense module with {what}: only Identity and Tanh work, without a residual")
    if weights.shape != shape or (bias is not None and bias.shape != shape[:1]):
        raise InputError(f"{path} has weights of shape {weights.shape}, its config says {shape}: get the whole model")
    return Dense(weights, bias, activation == _TANH)


def save_dense(layer: Dense, folder: Path) -> None:
    """Write a layer as :func:`read_dense` and sentence-transformers read it; the same bytes every time."""
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    outputs, inputs = layer.weights.shape
    config = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": layer.bias is not None,
        "activation_function": _TANH if layer.tanh else _IDENTITY,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    tensors = {_WEIGHTS: layer.weights} | ({} if layer.bias is None else {_BIAS: layer.bias})
    save_file({name: np.ascontiguousarray(of) for name, of in tensors.items()}, folder / _FILE)
