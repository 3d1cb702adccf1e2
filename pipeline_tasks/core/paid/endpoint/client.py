"""Posts JSON to an endpoint until there is an answer: paced, patient, and never beyond a budget.

A request is counted in the ledger at its worst before it is sent, and settled at what it cost when it is answered. What
may have been billed and did not arrive stays counted at its worst.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

import httpx

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint.errors import Fault, MessageNames, NoAnswer, Reply, Silent, TooMany, meaning
from pipeline_tasks.core.paid.endpoint.pace import Pace, backoff_s
from pipeline_tasks.core.paid.endpoint.price import FREE, Price, Tokens
from pipeline_tasks.core.paid.endpoint.terms import Terms
from pipeline_tasks.core.paid.endpoint.transport import UNREACHABLE, Transport, checked_host
from pipeline_tasks.core.paid.spending import Charge, Ledger

_SHARED_S = 1.0
"""Shorter pauses are not worth telling other processes of."""
T = TypeVar("T")
R = TypeVar("R")
Read = Callable[[Any], tuple[T, Tokens | None]]
"""What to keep of an answer, and the tokens that it says it took; LookupError, TypeError or ValueError: not the API."""


@dataclass(frozen=True)
class Bought(Generic[T]):
    """An answer and what it cost; at most, where the endpoint does not say."""

    kept: T
    tokens: Tokens
    usd: float


@dataclass
class _Bill:
    tokens: Tokens


class Endpoint:
    """One model at one endpoint; safe to share between threads.

    Args:
        base_url: its address with the version path, such as ``http://127.0.0.1:8080/v1``.
        secret: sent as bearer token, and nowhere else; may be empty for a local server.
        model: the endpoint's name for the model, for messages.
        terms: how it is asked.
        price: of its tokens.
        ledger: counts what is spent; None where nothing is.
        key_setting: the variable that holds the key, for messages.
        url_setting: the variable that holds the address, for messages.

    Attributes:
        counts: ``retries_<kind>`` of each kind of fault, tokens and dollars of answers that were bought.
        pace: how fast it is asked.

    Raises:
        InputError: ``base_url`` is no http(s) URL, or carries a secret itself; or ``secret`` has a character that no
            header can hold.
    """

    def __init__(
        self,
        base_url: str,
        secret: str,
        model: str,
        *,
        terms: Terms | None = None,
        price: Price = FREE,
        ledger: Ledger | None = None,
        key_setting: str = "OPENAI_API_KEY",
        url_setting: str = "OPENAI_BASE_URL",
    ) -> None:
        self.terms, self.price = terms or Terms(), price
        self.counts: Counter[str] = Counter()
        self._named = MessageNames(checked_host(base_url, url_setting), model, key_setting, url_setting)
        self.pace = Pace(self._named.host, self.terms.concurrency, self.terms.patience_s)
        self._ledger, self._secret = ledger, secret
        if not all("!" <= sign <= "~" for sign in secret):
            raise InputError(f"{key_setting} holds what no key does, such as a blank or a curly quote: set it anew")
        self._answers, self._counting = 0, threading.Lock()
        self._transport = Transport(base_url, secret, self.terms.timeout_s, self.terms.concurrency)

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.pace.stop()
        self._transport.close()
        self.flush()

    def flush(self) -> None:
        """Write down what is settled."""
        if self._ledger:
            self._ledger.flush()

    @property
    def host(self) -> str:
        """Its name in messages."""
        return self._named.host

    def post(
        self,
        path: str,
        body: dict[str, Any],
        read: Read[T],
        *,
        at_most: Tokens,
        name: str,
        keep: Callable[[Bought[T]], R],
        attempts: int = 0,
    ) -> R:
        """What ``keep`` makes of the answer to a POST of ``body``.

        Args:
            path: below the base address.
            body: JSON.
            read: what to keep of an answer.
            at_most: tokens that it can take.
            name: of the request; sent along, so that an endpoint that knows it bills it once.
            keep: stores the answer, before another request may have the place of this one: so no more answers than
                ``concurrency`` are ever paid for and not stored. Its errors pass through.
            attempts: how often it may fail; 0: as often as the terms say.

        Raises:
            Refused: the endpoint does not accept this request.
            NoAnswer: it failed at this request in all attempts, and answered others meanwhile.
            Silent: it failed in all attempts, and answered no others.
            TransientError: it was busy for longer than there is patience.
            LimitReached: the request might cost more than is left.
            InputError: key, model, address or account are to be mended.
        """
        return self._patiently(partial(self._try, path, body, read, at_most, name, keep), attempts)

    def call(self, method: str, path: str, *, once: bool = False, **sent: Any) -> bytes:
        """The whole reply to a request that costs nothing by itself, such as one about files.

        Args:
            method: of HTTP.
            path: below the base address.
            once: one try, whose failure is raised as it is; for what must not happen twice unseen.
            sent: ``json``, ``data``, ``files``, ``params`` or ``timeout``, as httpx has them; ``largest``, bytes that
                the reply may have.

        Raises:
            Fault: the one try failed.
            Refused, NoAnswer, TransientError, InputError: as for :meth:`post`.
        """
        return self._call(method, path, sent) if once else self._patiently(partial(self._call, method, path, sent))

    def _call(self, method: str, path: str, sent: dict[str, Any]) -> bytes:
        with self.pace.turn() as began:
            reply = self._transport.send(method, path, **sent)
            if reply.status != httpx.codes.OK:
                raise self._failure(reply, began)
        self.pace.answered()
        return reply.body

    def _patiently(self, ask: Callable[[], T], attempts: int = 0) -> T:
        """What ``ask`` gives, as often as it may fail before."""
        faults, answers = 0, self._answers
        attempts = attempts or self.terms.attempts
        while True:
            try:
                return ask()
            except TooMany as busy:
                self.count(f"retries_{busy.kind}")
            except Fault as fault:
                self.count(f"retries_{fault.kind}")
                faults += 1
                if faults == attempts:
                    raise self._given_up(fault, attempts, answers) from None
                self.pace.rest(max(backoff_s(faults), min(fault.wait_s or 0.0, self.terms.patience_s)))

    def _given_up(self, fault: Fault, attempts: int, answers: int) -> Exception:
        silent = Silent(self.host, fault.detail, attempts)
        return NoAnswer("no_answer", silent.detail) if self._answers > answers else silent

    def _try(
        self,
        path: str,
        body: dict[str, Any],
        read: Read[T],
        at_most: Tokens,
        name: str,
        keep: Callable[[Bought[T]], R],
    ) -> R:
        with self._counted(at_most) as bill, self.pace.turn() as began:
            bill.tokens = at_most
            reply = self._transport.send("POST", path, json=body, headers={"Idempotency-Key": name})
            if reply.status != httpx.codes.OK:
                bill.tokens = Tokens()
                raise self._failure(reply, began)
            kept, used = _parse_answer(read, reply.body)
            bill.tokens = used or at_most
            self._bought(bill.tokens)
            return keep(Bought(kept, bill.tokens, self.price.of(bill.tokens)))

    @contextmanager
    def _counted(self, at_most: Tokens) -> Iterator[_Bill]:
        """The ledger holds what the block may cost before it begins, and what it did cost after it."""
        bill = _Bill(Tokens())
        taken = self._reserved(at_most)
        try:
            yield bill
        except Fault as fault:
            if fault.kind == UNREACHABLE:
                bill.tokens = Tokens()
            raise
        finally:
            if taken and self._ledger:
                self._ledger.settle(taken, **self._amounts(bill.tokens))

    def _reserved(self, at_most: Tokens) -> Charge | None:
        while self._ledger:
            taken = self._ledger.reserve(requests=1, **self._amounts(at_most))
            if taken.wait_s < _SHARED_S:
                return taken
            self._ledger.settle(taken, requests=0, **self._amounts(Tokens()))
            self.pace.hold(taken.wait_s)
            self.pace.rest(taken.wait_s)
        return None

    def _amounts(self, tokens: Tokens) -> dict[str, float]:
        return {"tokens": sum(tokens), "usd": self.price.of(tokens)}

    def _failure(self, reply: Reply, began: float) -> Exception:
        error = meaning(reply, self._named, self._secret)
        if isinstance(error, TooMany):
            wait_s = self.pace.too_many(began, error.wait_s)
            if self._ledger and wait_s >= _SHARED_S:
                self._ledger.pause(wait_s)
        return error

    def _bought(self, tokens: Tokens) -> None:
        self.pace.answered()
        with self._counting:
            self._answers += 1
            self.counts["prompt_tokens"] += tokens.prompt
            if tokens.completion:
                self.counts["completion_tokens"] += tokens.completion
            self.counts["cost_usd"] += self.price.of(tokens)  # type: ignore[assignment]

    def count(self, name: str, n: float = 1) -> None:
        """``n`` more of ``name``."""
        with self._counting:
            self.counts[name] += n  # type: ignore[assignment]


def _parse_answer(read: Read[T], body: bytes) -> tuple[T, Tokens | None]:
    try:
        return read(json.loads(body))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        detail = f"sent an answer that is not of this API ({type(error).__name__})"
        raise Fault("bad_answer", detail) from None
