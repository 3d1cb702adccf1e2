"""Answers that a step will ask for, bought ahead by the file: an endpoint takes a day at most, and half the price.

What a step would ask is found by running it without asking anybody (:mod:`~pipeline_tasks.synthesis.llm.wanted`). Its
answers are stored as if each had been asked alone, so the step itself finds them there, and how an answer was fetched
has no part in any version. A batch is written down before it is begun, and its cost counted at its worst until it has
ended. What fails twice is left to the step, which asks once more and then refuses the row.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from itertools import chain, islice
from uuid import uuid4

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.core.ids import canonical_json, digest
from pipeline_tasks.core.paid.endpoint import FREE, Price, Terms, Tokens
from pipeline_tasks.core.paid.endpoint.batch_api import BatchApi, FileGone, NoBatchApi, Standing, failure_text
from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.paid.spending import Charge, Ledger, LimitReached, today
from pipeline_tasks.core.pins import pinned
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.synthesis.llm.api import PATHS, at_most, sent
from pipeline_tasks.synthesis.llm.asking_runs import RunAsks, check_nobody_asks
from pipeline_tasks.synthesis.llm.batch_files import MOST, Line, read_line, requests_by_file
from pipeline_tasks.synthesis.llm.batch_lineage import tell_lineage
from pipeline_tasks.synthesis.llm.client import LLMClient, Request
from pipeline_tasks.synthesis.llm.endpoint import ACCOUNT, LlmParams, llm_limits, opened
from pipeline_tasks.synthesis.llm.open_batches import Batch, failures, note_failures, open_batches, took
from pipeline_tasks.synthesis.llm.wanted import wanted_by

log = logging.getLogger(__name__)
SHARE = 0.5
"""Of the usual price."""
_TRIES = 2


@dataclass(frozen=True)
class Round:
    """What one look at a step's batches came to.

    Attributes:
        answered: requests whose answers were stored.
        failed: requests that came back without an answer.
        usd: what was paid, for answers that cannot be used as well.
        open: requests on their way.
        done: those of them that the endpoint says are answered.
    """

    answered: int = 0
    failed: int = 0
    usd: float = 0.0
    open: int = 0
    done: int = 0

    def __add__(self, other: Round) -> Round:
        return Round(*(ours + theirs for ours, theirs in zip(astuple(self), astuple(other), strict=True)))


def buy_ahead(store: Store, job: Job, most: int = MOST) -> Round:
    """Take what batches have brought, and once all of the step's have ended, begin those for what it would still ask.

    Nothing open and nothing answered: there is nothing left to buy.

    Raises:
        InputError: the endpoint takes no batches, the budget or the account is used up, a batch that was written down
            cannot be read or was begun elsewhere, one was cancelled, or what the step reads beside its inputs is not
            what it was.
        TransientError: the endpoint stays busy or broken, or was when it worked on the batches.
        RunAsks: a run of the step is asking now.
    """
    params = job.params
    if not isinstance(params, LlmParams):
        raise InputError(f"{job.step.name} asks no LLM")
    run = Run(store, Inputs({}), 0, f"{job.step.name}, by batches", job.step.name, job=job)
    shown = pinned(store, run.label, job.needs(store))
    try:
        with store.alone(f"batches-{ACCOUNT}"), shown, opened(params, run) as client:
            return _Buying(store, job, client, params, params.terms(run)).round(most)
    finally:
        if run.counters["llm_requests"] or run.counters["prompt_tokens"]:
            tell_lineage(store, job, run.counters)


class _Buying:
    """The batches of a store at one endpoint."""

    def __init__(self, store: Store, job: Job, client: LLMClient, params: LlmParams, terms: Terms) -> None:
        self._store, self._job, self._client, self._terms = store, job, client, terms
        self._api, self._answers, self._again = BatchApi(client.endpoint), ResponseStore(store), params.again
        price, self._host = client.endpoint.price, client.endpoint.host
        self._price = Price(price.prompt * SHARE, price.completion * SHARE)
        self._asks = {"api": client.api, "model": client.model, "price": astuple(self._price), "host": self._host}
        self._had_no_room = self._at_once = self._cancelled = 0
        self._used_up = self._broken = ""

    def round(self, most: int) -> Round:
        """See :func:`buy_ahead`."""
        batches = self._batches()
        found = sum((self._looked_at(batch) for batch in batches), Round())
        left, self._at_once = self._batches(), 2 * max((batch.at_once for batch in batches), default=0)
        if self._had_no_room:
            self._at_once = found.open + found.answered + found.failed or max(1, self._had_no_room // 2)
            for batch in left:
                self._note(batch.model_copy(update={"at_once": self._at_once}))
        if self._used_up:
            raise InputError(
                f"the account at {self._host} is used up ({self._used_up}): {found.answered:,} answers are stored, and "
                f"{found.failed:,} requests have none; pay there, then call it again to ask the rest"
            )
        if self._cancelled:
            raise InputError(
                f"a batch was cancelled at {self._host}: {found.answered:,} answers are stored, and "
                f"{self._cancelled:,} requests have none; call it again to ask the rest"
            )
        if self._broken and not left and not found.answered:
            raise TransientError(
                f"{self._host} answered none of {found.failed:,} requests of batches ({self._broken}), for no fault of "
                "theirs; see that it is up, and call it again later"
            )
        return found if left else found + self._begin(most)

    def _batches(self) -> list[Batch]:
        """Those of the step; another step's may be of another model, at another price."""
        return [batch for batch in open_batches(self._store, self._asks) if batch.step == self._job.step.name]

    def _begin(self, most: int) -> Round:
        """Batches of what the step would ask, but for what has failed too often."""
        given_up = {one for one, tries in failures(self._store, self._again).items() if tries >= _TRIES}
        wanted = (asked for asked in wanted_by(self._store, self._job) if asked[0] not in given_up)
        n = 0
        for some in requests_by_file(islice(wanted, self._at_once or None), most):
            self._job.check_unchanged()
            self._api.check()
            check_nobody_asks(self._store, self._job.step.name)  # before a run can meet a batch that is given up
            n += sum(len(part) for part in self._within_budget(some))
        return Round(open=n)

    def _within_budget(self, some: list[tuple[str, Request, dict]]) -> Iterator[list[str]]:
        """Begin a batch with these, or where they might cost too much two with a half each."""
        worst = [at_most(request) for _, request, _ in some]
        total = Tokens(sum(one.prompt for one in worst), sum(one.completion for one in worst))
        amounts = {"requests": float(len(some)), "tokens": float(sum(total)), "usd": self._price.of(total)}
        ledger = self._ledger(self._terms.run)
        try:
            if ledger:
                ledger.take(**amounts)
        except LimitReached:
            if len(some) == 1:
                raise
            middle = len(some) // 2
            for half in (some[:middle], some[middle:]):
                yield from self._within_budget(half)
            return
        ids = tuple(sorted(one for one, _, _ in some))  # threads found them, and the name goes by them
        known = {"name": digest(ids), "step": self._job.step.name, "ids": ids, "tried": uuid4().hex}
        counted = {"day": today(), "amounts": amounts if ledger else {}, "run": self._terms.run}
        batch = Batch.model_validate(self._asks | known | counted | {"at_once": self._at_once})
        self._note(batch)
        try:
            check_nobody_asks(self._store, batch.step, ids)
        except RunAsks:
            self._drop(batch)
            raise
        path = PATHS[self._client.api]
        lines = [{"custom_id": one, "method": "POST", "url": f"/v1{path}", "body": sent(body)} for one, _, body in some]
        try:
            at = self._api.start(batch.name, lines, path, batch.tried)
        except InputError:
            self._looked_at(batch)  # it is not left to stand in the step's way, unless it was begun all the same
            raise
        self._note(batch.model_copy(update={"id": at}))
        yield [*ids]

    def _note(self, batch: Batch) -> None:
        self._store.replace(batch.key, canonical_json(batch.model_dump(mode="json")))

    def _looked_at(self, batch: Batch) -> Round:
        """Store what ``batch`` has brought, if it has ended; of one whose answers are all here nobody is asked."""
        if records := self._answers.read_all(batch.ids):
            self._settle(batch, *took(batch, records), len(records))
            return Round()
        batch.check_begun_at(self._host)
        try:
            at = batch.id or self._api.find(batch.name, batch.tried)
        except NoBatchApi:
            self._drop(batch)
            raise
        if at is None:
            self._drop(batch)
            return Round()
        try:
            return self._looked_into(batch, self._api.standing(at))
        except FileGone as gone:
            raise InputError(
                f"the answers of batch {at} cannot be had: {gone}; set the key that began it, or delete {batch.key}, "
                "and what it asked is asked, and paid for, again"
            ) from None

    def _looked_into(self, batch: Batch, standing: Standing) -> Round:
        if not standing.ended:
            return Round(open=len(batch.ids), done=standing.done)
        if standing.status == "failed":
            self._drop(batch)
            refusal = f"{self._host} refused a batch of {len(batch.ids)} requests: {failure_text(standing.errors)}"
            if not standing.had_no_room:
                raise InputError(refusal)
            log.warning("%s; they are asked later", refusal)
            self._had_no_room += len(batch.ids)
            self._api.delete(standing.input_file_id)
            return Round()
        return self._taken_in(batch, standing)

    def _taken_in(self, batch: Batch, standing: Standing) -> Round:
        bodies = self._bodies(batch, standing)
        n_paid, tokens, usd, left, unanswered = 0, Tokens(), 0.0, set(batch.ids), dict[str, Line]()
        for line in chain.from_iterable(map(self._api.lines, (standing.output_file_id, standing.error_file_id))):
            one = line.get("custom_id")
            if one not in left:
                continue
            read = read_line(line, bodies[one], batch.api, batch.model)
            if (used := read.took) is not None:
                cost = Price(*batch.price).of(used)
                n_paid, usd = n_paid + 1, usd + cost
                tokens = Tokens(tokens.prompt + used.prompt, tokens.completion + used.completion)
            if used is None or read.answer is None:
                unanswered[one] = read
                continue
            record = {"api": batch.api, "request": bodies[one], "response": read.answer, "cost_usd": cost}
            self._answers.write(one, record)
            left.discard(one)
        self._note_unanswered(batch, {one: unanswered.get(one, Line(why="row")) for one in left}, standing.status)
        self._settle(batch, tokens, usd, n_paid)
        paid = {"prompt_tokens": tokens.prompt, "completion_tokens": tokens.completion, "cost_usd": usd}
        for name, n in ({"llm_requests": len(batch.ids) - len(left)} | paid).items():
            self._client.endpoint.count(name, n)
        self._api.delete(standing.input_file_id)
        self._cancelled += len(left) if standing.status == "cancelled" else 0
        return Round(answered=len(batch.ids) - len(left), failed=len(left), usd=usd)

    def _note_unanswered(self, batch: Batch, lines: dict[str, Line], status: str) -> None:
        """Count what failed for its own sake, and remember what the account or the server is to blame for.

        A server's error is a row's own where others were answered, or all such rows had failed before.
        """
        before = failures(self._store, self._again)
        faulty = {one for one, line in lines.items() if line.why == "server"}
        is_own = len(lines) < len(batch.ids) or faulty <= before.keys()
        counted = ("row", "server") if is_own else ("row",)
        failed = {one for one, line in lines.items() if line.why in counted} if status == "completed" else set()
        note_failures(self._store, failed, self._again)
        codes = {line.why: line.code for line in lines.values() if line.why not in counted}
        self._used_up = codes.get("account", self._used_up)
        self._broken = codes.get("busy", codes.get("server", self._broken))

    def _bodies(self, batch: Batch, standing: Standing) -> dict[str, dict]:
        """Response id -> body, read back from the endpoint where it is what its id says, else as answered or asked."""
        found: dict[str, dict] = {}
        with suppress(FileGone):
            for line in self._api.lines(standing.input_file_id or None):
                body = line.get("body")
                if isinstance(body, dict):
                    body = {"stop": []} | body
                    found[digest({"api": batch.api, "body": body})] = body
        lost = set(batch.ids) - found.keys()
        found |= {one: record["request"] for one in lost if (record := self._answers.read(one))}
        if lost := lost - found.keys():
            found |= {one: body for one, _, body in wanted_by(self._store, self._job) if one in lost}
        if unknown := sum(one not in found for one in batch.ids):
            raise InputError(
                f"batch {standing.id} at {self._host} has ended, and what {unknown} of its requests asked cannot "
                f"be read there any more: give the inputs and parameters it was begun with, or delete {batch.key} and "
                "lose its answers"
            )
        return found

    def _drop(self, batch: Batch) -> None:
        """It was never begun, or answered nothing."""
        self._settle(batch, Tokens(), 0.0, 0)

    def _ledger(self, run: str) -> Ledger | None:
        """Where the spending of that run is counted."""
        paid = self._client.endpoint.price != FREE
        return replace(self._terms, run=run).ledger(self._store, ACCOUNT, *llm_limits(settings()), paid=paid)

    def _settle(self, batch: Batch, tokens: Tokens, usd: float, n: int) -> None:
        """Its cost is known; it is no longer on its way."""
        self._store.delete(batch.key)
        if ledger := self._ledger(batch.run or self._terms.run):
            cost = {"requests": float(n), "tokens": float(sum(tokens)), "usd": usd}
            ledger.correct(Charge(dict.fromkeys(cost, 0.0) | batch.amounts, day=batch.day or today()), **cost)
            ledger.flush()
