"""Asks a provider over HTTP: from the store what was asked before, else within rate, budget, size and patience."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from pipeline_tasks import __version__
from pipeline_tasks.core.errors import TransientError
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.paid.endpoint.transport import checked_host
from pipeline_tasks.core.paid.response_store import ResponseStore
from pipeline_tasks.core.paid.spending import Charge, Ledger, LimitReached
from pipeline_tasks.corpus.search.provider import Busy, Refused, Reply, Spent

log = logging.getLogger(__name__)
LARGEST_REPLY = 32 << 20
LONGEST_WAIT_S = 300.0
_WORTH_SAYING_S = 10.0
Params = list[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """What is kept of a reply, and under which name."""

    response_id: str
    content: Mapping[str, Any]


class Asker:
    """One provider's address, key and ledger; safe to share between threads.

    An answer is named by provider, path and parameters (and ``refresh``): neither the address nor the key is part of
    it, nor kept anywhere. After a TransientError only what is stored is answered.

    Args:
        provider: its name.
        base_url: http(s) address, without user name and query.
        setting: the environment variable that gives it, for messages.
        responses: where answers are kept.
        ledger: its rate and budget.
        price_usd: of one request.
        secret: the key; cut out of everything that comes back.
        headers: sent with every request.
        refresh: any new value asks everything again.
        attempts: tries per request.
        timeout_s: seconds without a byte before a try fails.

    Raises:
        InputError: ``base_url`` is not such an address.
    """

    def __init__(
        self,
        provider: str,
        base_url: str,
        setting: str,
        responses: ResponseStore,
        ledger: Ledger,
        *,
        price_usd: float = 0.0,
        secret: str = "",
        headers: Mapping[str, str] | None = None,
        refresh: str = "",
        attempts: int = 4,
        timeout_s: float = 30.0,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._provider, self._responses, self._ledger = provider, responses, ledger
        self._price_usd = price_usd
        self._base, self._host = base_url.rstrip("/"), checked_host(base_url, setting)
        self._secret, self._refresh = secret, refresh
        self._attempts = attempts
        self._ended: TransientError | None = None
        self._counting = threading.Lock()
        sent = {"Accept": "application/json", "User-Agent": f"retriever-foundry/{__version__}", **(headers or {})}
        self._http = httpx.Client(timeout=timeout_s, headers=sent, follow_redirects=False)

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.close()
        self._ledger.flush()

    def get(self, path: str, params: Params, read: Callable[[Reply], dict[str, Any]]) -> Answer:
        """The answer to a GET of ``path``: stored, or bought now and stored.

        Args:
            path: below the base address.
            params: the query string, in order; no secrets.
            read: what to keep of a reply; raises what is wrong with it.

        Raises:
            Refused: this request has no answer.
            Busy: none came in all attempts.
            TransientError: the budget is used up, or the provider wants to be left alone for long.
        """
        named: dict[str, Any] = {"provider": self._provider, "request": {"path": path, "params": params}}
        response_id = digest(named | ({"refresh": self._refresh} if self._refresh else {}))
        if self._ended:
            record, stored = self._responses.read(response_id), True
            if record is None:
                raise self._ended
        else:
            record, stored = self._responses.get_or_buy(
                response_id, lambda keep: keep(named | self._buy(path, params, read)), alone=bool(self._price_usd)
            )
        if stored:
            self._count("search_answers_reused")
        return Answer(response_id, record["response"])

    def stop(self, why: TransientError) -> None:
        """From now on answer only what is stored, and raise ``why`` for the rest."""
        self._ended = why

    def _buy(self, path: str, params: Params, read: Callable[[Reply], dict[str, Any]]) -> dict[str, Any]:
        retrying = Retrying(
            stop=stop_after_attempt(self._attempts),
            wait=wait_random_exponential(multiplier=0.2, max=20),
            retry=retry_if_exception_type(Busy),
            reraise=True,
        )
        content = retrying(self._try, path, params, read)
        self._count("cost_usd", self._price_usd)
        return {"response": content | {"created": int(time.time())}, "cost_usd": self._price_usd}

    def _try(self, path: str, params: Params, read: Callable[[Reply], dict[str, Any]]) -> dict[str, Any]:
        if self._ended:
            raise self._ended
        try:
            taken = self._take_turn()
            self._count("search_requests")
            reply = self._send(path, params)
            if reply.status != 200:  # no provider bills an error
                self._ledger.correct(taken, usd=0.0)
            return read(reply)
        except Busy as busy:
            if busy.wait_s:
                self._pause(busy.wait_s)
            raise
        except TransientError as ended:
            self.stop(ended)
            raise

    def _take_turn(self) -> Charge:
        """One request, counted, whose turn it is."""
        try:
            taken = self._ledger.take(requests=1, usd=self._price_usd)
        except LimitReached as reached:
            raise Spent(str(reached)) from None
        if taken.wait_s >= _WORTH_SAYING_S:
            log.info("%s: waiting %.0f s, as all who ask it through this store do", self._provider, taken.wait_s)
        time.sleep(taken.wait_s)
        return taken

    def _pause(self, wait_s: float) -> None:
        if wait_s > LONGEST_WAIT_S:
            ended = TransientError(f"{self._provider} asks to wait {wait_s:.0f} s; run the step again then")
            self.stop(ended)
            raise ended
        self._ledger.pause(wait_s)

    def _send(self, path: str, params: Params) -> Reply:
        try:
            with self._http.stream("GET", self._base + path, params=httpx.QueryParams(tuple(params))) as response:
                body = bytearray()
                for block in response.iter_bytes():
                    body += block
                    if len(body) > LARGEST_REPLY:
                        raise Refused("bad_answer", f"larger than {LARGEST_REPLY} bytes")
        except httpx.DecodingError as error:
            raise Refused("bad_answer", f"{self._host}: {error}") from None
        except httpx.TransportError as error:
            raise Busy("unreachable", f"{self._host}: {type(error).__name__}") from None
        text = body.decode("utf-8", "replace")
        if self._secret:
            text = text.replace(self._secret, "***")
        return Reply(response.status_code, {k.lower(): v for k, v in response.headers.items()}, text)

    def _count(self, name: str, n: float = 1) -> None:
        with self._counting:
            self.counts[name] += n  # type: ignore[assignment]
