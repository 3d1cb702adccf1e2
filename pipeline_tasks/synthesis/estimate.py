"""What writing pairs would cost, told before anything is bought: requests, tokens, dollars, hours.

Requests are those of the steps themselves, run without asking anybody (:mod:`~pipeline_tasks.synthesis.llm.wanted`):
what has an answer is free. What the others take is measured on these answers, where the model has given enough to the
same prompts (passages that ``sample_rate`` draws are drawn at every larger one); else it is a rule of thumb.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipeline_tasks.core.execution import memo
from pipeline_tasks.core.paid.endpoint import Tokens
from pipeline_tasks.core.parameters import usual
from pipeline_tasks.core.parts import read_part
from pipeline_tasks.core.plan import Job, plan
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.datasets import NEEDS
from pipeline_tasks.domains import domain_told
from pipeline_tasks.models.prices import listed
from pipeline_tasks.synthesis.llm.endpoint import LlmParams, llm_price
from pipeline_tasks.synthesis.llm.open_batches import on_their_way
from pipeline_tasks.synthesis.llm.wanted import NOT_BOUGHT, QuoteRun, Wanted
from pipeline_tasks.synthesis.write_needs import write_needs
from pipeline_tasks.synthesis.write_pairs import WritePairsParams, write_pairs

BYTES_PER_TOKEN = 4
"""Of English, the usual rule of thumb."""
SHARE_OF_LONGEST = 0.5
"""What an answer is taken to have of the tokens that it may have, where the model has given none."""
ENOUGH = 20
"""So many answers say what others will take."""
_NEED = "what somebody who is looking for this passage would want to know about it, in some ten or fifteen words"
"""Stands for a need that is not written yet."""


@dataclass(frozen=True)
class Bill:
    """What one step would take.

    Attributes:
        step: its name.
        rows: passages, or needs, that it has not worked on yet.
        n_requests: requests that would be bought.
        n_stored: requests whose answer is there.
        n_open: requests on their way in batches, whose cost is counted there.
        tokens: of the requests that would be bought.
        usd: what these cost; None where no endpoint is configured and nobody says what it takes.
        n_measured: answers that the tokens are measured on; 0: they are a rule of thumb.
        concurrency: requests at once.
        most_usd: what the run may spend, or None.
    """

    step: str
    rows: int
    n_requests: int
    n_stored: int
    n_open: int
    tokens: Tokens
    usd: float | None
    n_measured: int
    concurrency: int
    most_usd: float | None

    def hours(self, answer_s: float) -> float:
        """How long it takes where an answer takes ``answer_s`` seconds."""
        return self.n_requests * answer_s / self.concurrency / 3600

    def lines(self) -> list[str]:
        """The bill in words."""
        dollars = "?" if self.usd is None else f"{self.usd:,.2f}"
        return [
            f"{self.n_requests:,} requests, {self.n_stored:,} more are answered; {self.tokens.prompt:,} tokens of "
            f"prompts and {self.tokens.completion:,} of answers, {dollars} dollars",
            *self.notes(),
        ]

    def notes(self) -> list[str]:
        """What a reader of the figures has to know."""
        found = []
        if self.n_open:
            found.append(f"{self.n_open:,} more requests of {self.step} are on their way in batches, and counted there")
        if self.n_requests and not self.n_measured:
            found.append(
                f"tokens are a rule of thumb ({BYTES_PER_TOKEN} bytes each, answers half as long as they may be), for "
                f"fewer than {ENOUGH} answers of this model are stored; a run with a small sample_rate measures them, "
                "and its answers cost nothing in a larger one"
            )
        if self.n_requests and self.step in (write_needs.name, write_pairs.name):
            found.append(f"the prompts are those of the {domain_told()}")
        if self.usd is None:
            found.append(
                "no endpoint is configured: set OPENAI_BASE_URL, or FOUNDRY_LLM_PRICE_IN and FOUNDRY_LLM_PRICE_OUT, to "
                "know the dollars"
            )
        elif self.most_usd is not None and self.usd > self.most_usd:
            found.append(f"{self.step} would stop at max_run_usd={self.most_usd:g}: raise it, or ask about fewer")
        return found


def estimate(
    store: Store, values: dict[str, Any], given: dict[str, list[str]], of_pairs: dict[str, Any] | None = None
) -> list[Bill]:
    """The bills of ``write_needs`` and of ``write_pairs`` after it.

    Args:
        store: where passages and answers are.
        values: parameters of ``write_needs``.
        given: inputs of ``write_needs``.
        of_pairs: parameters of ``write_pairs``; None: those of ``values`` that it has.

    Raises:
        InputError: a parameter or an input is wrong, or the model's price at the endpoint is not known.
    """
    job = plan(store, write_needs, values, given)
    inputs, none = Inputs(job.open(store)), Inputs({})
    passages = inputs["passages"]
    records = memo.lookup_all(store, job, passages, range(len(passages.manifest.parts)))
    alike = {n: v for n, v in values.items() if n in WritePairsParams.model_fields}
    chosen = alike if of_pairs is None else of_pairs
    then = Job(write_pairs, write_pairs.parse(usual(write_pairs) | chosen), {})
    asked, written, expected = list[Wanted](), list[Wanted](), list[Wanted]()
    rows = n_needs = n_unwritten = 0
    ahead = on_their_way(store)
    for part in (passages.part(index) for index, record in records.items() if record is None):
        asking = QuoteRun.of(store, job, inputs, on_their_way=ahead)
        found = job.step.body(part, job.params, asking)
        unwritten = _needs_of(part, asking)
        rows, n_needs, n_unwritten = rows + len(part), n_needs + len(found), n_unwritten + len(unwritten)
        asked += asking.wanted
        written += _wanted(store, then, none, found, ahead)
        expected += _wanted(store, then, none, unwritten, ahead)
    n_answered = sum(one.took is not None for one in asked)
    share = min(1.0, n_needs / n_answered) if n_answered >= ENOUGH else 1.0
    for record in filter(None, records.values()):
        needs = read_part(store, record.output)
        n_needs += len(needs)
        written += _wanted(store, then, none, needs, ahead)
    n_pairs = n_needs + round(share * n_unwritten)
    return [_bill(job, rows, asked), _bill(then, n_pairs, written, expected, share)]


def _wanted(store: Store, job: Job, inputs: Inputs, rows: pa.Table, ahead: Mapping[str, str]) -> list[Wanted]:
    """What the step would ask about a part; ``ahead`` is what batches bring."""
    quote = QuoteRun.of(store, job, inputs, on_their_way=ahead)
    job.step.body(rows, job.params, quote)
    return quote.wanted


def of_step(store: Store, job: Job) -> Bill:
    """The bill of one step that asks an LLM, over the inputs of ``job``."""
    inputs, ahead = Inputs(job.open(store)), on_their_way(store)
    source, wanted, rows = inputs.each(next(iter(job.step.reads)))[0], list[Wanted](), 0
    for part in (source.part(index) for index in memo.missing(store, job)):
        rows += len(part)
        wanted += _wanted(store, job, inputs, part, ahead)
    return _bill(job, rows, wanted)


def _needs_of(passages: pa.Table, asking: QuoteRun) -> pa.Table:
    """Rows for the needs that ``asking`` would buy; takes its rejects."""
    known = {row["passage_id"]: row for row in passages.to_pylist()}
    refused = [row for row in asking.rejects_table().to_pylist() if row["reason"] == f"llm_{NOT_BOUGHT}"]
    return NEEDS.table(
        [
            {
                "need_id": f"{row['row_id']}-{row['detail'].partition(':')[0]}",
                "passage_id": row["row_id"],
                "doc_id": "",
                "intent": row["detail"].partition(":")[0],
                "need": _NEED,
                "passage": known[row["row_id"]]["text"],
                "split": known[row["row_id"]]["split"],
                "response_id": "",
            }
            for row in refused
            if row["row_id"] in known
        ]
    )


def _bill(job: Job, rows: int, wanted: list[Wanted], expected: Iterable[Wanted] = (), share: float = 1.0) -> Bill:
    """The bill of requests that are known, and of a share of others that are expected."""
    params = job.params
    if not isinstance(params, LlmParams):
        raise TypeError(f"{job.step.name} asks no LLM")
    stored = [(one, one.took) for one in wanted if one.took is not None]
    measure = _Measure.of([(one, took) for one, took in stored if sum(took)])  # some endpoints do not say
    sure, likely = [one for one in wanted if one.took is None and not one.is_open], list(expected)
    tokens = [sum(map(measure.prompt, ones)) for ones in (sure, likely)]
    answers = [sum(map(measure.completion, ones)) for ones in (sure, likely)]
    total = Tokens(round(tokens[0] + share * tokens[1]), round(answers[0] + share * answers[1]))
    return Bill(
        step=job.step.name,
        rows=rows,
        n_requests=len(sure) + round(share * len(likely)),
        n_stored=len(stored),
        n_open=sum(one.is_open for one in wanted),
        tokens=total,
        usd=_usd(params.llm, total),
        n_measured=measure.n,
        concurrency=params.concurrency,
        most_usd=params.max_run_usd,
    )


def _usd(model: str, tokens: Tokens) -> float | None:
    """Dollars for so many tokens; None without an endpoint, where neither the settings nor a list has a price.

    Raises:
        InputError: the price at the endpoint is not known, or half of it is.
    """
    found = settings()
    is_told = found.llm_price_in is not None or found.llm_price_out is not None
    if found.openai_base_url or is_told or listed(model):
        return llm_price(found, model).of(tokens)
    return None if any(tokens) else 0.0


@dataclass(frozen=True)
class _Measure:
    """What requests take: by their bytes, and by the longest answer that they allow, which tells intents apart."""

    n: int
    tokens_per_byte: float
    mean: float
    means: dict[int, float]

    @classmethod
    def of(cls, stored: list[tuple[Wanted, Tokens]]) -> _Measure:
        """What is measured on enough stored answers, else rules of thumb."""
        if len(stored) < ENOUGH:
            return cls(0, 1 / BYTES_PER_TOKEN, 0.0, {})
        by_longest: dict[int, list[int]] = {}
        for one, took in stored:
            by_longest.setdefault(one.longest, []).append(took.completion)
        per_byte = sum(took.prompt for _, took in stored) / sum(one.size_bytes for one, _ in stored)
        means = {longest: sum(taken) / len(taken) for longest, taken in by_longest.items() if len(taken) >= ENOUGH}
        return cls(len(stored), per_byte, sum(took.completion for _, took in stored) / len(stored), means)

    def prompt(self, one: Wanted) -> float:
        """Tokens of its prompt."""
        return one.size_bytes * self.tokens_per_byte

    def completion(self, one: Wanted) -> float:
        """Tokens of its answer."""
        return self.means.get(one.longest, self.mean if self.n else SHARE_OF_LONGEST * one.longest)
