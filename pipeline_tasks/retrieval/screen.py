"""The screen of exact search: products in low precision, and how far each can be from the exact score."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.half_precision import has_products

if TYPE_CHECKING:
    from pipeline_tasks.retrieval.scan_kernels import ScreenedQueries

Kind = Literal["float32", "bfloat16"]
SHIFT = {"float32": 0, "bfloat16": 16}
_LONGEST = np.float32(1e15)
_SINGLE = 2.0**-23
# Of so few queries numpy multiplies faster the other way round.
_FEW = 64
# So many multiplications take numpy a tenth of the time that it takes to import torch.
_WORTH_TORCH = 2**33


def faster_screen(n_multiplied: int) -> Kind:
    """The precision in which so many multiplications cost least here; search gives the same rows with both.

    In float32 numpy multiplies. In bfloat16 torch does, on processors with instructions for it; where it is not loaded
    yet, loading it takes as long as much searching.
    """
    if "torch" not in sys.modules and n_multiplied < _WORTH_TORCH:
        return "float32"
    return "bfloat16" if has_products("bfloat16") else "float32"


class Screened:
    """Vectors in the precision of the screen, and how far rounding moved them.

    Attributes:
        vectors: [n, d], float32.
        rounded: [n, d], the same, or the bits of bfloat16.
        lengths, moved: [n], float32, upper bounds of the norms of the vectors and of what rounding took away.
    """

    def __init__(self, vectors: np.ndarray, kind: Kind, what: str, room: np.ndarray | None = None) -> None:
        """Nothing is rounded or measured before :meth:`fill`; ``room``, [at least n, d], takes the rounded vectors."""
        self.vectors, self._what = frozen(vectors), what
        self.rounded = self.vectors
        if kind == "bfloat16":
            self.rounded = (np.empty(vectors.shape, np.int16) if room is None else room)[: len(vectors)]
        self.lengths, self.moved = np.zeros((2, len(vectors)), np.float32)

    def fill(self, part: slice) -> None:
        """Round and measure some of the vectors.

        Raises:
            InputError: one is not finite or too long.
        """
        from pipeline_tasks.retrieval.screen_kernels import measured, rounded

        vectors, lengths, moved = self.vectors[part], self.lengths[part], self.moved[part]
        if self.rounded is self.vectors:
            top = measured(vectors, vectors.view(np.int32), lengths)
        else:
            top = rounded(vectors, vectors.view(np.int32), lengths, self.rounded[part], moved)
        if top >= _LONGEST.view(np.int32):
            raise InputError(f"{self._what}: a vector holds NaN, infinity or a number above {_LONGEST:g}: encode again")
        above = np.float32(1 + (vectors.shape[1] + 4) * _SINGLE)
        lengths *= above
        moved *= above

    def as_queries(self, part: slice, longest: np.float32, farthest: np.float32) -> ScreenedQueries:
        """Some of the vectors as queries among passages at most so long, which rounding moved at most so far.

        Source: |qp - q'p'| <= |q - q'||p| + |q'||p - p'|, and d * 2^-23 |q'||p'| for adding up in float32.
        """
        from pipeline_tasks.retrieval.scan_kernels import ScreenedQueries

        vectors, norms, moved = self.vectors[part], self.lengths[part], self.moved[part]
        lengths, width = norms + moved, vectors.shape[1]
        adding = np.float32(width * _SINGLE) * lengths * (longest + farthest)
        slack = (moved * longest + lengths * farthest + adding).astype(np.float32)
        return ScreenedQueries(vectors, slack, width * 2.0**-51 * norms.astype(np.float64) * longest)


def frozen(array: np.ndarray) -> np.ndarray:
    """The same numbers side by side and read-only, so that compiled loops see one type; copied where they must be."""
    seen = np.ascontiguousarray(array).view()
    seen.flags.writeable = False
    return seen


def slack(queries: np.ndarray, passages: np.ndarray) -> np.ndarray:
    """How far an inner product computed in float32, in whatever order, can be from the exact one.

    Shapes:
        queries [q, d], passages [n, d]; returns [q], float32.
    """
    longest = np.sqrt(np.einsum("nd,nd->n", passages, passages).max(initial=0))
    return np.float32(1.001 * queries.shape[1] * _SINGLE) * np.linalg.norm(queries, axis=1) * longest


def room_for(kind: Kind, *shape: int) -> np.ndarray:
    """Room for screened scores."""
    return np.empty(shape, np.int32 if kind == "float32" else np.int16)


def product(asked: np.ndarray, given: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Screened scores of rounded vectors as bits, in the beginning of ``room``, which is flat.

    Shapes:
        asked [q, d], given [n, d]; returns [q, n].
    """
    bits = room[: len(asked) * len(given)].reshape(len(asked), len(given))
    if asked.dtype == np.float32:
        if len(asked) <= _FEW:
            bits[:] = (given @ asked.T).T.view(np.int32)
        else:
            np.matmul(asked, given.T, out=bits.view(np.float32))
        return bits
    import torch

    a, b, out = (torch.from_numpy(part).view(torch.bfloat16) for part in (asked, given, bits))
    torch.mm(a, b.T, out=out)
    return bits
