"""Vectors from an OpenAI-compatible ``/embeddings`` endpoint, bought once in whichever selection of texts.

Texts are asked for in groups that their own digests decide, so that a killed run comes upon the same groups again. An
answer is stored before it is used, under the sha256 of model and texts: ``<id>.f32`` holds the vectors and
``<id>.json`` what they cost. Only answers that were on their way when the process was killed can be lost. From other
texts beside them the index of :mod:`pipeline_tasks.core.paid.text_index` leads to them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import canonical_json, digest
from pipeline_tasks.core.paid.endpoint import Bought, Endpoint, NoAnswer, Refused, Tokens
from pipeline_tasks.core.paid.endpoint.usage import tokens_of
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.vectors import directed
from pipeline_tasks.core.wire import clean

MAX_TEXTS = 256
MAX_CHARACTERS = 200_000
SPECIAL_TOKENS = 8
"""Tokens that a model may put around a text."""
_OF_SERVER = 4096
"""Tokens of a prompt that a server may put before each text; beyond that it says what cannot be."""
_ABOUT = 64
_SHOWN = 80


@dataclass(frozen=True)
class Answer:
    """Vectors of texts, [n, d] float32, and the id that they are stored under."""

    id: str
    vectors: np.ndarray


class EmbeddingsEndpoint:
    """A client of one model at one endpoint; safe to share between threads.

    Args:
        endpoint: where it is asked, and on which terms.
        model: the endpoint's name for the model.
        dim: width of its vectors.
        store: where vectors are kept.
    """

    def __init__(self, endpoint: Endpoint, model: str, dim: int, store: Store) -> None:
        self.endpoint, self.model, self.dim, self._store = endpoint, model, dim, store

    def answers(self, texts: Sequence[str]) -> list[Answer]:
        """The vectors of a group of texts: from the store where it was bought before, else from the endpoint.

        Servers differ in how much they take at once: what one refuses is asked for by halves, down to a single text. So
        the answers may be several; their vectors are together those of ``texts``, in order.

        Raises:
            TransientError: the endpoint stayed busy, broken or unreachable through all attempts.
            InputError: it refuses the key, the model or a text, or its vectors are of another width or not finite.
        """
        answer_id = digest({"api": "embeddings", "model": self.model, "texts": list(texts)})
        if kept := self.stored_answer(answer_id, len(texts)):
            self.endpoint.count("vectors_reused", len(texts))
            return [kept]
        try:
            vectors = self._buy(texts, answer_id, partial(self._keep, answer_id))
        except Refused as refused:
            if len(texts) == 1:
                raise InputError(
                    f"{self.endpoint.host} refused to embed {clean(texts[0], _SHOWN)!r} with {self.model!r} "
                    f"({refused.detail}): check the model and the length of the text"
                ) from None
            middle = len(texts) // 2
            return [*self.answers(texts[:middle]), *self.answers(texts[middle:])]
        self.endpoint.count("vectors_bought", len(texts))
        self.endpoint.count("embedding_requests")
        return [Answer(answer_id, vectors)]

    def stored_answer(self, answer_id: str, n_texts: int) -> Answer | None:
        """The stored answer of that id, where it is there and whole; what is broken is forgotten.

        Raises:
            InputError: its vectors are of another width: they were paid for, and stay.
        """
        stem = _stem(answer_id)
        facts = self._store.read(f"{stem}.json")
        kept = None if facts is None else self._store.read(f"{stem}.f32")
        if facts is None or kept is None:
            return None
        if len(kept) == 4 * n_texts * self.dim:
            vectors = np.frombuffer(kept, "<f4").reshape(-1, self.dim)
            if directed(vectors).all():
                return Answer(answer_id, vectors)
        elif (width := _width(facts, len(kept), n_texts)) not in (0, self.dim):
            raise InputError(
                f"the vectors of {self.model!r} that were bought have {width} numbers, and the registry says "
                f"{self.dim}: mend its dim, or give the other model a name of its own (served_as)"
            )
        self._store.delete_all([f"{stem}.json", f"{stem}.f32"])
        return None

    def _keep(self, answer_id: str, bought: Bought[np.ndarray]) -> np.ndarray:
        usage = {"prompt_tokens": bought.tokens.prompt, "completion_tokens": 0}
        request, response = {"model": self.model, "dim": self.dim}, {"usage": usage}
        record = {"api": "embeddings", "request": request, "response": response, "cost_usd": bought.usd}
        stem = _stem(answer_id)
        files = {f"{stem}.f32": bought.kept.astype("<f4").tobytes(), f"{stem}.json": canonical_json(record)}
        for _ in range(2):  # another buyer, or one that was killed, may have been first; broken vectors of it go
            for key, content in files.items():
                self._store.create(key, content)
            if stored := self.stored_answer(answer_id, len(bought.kept)):
                return stored.vectors
        return bought.kept

    def _buy(
        self, texts: Sequence[str], answer_id: str, keep: Callable[[Bought[np.ndarray]], np.ndarray]
    ) -> np.ndarray:
        body = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        at_most = Tokens(sum(len(text.encode()) + SPECIAL_TOKENS for text in texts))
        read = partial(self._read, n_texts=len(texts), at_most=at_most.prompt + _OF_SERVER * len(texts))
        try:
            return self.endpoint.post("/embeddings", body, read, at_most=at_most, name=answer_id, keep=keep)
        except NoAnswer as failed:
            raise TransientError(f"{self.endpoint.host} {failed.detail}; try again") from None

    def _read(self, payload: Any, n_texts: int, at_most: int) -> tuple[np.ndarray, Tokens | None]:
        rows = sorted((int(row.get("index", place)), row["embedding"]) for place, row in enumerate(payload["data"]))
        vectors = np.array([vector for _, vector in rows], np.float32)
        in_order = [place for place, _ in rows] == list(range(n_texts))
        tokens = tokens_of(payload.get("usage"))
        if not in_order or vectors.shape != (n_texts, self.dim) or not directed(vectors).all():
            raise InputError(
                f"{self.endpoint.host} sent vectors of shape {vectors.shape} for {n_texts} texts with {self.model!r}, "
                f"or some with NaN or of length 0; {n_texts} of width {self.dim} were expected: mend dim in the "
                "registry, or the endpoint"
            )
        return vectors, tokens if 0 < sum(tokens) <= at_most else None


def _stem(answer_id: str) -> str:
    return f"responses/{answer_id[:2]}/{answer_id}"


def _width(record: bytes, n_bytes: int, n_texts: int) -> int:
    """How many numbers a vector of an answer has, by its record; where that does not say, as older ones, by its file.

    It is 0 where the file holds no vectors of one width.
    """
    try:
        return int(json.loads(record)["request"]["dim"])
    except (ValueError, TypeError, KeyError):
        width, rest = divmod(n_bytes, 4 * n_texts)
        return 0 if rest else width


def groups(texts: Sequence[str]) -> Iterator[list[int]]:
    """Positions of ``texts`` (distinct) in groups that hardly change when a text comes or goes."""
    digests = [sha256(text.encode()).digest() for text in texts]
    group: list[int] = []
    size = 0
    for row in sorted(range(len(texts)), key=digests.__getitem__):
        if group and size + len(texts[row]) > MAX_CHARACTERS:
            yield group
            group, size = [], 0
        group.append(row)
        size += len(texts[row])
        if digests[row][-1] % _ABOUT == 0 or len(group) == MAX_TEXTS:
            yield group
            group, size = [], 0
    if group:
        yield group
