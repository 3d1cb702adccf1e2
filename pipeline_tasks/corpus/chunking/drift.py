"""Where the meaning of a text drifts: neighbouring windows are compared by the model's own token embeddings.

Only the input table of the model is used and no layer of it: a lookup and a sum per token. That is some thousand times
faster than encoding every sentence, and windows of 40 to 160 tokens average out what a single word means elsewhere.

Source: windows on both sides of a place as in TextTiling (Hearst 1997); weights of tokens by smooth inverse frequency,
the common direction removed (Arora et al. 2017), with the rank in the vocabulary for the frequency (Zipf).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from pipeline_tasks.core.errors import InputError

WINDOWS = (40, 80, 160)
"""Tokens on each side of a place."""

_DIM = 64
_SMOOTH = 1e-4
_TABLES = ("word_embeddings.weight", "embed_tokens.weight", "wte.weight")
_BLOCK = 1 << 16


@lru_cache(maxsize=1)
def token_table(folder: Path) -> np.ndarray:
    """The weighted token embeddings of the model in ``folder``, on their principal axes.

    Shapes:
        returns [vocabulary, d], float32.

    Raises:
        InputError: the folder has no safetensors file with such a table.
    """
    from safetensors import safe_open

    path = folder / "model.safetensors"
    if not path.is_file():
        raise InputError(f"there is no {path}: choose a tokenizer whose model has it, or mode=structure")
    with safe_open(path, "np") as tensors:
        name = next((key for key in tensors.keys() if key.endswith(_TABLES)), None)  # noqa: SIM118
        if name is None:
            raise InputError(f"{path} has no token embeddings ({', '.join(_TABLES)}): use mode=structure")
        if tensors.get_slice(name).get_dtype() != "BF16":
            return weighted(tensors.get_tensor(name).astype(np.float32))
    from safetensors.torch import load_file  # NumPy has no such numbers

    return weighted(load_file(path)[name].float().numpy())


def weighted(table: np.ndarray) -> np.ndarray:
    """Embeddings without what is common to them, on the axes of most variance, rare tokens counting more.

    Shapes:
        [vocabulary, d] -> [vocabulary, at most 64]
    """
    centred = table - table.mean(0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    ranks = np.arange(1, len(table) + 1)
    frequency = 1 / (ranks * np.log(len(table) + 1))
    return (centred @ axes[:, ::-1][:, :_DIM] * (_SMOOTH / (_SMOOTH + frequency))[:, None]).astype(np.float32)


def cohesion(ids: np.ndarray, ends: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Likeness of what stands before and after the beginning of each unit, in standard deviations from the text's mean.

    Args:
        ids: tokens of the text, [t].
        ends: number of tokens up to the end of each unit, from 0, [u + 1].
        table: see :func:`token_table`.

    Shapes:
        returns [u - 1]: units 1, 2, ...; low where the meaning drifts.
    """
    if len(ends) < 3:
        return np.zeros(max(0, len(ends) - 2))
    sums = _sums(ids, ends, table)
    sums -= np.outer(ends, sums[-1] / max(1, ends[-1]))
    places = np.arange(1, len(ends) - 1)
    likeness = np.zeros(len(places))
    for window in WINDOWS:
        low = np.minimum(np.searchsorted(ends, ends[places] - window), places - 1)
        high = np.maximum(np.searchsorted(ends, ends[places] + window, "right") - 1, places + 1)
        likeness += _cosines(sums[places] - sums[low], sums[high] - sums[places])
    return (likeness - likeness.mean()) / (likeness.std() + 1e-6)


def _sums(ids: np.ndarray, ends: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Sum of the vectors of all tokens up to each end, [u + 1, d]."""
    sums = np.zeros((len(ends), table.shape[1]))
    filled = np.flatnonzero(np.diff(ends))
    starts = ends[:-1][filled]
    for block in np.split(np.arange(len(filled)), np.flatnonzero(np.diff(starts // _BLOCK)) + 1):
        if len(block):
            a, b = starts[block[0]], ends[filled[block[-1]] + 1]
            sums[filled[block] + 1] = np.add.reduceat(table[ids[a:b]], starts[block] - a)
    return np.cumsum(sums, axis=0)


def _cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.einsum("ij,ij->i", left, right) / np.maximum(lengths, 1e-9)
