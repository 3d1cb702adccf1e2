"""Hours and dollars of a step before it runs: from its own earlier runs, from the bill of an LLM, from GPU arithmetic.

Where none of these knows, a figure is None and a note says why: nothing here is a guess that nobody measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.rates import Rate, Rates
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.step import Step, StepParams
from pipeline_tasks.core.store import Store

if TYPE_CHECKING:
    from pipeline_tasks.synthesis.estimate import Bill


@dataclass(frozen=True)
class Figure:
    """A number; None where nobody knows it.

    Attributes:
        value: the number.
        sure: it was counted; else it is extrapolated.
    """

    value: float | None
    sure: bool = True

    def times(self, factor: float | None) -> Figure:
        """In proportion, and so no longer counted."""
        return Figure(None if self.value is None or factor is None else self.value * factor, sure=False)

    def plus(self, other: Figure) -> Figure:
        """The sum of two; None where one is."""
        known = self.value is not None and other.value is not None
        return Figure((self.value or 0) + (other.value or 0) if known else None, self.sure and other.sure)

    def text(self, form: str = ",.0f") -> str:
        """``12``, ``~12`` or ``?``."""
        return "?" if self.value is None else f"{'' if self.sure or not self.value else '~'}{self.value:{form}}"


NOTHING, UNKNOWN = Figure(0), Figure(None)


@dataclass(frozen=True)
class Cost:
    """What a step would take.

    Attributes:
        hours: of one process after another; a cluster and groups of parts make less of it.
        dollars: that services are paid.
        source: where the figures are from.
        notes: what a reader of them has to know.
    """

    hours: Figure
    dollars: Figure
    source: str = ""
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CostSources:
    """Where costs are taken from.

    Attributes:
        store: where data and answers are.
        rates: of earlier runs.
        on: cards that a training would have, ``4xH100``; empty: its own earlier runs tell.
        answer_s: seconds that one answer of an LLM is taken to need.
        priced: a step that asks an LLM is billed, for which its prompts are built; else its cost is not known.
    """

    store: Store
    rates: Rates
    on: str
    answer_s: float
    priced: bool = True

    def of_job(self, job: Job, rows: Figure) -> Cost:
        """The cost of a step whose inputs are there.

        Raises:
            InputError: ``on`` names no cards.
        """
        from pipeline_tasks.synthesis.llm.endpoint import LlmParams
        from pipeline_tasks.training.dry_run.forecast import hours
        from pipeline_tasks.training.dry_run.loads import Training

        if isinstance(job.params, LlmParams):
            return self._bill(job)
        if self.on and (found := hours(Inputs(job.open(self.store)), job.params, self.on)) is not None:
            return Cost(Figure(found, sure=False), NOTHING, f"arithmetic for {self.on}")
        cost = self.measured(job.step, job.params, rows)
        unnamed = cost.hours.value is None and isinstance(job.params, Training)
        return replace(cost, source=f"{cost.source}; name cards with --on") if unnamed else cost

    def _bill(self, job: Job) -> Cost:
        from pipeline_tasks.synthesis.estimate import of_step

        if not self.priced:
            return Cost(UNKNOWN, UNKNOWN)
        try:
            return self._billed(of_step(self.store, job))
        except InputError as error:
            return Cost(UNKNOWN, UNKNOWN, "not known: see below", [f"{job.step.name}: {error}"])

    def of_pairs(self, needs: Job, params: StepParams) -> tuple[Figure, Cost]:
        """What ``write_pairs`` with ``params`` would get from that ``write_needs``, and its bill."""
        from pipeline_tasks.synthesis.estimate import estimate

        if not self.priced:
            return UNKNOWN, Cost(UNKNOWN, UNKNOWN)
        try:
            step_inputs = needs.params.model_dump(exclude_unset=True), needs.input_names
            _, bill = estimate(self.store, *step_inputs, params.model_dump(exclude_unset=True))
        except InputError as error:
            return UNKNOWN, Cost(UNKNOWN, UNKNOWN, "not known: see below", [f"write_pairs: {error}"])
        return Figure(bill.rows, sure=False), self._billed(bill)

    def _billed(self, bill: Bill) -> Cost:
        measured = f"{bill.n_measured:,} answers" if bill.n_measured else "a rule of thumb"
        pace = f"{self.answer_s:g} s an answer, {bill.concurrency} at once"
        source = f"{bill.n_requests:,} requests by {measured}, {pace}"
        return Cost(Figure(bill.hours(self.answer_s), sure=False), Figure(bill.usd, sure=False), source, bill.notes())

    def measured(self, step: Step, params: StepParams, rows: Figure) -> Cost:
        """The cost by the step's own earlier runs."""
        dataset = step.output(params)
        rate = self.rates.rate(step, dataset)
        pays = params.secrets(step.resources.secrets)
        dollars = UNKNOWN if pays else NOTHING
        if rate is None:
            return Cost(UNKNOWN, dollars, "not measured: no run built it on this store")
        if rows.value is None:
            return Cost(UNKNOWN, dollars, "how many rows it gets is not known")
        if pays:
            dollars = Figure(rate.usd_for(rows.value), sure=False)
        return Cost(Figure(rate.hours_for(rows.value), sure=False), dollars, _of(rate, dataset))


def _of(rate: Rate, dataset: str) -> str:
    return rate.source() if rate.dataset == dataset else f"{rate.source()}, of {rate.dataset}"
