"""Texts to unit vectors, whatever runs the model: PyTorch, ONNX Runtime or an endpoint.

What holds for every encoder:

- Equal texts get equal vectors, and the order of the texts does not matter: each distinct text is encoded once.
- A vector is finite, of length 1 and of the width that the registry states, or the call fails and gives none.
- Blank texts are refused: their vector would say nothing but the prefix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout

Progress = Callable[[int], object]
_SHOWN = 60


class Encoder(ABC):
    """A model that turns texts into unit vectors.

    ``costs`` counts what calls so far have cost: requests, tokens, dollars; ``responses`` names the answers that the
    vectors are of, whenever they were paid for. Only an endpoint has them.
    """

    def __init__(self, name: str, dim: int, layout: Layout) -> None:
        self.name, self.dim, self.layout = name, dim, layout
        self.costs: Counter[str] = Counter()
        self.responses: set[str] = set()

    def encode_queries(
        self,
        texts: Sequence[str],
        intents: Sequence[str] | None = None,
        instructions: Sequence[str | None] | None = None,
        *,
        progress: Progress | None = None,
    ) -> np.ndarray:
        """Encode queries, each after its own instruction, else that of its intent, else the model's. See ``encode``."""
        of_each = intents if intents is not None else [None] * len(texts)
        if len(of_each) != len(texts):
            raise InputError(
                f"{len(texts)} queries with {len(of_each)} intents: give one intent per query, or none at all"
            )
        own = instructions if instructions is not None else [None] * len(texts)
        before = [self.layout.query_prefix(*asked) for asked in zip(of_each, own, strict=True)]
        return self.encode(texts, before, progress=progress)

    def encode_passages(self, texts: Sequence[str], *, progress: Progress | None = None) -> np.ndarray:
        """Encode passages, each after the model's passage prefix. See ``encode``."""
        return self.encode(texts, [self.layout.passage_prefix()] * len(texts), progress=progress)

    def encode(
        self, texts: Sequence[str], prefixes: Sequence[str] | None = None, *, progress: Progress | None = None
    ) -> np.ndarray:
        """Encode texts, each after its prefix; ``progress`` is told how many more are done.

        Shapes:
            returns [n, d], float32, rows of length 1, in the order of ``texts``.

        Raises:
            InputError: a text is blank, or the model gives a vector with NaN, of length 0 or of another width.
        """
        _refuse_blank(texts)
        prefixes = prefixes or [""] * len(texts)
        texts = [prefix + text for prefix, text in zip(prefixes, texts, strict=True)]
        prefix_of = dict(zip(texts, prefixes, strict=True))
        distinct = sorted(prefix_of)
        copies = Counter(texts)

        def done(rows: Sequence[int]) -> None:
            if progress is not None:
                progress(sum(copies[distinct[row]] for row in rows))

        vectors = self._checked(distinct, self._vectors(distinct, [prefix_of[text] for text in distinct], done))
        row_of = {text: row for row, text in enumerate(distinct)}
        return vectors[[row_of[text] for text in texts]]

    @abstractmethod
    def _vectors(
        self, texts: Sequence[str], prefixes: Sequence[str], done: Callable[[Sequence[int]], None]
    ) -> np.ndarray:
        """One vector per text (distinct, sorted, beginning with its prefix); ``done`` is told the finished rows.

        The array is the caller's from then on, who may write to it.

        Shapes:
            returns [n, d], of any length.
        """

    def _checked(self, texts: Sequence[str], vectors: np.ndarray) -> np.ndarray:
        if vectors.shape != (len(texts), self.dim):
            raise InputError(
                f"{self.name} gave vectors of shape {vectors.shape} for {len(texts)} texts of width {self.dim}: "
                "mend dim in the registry, or ask for the right model"
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        wrong = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
        if len(wrong):
            raise InputError(
                f"{self.name} gave {len(wrong)} vectors with NaN or of length 0, the first for "
                f"{texts[wrong[0]][:_SHOWN]!r}: check its weights, or use float32"
            )
        own = vectors.flags.owndata and vectors.dtype == np.float32
        return np.divide(vectors, lengths, out=vectors if own else None).astype(np.float32, copy=False)


def _refuse_blank(texts: Sequence[str]) -> None:
    blank = next((row for row, text in enumerate(texts) if not text.strip()), None)
    if blank is not None:
        raise InputError(f"text {blank + 1} of {len(texts)} is blank: leave blank texts out")
