"""Models that read a query and a passage together and say by one number how well the passage answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import positions
from pipeline_tasks.models.use import load_tokenizer
from pipeline_tasks.retrieval.batches import batches_by_length
from pipeline_tasks.retrieval.onnx_session import open_session

if TYPE_CHECKING:
    from tokenizers import Encoding

_BATCH_TOKENS = 4_096
_ONE_PAIR = 1
_PAIRS_AT_ONCE = 4_096  # a tokenised pair of 300 tokens takes 50 KiB
_SHOWN = 80


def finite(scores: np.ndarray, queries: Sequence[str], model: str) -> np.ndarray:
    """The scores that ``model`` gave the passages of queries, all of them numbers: NaN would be sorted in silence.

    Shapes:
        scores, queries: [n]; returns [n].

    Raises:
        InputError: a score is not finite.
    """
    wrong = np.flatnonzero(~np.isfinite(scores))
    if len(wrong):
        raise InputError(
            f"{model} gave {len(wrong)} scores that are no numbers, the first for "
            f"{queries[wrong[0]][:_SHOWN]!r}: check its weights"
        )
    return scores


class CrossEncoder(ABC):
    """One score for each pair of texts, larger where the second answers the first; of any scale (logits)."""

    batch_tokens: ClassVar[int]

    def __init__(self, folder: Path, max_length: int) -> None:
        self._tokenizer = load_tokenizer(folder)
        self._tokenizer.enable_truncation(max_length)

    def scores(
        self, queries: Sequence[str], passages: Sequence[str], progress: Callable[[int], object] = lambda _: None
    ) -> np.ndarray:
        """Scores of the pairs in order; the longer text of a pair loses what is over the model's length.

        Shapes:
            queries, passages: [n]; returns [n], float32.

        Raises:
            InputError: a score is not finite.
        """
        texts = list(zip(queries, passages, strict=True))
        found = np.empty(len(texts), np.float32)
        for start in range(0, len(texts), _PAIRS_AT_ONCE):
            pairs = self._tokenizer.encode_batch(texts[start : start + _PAIRS_AT_ONCE])
            for batch in batches_by_length([len(pair.ids) for pair in pairs], self.batch_tokens):
                found[start + np.array(batch)] = self._scored([pairs[place] for place in batch])
                progress(len(batch))
            del pairs  # else they are there while the next slice is tokenised
        return finite(found, queries, "the reranker")

    @abstractmethod
    def _scored(self, pairs: Sequence[Encoding]) -> np.ndarray:
        """Shapes: returns [b]."""


class OnnxCrossEncoder(CrossEncoder):
    """A graph that ONNX Runtime runs on the processor, one pair at a time.

    Dynamic quantisation scales by the extremes of a whole batch, so that neighbours would turn a score.
    """

    batch_tokens = _ONE_PAIR

    def __init__(self, folder: Path, max_length: int, threads: int) -> None:
        super().__init__(folder, max_length)
        self._session = open_session(folder / "model.onnx", threads)
        self._inputs = {given.name for given in self._session.get_inputs()}
        _check_one_score(folder, self._session.get_outputs()[0].shape[-1])
        some = {"input_ids": 2, "attention_mask": 1, "token_type_ids": 0}  # 2: no model's padding
        try:
            self._session.run(None, {name: np.full((1, max_length), some[name], np.int64) for name in self._inputs})
        except Exception as error:  # the runtime raises bare ones
            raise InputError(
                f"max_length={max_length} is more than {folder} reads, or it cannot be run: lower it ({error})"
            ) from error

    def _scored(self, pairs: Sequence[Encoding]) -> np.ndarray:
        feeds = {name: array for name, array in _padded(pairs, 0).items() if name in self._inputs}
        return self._session.run(None, feeds)[0].reshape(-1)


class TorchCrossEncoder(CrossEncoder):
    """A transformers model for sequence classification with one label, on one device, in float32."""

    batch_tokens = _BATCH_TOKENS

    def __init__(self, folder: Path, max_length: int, device: str = "cpu") -> None:
        from pipeline_tasks.encoders.trunk import load_model

        super().__init__(folder, max_length)
        self._model: Any = load_model(folder, head="score").to(device)
        config = self._model.config
        _check_one_score(folder, config.num_labels)
        if max_length > (most := positions(config.to_dict()) or max_length):
            raise InputError(f"max_length={max_length}, and {folder} reads {most} tokens: set it to that")
        self._device, self._pad_id = device, config.pad_token_id or 0
        self._has_types = getattr(config, "type_vocab_size", 0) > 1

    def _scored(self, pairs: Sequence[Encoding]) -> np.ndarray:
        import torch

        from pipeline_tasks.encoders.trunk import on_device

        feeds = _padded(pairs, self._pad_id)
        if not self._has_types:
            del feeds["token_type_ids"]
        with torch.inference_mode():
            return self._model(**on_device(feeds, self._device)).logits[:, 0].float().cpu().numpy()


def load_cross_encoder(folder: Path, max_length: int, threads: int, device: str = "cpu") -> CrossEncoder:
    """The model of a folder: PyTorch runs its safetensors, ONNX Runtime a graph that is alone.

    Raises:
        InputError: its files are damaged or of no kind that is supported, or it gives more than one score.
    """
    if (folder / "model.onnx").is_file() and not (folder / "config.json").is_file():
        return OnnxCrossEncoder(folder, max_length, threads)
    return TorchCrossEncoder(folder, max_length, device)


def _padded(pairs: Sequence[Encoding], pad_id: int) -> dict[str, np.ndarray]:
    """What models read of pairs, padded on the right. Shapes: [b, s] each, int64."""
    shape = len(pairs), max(len(pair.ids) for pair in pairs)
    feeds = {name: np.zeros(shape, np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    feeds["input_ids"][:] = pad_id
    for row, pair in enumerate(pairs):
        own = slice(len(pair.ids))
        feeds["input_ids"][row, own] = pair.ids
        feeds["attention_mask"][row, own] = 1
        feeds["token_type_ids"][row, own] = pair.type_ids
    return feeds


def _check_one_score(folder: Path, n_scores: object) -> None:
    if n_scores != 1:
        raise InputError(f"{folder} gives {n_scores} scores for a pair: name a reranker, which gives one")
