"""On which terms an endpoint is asked: how many requests at once, how patiently, and what they may cost."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_tasks.core.paid.spending import Ledger, Limit, Most, limits
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import StepParams, tuning
from pipeline_tasks.core.store import Store


@dataclass(frozen=True)
class Terms:
    """How an endpoint is asked.

    Attributes:
        concurrency: requests at once, at most.
        timeout_s: seconds before a try without a whole answer fails.
        patience_s: seconds that an endpoint may have too many requests and answer none.
        attempts: tries of a request that fails for another reason.
        limits: of one run.
        run: names the run: the version that it makes.
    """

    concurrency: int = 1
    timeout_s: float = 120.0
    patience_s: float = 900.0
    attempts: int = 8
    limits: tuple[Limit, ...] = ()
    run: str = ""

    def ledger(self, store: Store, account: str, *more: Limit, paid: bool) -> Ledger | None:
        """Where the account's spending is counted; nowhere if it costs nothing and has no limit."""
        found = tuple(limit for limit in (*self.limits, *more) if paid or limit.unit != "usd")
        return Ledger(store, account, found, run=self.run) if paid or found else None


class PaidParams(StepParams):
    """How an endpoint is asked, and what one run may spend there: all tries and processes that make one version."""

    concurrency: int = tuning(1, ge=1, description="concurrent requests, at most")
    timeout_s: float = tuning(120.0, gt=0, description="request timeout, in seconds")
    patience_s: float = tuning(
        900.0, ge=0, description="seconds that a busy endpoint (rate limits) may answer nothing before the run gives up"
    )
    max_run_usd: Most = tuning(20.0, ge=0, description="spending limit of one run, in dollars")
    max_run_tokens: Most = tuning(None, ge=0, description="token limit of one run; empty: none")

    def terms(self, run: Run) -> Terms:
        """The terms of ``run``."""
        of_run = limits("run", usd=("max_run_usd", self.max_run_usd), tokens=("max_run_tokens", self.max_run_tokens))
        name = run.job.ref.version if run.job else run.scratch_name
        return Terms(self.concurrency, self.timeout_s, self.patience_s, limits=of_run, run=name)
