"""Log-probabilities under a causal language model on this machine: many continuations after one shared beginning.

The beginning, a prompt's examples, is read once and its keys and values are kept. What follows is read in batches of
like length, padded on the left, so that only the logits of the ends are ever computed.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.half_precision import warn_if_slow
from pipeline_tasks.encoders.trunk import load_model, load_tokenizer

if TYPE_CHECKING:
    from torch import Tensor

Precision = Literal["float32", "bfloat16"]
Progress = Callable[[int], object]


class CausalScorer:
    """A causal model that says how likely texts are.

    Args:
        folder: config, tokenizer and weights.
        device: where it runs.
        precision: of weights and products.
        batch_size: texts at once.

    Raises:
        InputError: the model's tokens attend to later ones, as an adapted decoder's do, and so know what is asked.
    """

    def __init__(
        self, folder: Path, device: str = "cpu", precision: Precision = "float32", batch_size: int = 16
    ) -> None:
        warn_if_slow(precision, device, f"precision={precision}", "precision=float32")
        self._tokenizer = load_tokenizer(folder)
        self._model = load_model(folder, dtype=precision, head="next_token").to(device)
        if getattr(self._model.config, "is_causal", True) is False:
            raise InputError(
                f"{folder} says is_causal=false: it reads what follows and has no likelihoods; name a causal model"
            )
        self._device, self._batch_size = device, batch_size
        self._begun: dict[str, tuple[int, Any]] = {}

    def log_likelihoods(
        self, beginning: str, texts: Sequence[str], ends: Sequence[str], progress: Progress | None = None
    ) -> np.ndarray:
        """Log P(end | beginning + text) of each pair, in nats, summed over the end's tokens.

        Shapes: returns [n], float32.

        Raises:
            InputError: an end has no token, or a pair is longer than the model reads.
        """
        of_ends = [self._ids(end) for end in ends]
        if not all(of_ends):
            raise InputError(f"end {ends[of_ends.index(array('i'))]!r} has no token: leave such texts out")
        rows = [self._ids(text) + end for text, end in zip(texts, of_ends, strict=True)]
        found = np.empty(len(rows), np.float32)
        for batch, logits in self._logits(beginning, rows, [len(end) for end in of_ends], progress):
            for row, of_row in zip(batch, logits, strict=True):
                end = of_ends[row]
                found[row] = float(of_row[range(-len(end) - 1, -1), end].sum())
        return found

    def label_log_probs(
        self, beginning: str, texts: Sequence[str], labels: Sequence[str], progress: Progress | None = None
    ) -> np.ndarray:
        """Log P(label | beginning + text) among ``labels``, each of which its first token stands for.

        Shapes: returns [n, labels], float32; a row's probabilities sum to 1.

        Raises:
            InputError: two labels begin with one token, or a text is longer than the model reads.
        """
        first = [next(iter(self._ids(label)), -1) for label in labels]
        if len(set(first)) < len(first):
            raise InputError(
                f"labels {list(labels)} do not differ in their first token: this model cannot tell them apart"
            )
        found = np.empty((len(texts), len(labels)), np.float32)
        for batch, logits in self._logits(beginning, [self._ids(text) for text in texts], [0] * len(texts), progress):
            for row, of_row in zip(batch, logits, strict=True):
                found[row] = of_row[-1, first].log_softmax(dim=-1).cpu().numpy()
        return found

    def _ids(self, text: str) -> array[int]:
        """A text's tokens, four bytes each where a list has forty: all texts of a part wait for their batches so."""
        return array("i", self._tokenizer.encode(text, add_special_tokens=False))

    def _logits(
        self, beginning: str, rows: list[array[int]], n_last: list[int], progress: Progress | None
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Of batches of rows: their numbers, and the log-probabilities of what follows their last tokens.

        Shapes: [b, n + 1, vocabulary], where n is the largest ``n_last`` of the batch.
        """
        if not rows:
            return
        n_begun, cache = self._beginning(beginning)
        longest, most = max(map(len, rows)) + n_begun, getattr(self._model.config, "max_position_embeddings", None)
        if most and longest > most:
            raise InputError(
                f"a text of {longest} tokens with its prompt, and the model reads {most}: cut passages shorter"
            )
        order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
        for at in range(0, len(order), self._batch_size):
            batch = order[at : at + self._batch_size]
            some, n = [rows[row] for row in batch], max(n_last[row] for row in batch)
            yield batch, self._after(cache, n_begun, some, n)
            if progress:
                progress(len(batch))

    def _beginning(self, text: str) -> tuple[int, Any]:
        """Tokens of a beginning, and its keys and values, read once."""
        import torch

        if text not in self._begun:
            ids = self._tokenizer.encode(text)
            with torch.inference_mode():
                read = self._model(torch.tensor([ids], device=self._device), use_cache=True, logits_to_keep=1)
            self._begun[text] = len(ids), read.past_key_values
        return self._begun[text]

    def _after(self, cache: Any, n_begun: int, rows: list[array[int]], n_last: int) -> Tensor:
        import torch

        width = max(map(len, rows))
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        mask = torch.zeros((len(rows), n_begun + width), dtype=torch.long)
        mask[:, :n_begun] = 1
        places = torch.zeros((len(rows), width), dtype=torch.long)
        for row, own in enumerate(rows):
            ids[row, width - len(own) :] = torch.tensor(own)
            mask[row, n_begun + width - len(own) :] = 1
            places[row, width - len(own) :] = torch.arange(n_begun, n_begun + len(own))
        own_cache = deepcopy(cache)  # what is read after it would stay in it
        own_cache.batch_repeat_interleave(len(rows))
        with torch.inference_mode():
            logits = self._model(
                ids.to(self._device),
                attention_mask=mask.to(self._device),
                position_ids=places.to(self._device),
                past_key_values=own_cache,
                use_cache=True,
                logits_to_keep=n_last + 1,
            ).logits
            return logits.float().log_softmax(dim=-1)
