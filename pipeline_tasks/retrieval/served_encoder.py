"""An encoder that asks an OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint import FREE, Endpoint, Terms, price_at
from pipeline_tasks.core.paid.spending import Limit, limits
from pipeline_tasks.core.paid.text_index import Place, TextIndex, text_index
from pipeline_tasks.core.settings import Settings, settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.encoders.layout import Layout, layout_of_spec
from pipeline_tasks.models.registry import ModelSpec, get
from pipeline_tasks.models.use import is_served
from pipeline_tasks.retrieval.embeddings_endpoint import EmbeddingsEndpoint, groups
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.open_encoder import Precision, instructions_of, open_encoder

ACCOUNT = "embeddings"
Done = Callable[[Sequence[int]], None]


class ServedEncoder(Encoder):
    """Vectors of an endpoint, as many requests at a time as its terms allow; prefixes are put before the texts here."""

    def __init__(self, name: str, layout: Layout, embeddings: EmbeddingsEndpoint, index: TextIndex) -> None:
        super().__init__(name, embeddings.dim, layout)
        self._embeddings, self._index = embeddings, index
        self.costs = embeddings.endpoint.counts

    def _vectors(self, texts: Sequence[str], prefixes: Sequence[str], done: Done) -> np.ndarray:
        vectors = np.empty((len(texts), self.dim), np.float32)
        endpoint = self._embeddings.endpoint
        with ThreadPoolExecutor(endpoint.terms.concurrency, thread_name_prefix="embeddings") as pool:
            wanted = list(range(len(texts)))
            if len(texts) > 1:  # one alone is its own group
                wanted = self._fill_from_index(pool, texts, vectors, done)
            self._request_vectors(pool, texts, wanted, vectors, done)
        endpoint.flush()
        return vectors

    def _fill_from_index(self, pool: Executor, texts: Sequence[str], vectors: np.ndarray, done: Done) -> list[int]:
        """Fill in what the index leads to; the rows that are left."""
        left = np.ones(len(texts), bool)
        places = self._index.find(texts)
        for place, found in zip(places, pool.map(self._stored_vectors, places), strict=True):
            fresh = left[place.texts]
            if found is None or not fresh.any():
                continue
            rows = place.texts[fresh]
            vectors[rows], left[rows] = found[fresh], False
            self.responses.add(place.answer_id)
            self._embeddings.endpoint.count("vectors_reused", len(rows))
            done(rows.tolist())
        return np.flatnonzero(left).tolist()

    def _stored_vectors(self, place: Place) -> np.ndarray | None:
        answer = self._embeddings.stored_answer(place.answer_id, place.n_rows)
        return None if answer is None else answer.vectors[place.rows]

    def _request_vectors(
        self, pool: Executor, texts: Sequence[str], wanted: Sequence[int], vectors: np.ndarray, done: Done
    ) -> None:
        """Fill in the rows that are ``wanted``, asked for in groups, and note where they lie."""
        asked = [[wanted[place] for place in group] for group in groups([texts[row] for row in wanted])]
        waiting = [pool.submit(self._embeddings.answers, [texts[row] for row in group]) for group in asked]
        noted: dict[str, list[str]] = {}
        try:
            for group, future in zip(asked, waiting, strict=True):
                start = 0
                for answer in future.result():
                    rows = group[start : start + len(answer.vectors)]
                    vectors[rows] = answer.vectors
                    noted[answer.id] = [texts[row] for row in rows]
                    start += len(rows)
                self.responses.update(noted)
                done(group)
        except BaseException:
            self._embeddings.endpoint.pace.stop()
            raise
        finally:
            for future in waiting:
                future.cancel()
            if len(texts) > 1:
                self._index.add(noted)


def open_or_ask(name: str, precision: Precision, store: Store, terms: Terms | None = None) -> Encoder:
    """The registered encoder of that name: run here, or asked of the endpoint where the settings say that it is served.

    Args:
        name: a model of the registry.
        precision: of its arithmetic, where it is run here.
        store: keeps the vectors bought from an endpoint.
        terms: on which an endpoint is asked.

    Raises:
        InputError: it can be neither run here nor asked.
    """
    spec = get(name)
    return _served(spec, store, terms or Terms()) if is_served(spec) else open_encoder(name, precision)


def _served(spec: ModelSpec, store: Store, terms: Terms) -> ServedEncoder:
    """The encoder of ``spec`` at the endpoint of the settings; without one of its own, that of the LLM.

    Raises:
        InputError: no endpoint is configured, or its price is not known.
    """
    found = settings()
    own = bool(found.embeddings_base_url)
    url, key, setting = (
        (found.embeddings_base_url, found.embeddings_api_key, "FOUNDRY_EMBEDDINGS_BASE_URL")
        if own
        else (found.openai_base_url, found.openai_api_key, "OPENAI_BASE_URL")
    )
    if not url:
        raise InputError("no embeddings endpoint is configured; set FOUNDRY_EMBEDDINGS_BASE_URL")
    price = price_at(url, {"FOUNDRY_EMBEDDINGS_PRICE": found.embeddings_price})
    endpoint = Endpoint(
        url,
        key.get_secret_value(),
        spec.endpoint_name,
        terms=terms,
        price=price,
        ledger=terms.ledger(store, ACCOUNT, *month_of(found), paid=price != FREE),
        url_setting=setting,
        key_setting="FOUNDRY_EMBEDDINGS_API_KEY" if own else "OPENAI_API_KEY",
    )
    embeddings = EmbeddingsEndpoint(endpoint, spec.endpoint_name, spec.dim, store)
    index = text_index(store, spec.endpoint_name)
    return ServedEncoder(spec.name, layout_of_spec(spec, None, instructions_of(spec)), embeddings, index)


def month_of(found: Settings) -> tuple[Limit, ...]:
    """What a month of embeddings may cost."""
    return limits(
        "month",
        usd=("FOUNDRY_EMBEDDINGS_USD_PER_MONTH", found.embeddings_usd_per_month),
        tokens=("FOUNDRY_EMBEDDINGS_TOKENS_PER_MONTH", found.embeddings_tokens_per_month),
    )
