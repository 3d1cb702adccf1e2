"""Batches that were begun and have not been taken in: what is on its way is paid for, and is not bought again."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.store import Store
from pipeline_tasks.synthesis.llm_api import Api

_FOLDER = "batches"
FAILED = f"{_FOLDER}/failed.json"
"""How often requests have failed in a batch."""


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
        amounts: what was counted.
        run: whose limits that was counted for; empty where it was begun before that was noted.
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

    @property
    def key(self) -> str:
        """Where it is written down."""
        return f"{_FOLDER}/{self.name}.json"


def open_batches(store: Store, asks: dict[str, Any]) -> list[Batch]:
    """Those of all steps.

    Args:
        store: where they are written down.
        asks: api, model and price of such as do not say.

    Raises:
        InputError: one cannot be read: what was counted for it, and what it may bring, is unknown.
    """
    found = []
    for key, data in store.read_all([key for key in store.keys(_FOLDER) if key != FAILED]):
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
