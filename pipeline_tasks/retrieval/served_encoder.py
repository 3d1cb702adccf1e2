"""An encoder that asks an OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.encoders.layout import Layout, layout_of_spec
from pipeline_tasks.models.registry import ModelSpec
from pipeline_tasks.retrieval.embeddings_endpoint import EmbeddingsEndpoint, groups
from pipeline_tasks.retrieval.encoder import Encoder


class ServedEncoder(Encoder):
    """Vectors of an endpoint, ``concurrency`` requests at a time; prefixes are put before the texts here."""

    def __init__(self, name: str, layout: Layout, endpoint: EmbeddingsEndpoint, concurrency: int = 1) -> None:
        super().__init__(name, endpoint.dim, layout)
        self._endpoint, self._concurrency = endpoint, concurrency

    def _vectors(
        self, texts: Sequence[str], prefixes: Sequence[str], done: Callable[[Sequence[int]], None]
    ) -> np.ndarray:
        vectors = np.empty((len(texts), self.dim), np.float32)
        asked = list(groups(texts))
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="embeddings") as pool:
            waiting = [pool.submit(self._endpoint.answer, [texts[row] for row in group]) for group in asked]
            try:
                for group, future in zip(asked, waiting, strict=True):
                    answer = future.result()
                    vectors[group] = answer.vectors
                    self.responses.add(answer.response_id)
                    done(group)
                    self.costs["vectors_reused" if answer.reused else "vectors_bought"] += len(group)
                    self.costs["embedding_requests"] += int(not answer.reused)
                    self.costs["prompt_tokens"] += answer.prompt_tokens
                    self.costs["cost_usd"] += answer.cost_usd  # type: ignore[assignment]
            finally:
                for future in waiting:
                    future.cancel()
        return vectors


def served_encoder(spec: ModelSpec, instructions: dict[str, str], store: Store, concurrency: int) -> ServedEncoder:
    """The encoder of ``spec`` at the endpoint of the settings; without one of its own, that of the LLM.

    Raises:
        InputError: no endpoint is configured.
    """
    found = settings()
    own = bool(found.embeddings_base_url)
    key = found.embeddings_api_key if own else found.openai_api_key
    endpoint = EmbeddingsEndpoint(
        found.embeddings_base_url if own else found.openai_base_url,
        key.get_secret_value(),
        spec.endpoint_name,
        spec.dim,
        store,
        price=found.embeddings_price,
    )
    return ServedEncoder(spec.name, layout_of_spec(spec, None, instructions), endpoint, concurrency)
