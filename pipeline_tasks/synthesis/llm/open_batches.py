"""Batches that were begun and have not been taken in: what is on its way is paid for, and is not bought again."""

from __future__ import annotations

import json
import logging
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.paid.batch_notes import FAILED, FOLDER, batch_notes
from pipeline_tasks.core.paid.endpoint import Tokens
from pipeline_tasks.core.paid.response_store import Record, answer_key
from pipeline_tasks.core.store import Store
from pipeline_tasks.synthesis.llm.api import Api, response_of

log = logging.getLogger(__name__)


class Batch(BaseModel):
    """One file of requests, as the store remembers it until it has ended.

    Attributes:
        name: digest of its requests.
        step: whose requests they are.
        ids: of the requests, as answers are named by.
        api: by which they ask.
        model: that they ask.
        price: of a million tokens of prompts and of answers.
        tried: tells it from an earlier batch of the same requests.
        id: the endpoint's; empty until that is known.
        day: on which its cost was counted.
        amounts: what was counted; nothing where there was no limit and no price.
        run: whose limits that was counted for; empty where it was begun before that was noted.
        host: where it was begun; empty where that was before this was noted.
        at_once: where the endpoint had no room for all: how many requests had, or half of how many had none. Twice as
            many are begun once these have ended; 0: all.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    step: str
    ids: tuple[str, ...]
    api: Api
    model: str
    price: tuple[float, float]
    tried: str = ""
    id: str = ""
    day: str = ""
    amounts: dict[str, float] = {}
    run: str = ""
    host: str = ""
    at_once: int = 0

    @property
    def key(self) -> str:
        """Where it is written down."""
        return f"{FOLDER}/{self.name}.json"

    def check_begun_at(self, host: str) -> None:
        """Only there can be told what became of it.

        Raises:
            InputError: it was begun elsewhere.
        """
        if self.host not in ("", host):
            raise InputError(
                f"{self.key} was begun at {self.host}, and OPENAI_BASE_URL is of {host}: set it as it was until that "
                "batch has ended, or delete the file, and what it asked is asked, and paid for, again"
            )


def open_batches(store: Store, asks: dict[str, Any]) -> list[Batch]:
    """Those of all steps.

    Args:
        store: where they are written down.
        asks: api, model and price of such as do not say.

    Raises:
        InputError: one cannot be read: what was counted for it, and what it may bring, is unknown.
    """
    found = []
    for key, data in store.read_all(batch_notes(store)):
        if data is None:  # it has been settled meanwhile
            continue
        try:
            found.append(Batch.model_validate(asks | json.loads(data)))
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(
                f"{key} is no batch ({type(error).__name__}): copy it from a backup, or delete it; then a batch "
                "that is on its way is found again, the requests of one that has ended are paid for again, and "
                "what was counted for it stays counted"
            ) from None
    return found


def on_their_way(store: Store) -> dict[str, str]:
    """Request -> the key of the batch that brings its answer.

    Raises:
        InputError: as :func:`open_batches`.
    """
    terms = {"api": "chat", "model": "", "price": (0.0, 0.0)}  # no matter here
    return {one: batch.key for batch in open_batches(store, terms) for one in batch.ids}


def took(batch: Batch, records: list[Record]) -> tuple[Tokens, float]:
    """The tokens of its answers, and what they cost: one for each request."""
    each = [response_of(one, record, cached=True) for one, record in zip(batch.ids, records, strict=True)]
    tokens = Tokens(sum(one.prompt_tokens for one in each), sum(one.completion_tokens for one in each))
    return tokens, sum(one.cost_usd for one in each)


def failures(store: Store, again: str) -> dict[str, int]:
    """Request -> in how many batches it failed that were looked at with this ``again``."""
    named = {one.partition(" "): tries for one, tries in _noted_failures(store).items()}
    return {one: tries for (one, _, asked), tries in named.items() if asked == again}


def note_failures(store: Store, ids: set[str], again: str) -> None:
    """These failed in one batch more; what has an answer since is forgotten."""
    before = _noted_failures(store)
    there = store.present([answer_key(one.partition(" ")[0]) for one in before])
    found = {one: tries for one, tries in before.items() if answer_key(one.partition(" ")[0]) not in there}
    for one in sorted(ids):
        name = f"{one} {again}" if again else one
        found[name] = found.get(name, 0) + 1
    if found != before:
        store.replace(FAILED, canonical_json(found))


def _noted_failures(store: Store) -> dict[str, int]:
    """Request, and ``again`` behind it where one was given, -> in how many batches it failed."""
    try:
        return {str(one): int(tries) for one, tries in json.loads(store.read(FAILED) or b"{}").items()}
    except (ValueError, TypeError, AttributeError) as error:
        log.warning("%s cannot be read (%s): what failed before is sent as if for the first time", FAILED, error)
        return {}
