"""An encoder that asks an OpenAI-compatible embeddings endpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pipeline_tasks.core.endpoint import FREE, Endpoint, Terms, price_at
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import Settings, settings
from pipeline_tasks.core.spending import Limit, limits
from pipeline_tasks.core.store import Store
from pipeline_tasks.encoders.layout import Layout, layout_of_spec
from pipeline_tasks.models.registry import ModelSpec, get
from pipeline_tasks.models.use import is_served
from pipeline_tasks.retrieval.embeddings_endpoint import EmbeddingsEndpoint, groups
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.encoders import Precision, instructions_of, open_encoder

ACCOUNT = "embeddings"


class ServedEncoder(Encoder):
    """Vectors of an endpoint, as many requests at a time as its terms allow; prefixes are put before the texts here."""

    def __init__(self, name: str, layout: Layout, embeddings: EmbeddingsEndpoint) -> None:
        super().__init__(name, embeddings.dim, layout)
        self._embeddings = embeddings
        self.costs = embeddings.endpoint.counts

    def _vectors(
        self, texts: Sequence[str], prefixes: Sequence[str], done: Callable[[Sequence[int]], None]
    ) -> np.ndarray:
        vectors = np.empty((len(texts), self.dim), np.float32)
        asked = list(groups(texts))
        endpoint = self._embeddings.endpoint
        with ThreadPoolExecutor(endpoint.terms.concurrency, thread_name_prefix="embeddings") as pool:
            waiting = [pool.submit(self._embeddings.answer, [texts[row] for row in group]) for group in asked]
            try:
                for group, future in zip(asked, waiting, strict=True):
                    answer = future.result()
                    vectors[group] = answer.vectors
                    self.responses.update(answer.response_ids)
                    done(group)
            except BaseException:
                endpoint.pace.stop()
                raise
            finally:
                for future in waiting:
                    future.cancel()
        endpoint.flush()
        return vectors


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
    return ServedEncoder(spec.name, layout_of_spec(spec, None, instructions_of(spec)), embeddings)


def month_of(found: Settings) -> tuple[Limit, ...]:
    """What a month of embeddings may cost."""
    return limits(
        "month",
        usd=("FOUNDRY_EMBEDDINGS_USD_PER_MONTH", found.embeddings_usd_per_month),
        tokens=("FOUNDRY_EMBEDDINGS_TOKENS_PER_MONTH", found.embeddings_tokens_per_month),
    )
