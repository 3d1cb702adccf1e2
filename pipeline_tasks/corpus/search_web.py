"""Search the web: what a provider answers to every planned search, asked once and kept."""

from __future__ import annotations

from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pyarrow as pa

from pipeline_tasks.core.erasure.listed import REASON, erased_ids
from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import step
from pipeline_tasks.core.wire import clean
from pipeline_tasks.corpus.search.configured import SearchWebParams, configured
from pipeline_tasks.corpus.search.provider import LONGEST_DETAIL, LONGEST_URL, Busy, Hit, Provider, Refused
from pipeline_tasks.corpus.urls import canonical_url
from pipeline_tasks.datasets import SEARCH_RESULTS, SEARCHES

FAILURES_IN_A_ROW = 5


@step(reads={"searches": SEARCHES}, writes=SEARCH_RESULTS, kind="map", version="2", secrets=("search",))
def search_web(rows: pa.Table, params: SearchWebParams, run: Run) -> Iterator[pa.Table]:
    """Ask the provider every search of a part, once ever; each of its results is a row or a reject.

    PDFs are asked for by the provider's own means, never guessed from an address. A search without an answer is a
    reject: ``refused``, ``bad_answer``, ``http_503``, ``unreachable``, ``engines_unresponsive``; so is a result that is
    no web address, ``bad_url``, or was erased, ``erased``. A repeated address counts in ``results_repeated``.

    Raises:
        InputError: the provider is not set up, or refuses its key.
        TransientError: a budget is spent, or the provider is away; every answer so far is kept.
    """
    asked, erased = rows.to_pylist(), erased_ids(run.store)
    with (
        configured(params, run.store) as (provider, asker),
        ThreadPoolExecutor(params.concurrency) as pool,
        run.progress(len(asked), "searches") as meter,
    ):
        answers = pool.map(lambda row: _ask(provider, row["query"], params.max_results), asked)
        failures = 0
        try:
            for row, (found, failure) in zip(asked, answers, strict=True):
                meter.advance()
                if failure:
                    failures = 0 if _is_there(failure, found) else failures + 1
                    _give_up_where_away(provider, failure, failures, len(asked))
                    run.reject(row["search_id"], failure.reason, clean(f"{row['query']}: {failure.detail}", 2000))
                else:
                    failures = 0
                yield SEARCH_RESULTS.table(list(_rows(row, found, params.provider, erased, run)))
        except TransientError as ended:
            asker.stop(ended)
            pool.shutdown(cancel_futures=True)
            raise TransientError(f"{ended}; {_left(provider, params, run)}; every answer so far is kept") from ended
        for name, n in asker.counts.items():
            run.count(name, n)


def _ask(provider: Provider, query: str, most: int) -> tuple[list[Hit], Refused | Busy | None]:
    """What was found, and why there is not more where a page had no answer."""
    found: list[Hit] = []
    try:
        for hit in islice(provider.search(query), most):
            found.append(hit)
    except (Refused, Busy) as failure:
        return found, failure
    return found, None


def _rows(
    search: dict[str, Any], found: list[Hit], provider: str, erased: Container[str], run: Run
) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    for rank, hit in enumerate(found, 1):
        url = _address(hit.url)
        if url is None:
            run.reject(search["search_id"], "bad_url", f"rank {rank}: {clean(hit.url, LONGEST_DETAIL)}")
        elif short_id(url) in erased:
            run.reject(search["search_id"], REASON, f"rank {rank}")
        elif url in seen:
            run.count("results_repeated")
        else:
            seen.add(url)
            yield {
                "result_id": short_id(search["search_id"], provider, short_id(url)),
                "search_id": search["search_id"],
                "provider": provider,
                "rank": rank,
                "url_id": short_id(url),
                "url": url,
                "title": hit.title,
                "response_id": hit.response_id,
            }


def _address(url: str) -> str | None:
    """The canonical http(s) address; None for anything else, and for one that no honest page has."""
    if len(url) > LONGEST_URL or not url.isprintable():
        return None
    found = canonical_url(url)
    return found if found and found.startswith("http") else None


def _is_there(failure: Refused | Busy, found: list[Hit]) -> bool:
    """Whether the provider answers: it refuses the query, or has engines that fell silent after they had found some."""
    return failure.reason == "refused" or bool(found and failure.reason == "engines_unresponsive")


def _give_up_where_away(provider: Provider, failure: Refused | Busy, failures: int, asked: int) -> None:
    """One search without an answer is a reject; many in a row, or no answer at all, are a provider that is away."""
    if failures < (min(FAILURES_IN_A_ROW, asked) if isinstance(failure, Busy) else FAILURES_IN_A_ROW):
        return
    raise TransientError(
        f"{provider.name} gave no answer to {failures} searches in a row, to the last for {failure.reason} "
        f"({failure.detail}); see that it is up, and run the step again"
    )


def _left(provider: Provider, params: SearchWebParams, run: Run) -> str:
    """How many searches of the whole version have no stored answer, and the first of them."""
    parts = run.inputs["searches"].parts(["query"])
    queries = [row["query"] for part in parts for row in part.to_pylist()]
    left = []
    for query in queries:
        try:
            if _ask(provider, query, params.max_results)[1]:
                left.append(query)
        except TransientError:
            left.append(query)
    return f"{len(left):,} of {len(queries):,} searches are left, first {left[0]!r}" if left else "no search is left"
