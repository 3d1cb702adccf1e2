"""How much has to be asked for a wanted number of pairs of every intent, told from what was kept so far.

Pairs that a limit put aside (``over_cap``, ``over_intent``) count as kept: a higher limit brings them back for nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, load_manifest

MARGIN = 1.1
"""More than the yield so far asks for, since that is of a sample."""
_STEP = 2.0
"""How many times as many are asked where nothing was kept yet."""
_PUT_ASIDE = pa.array(["over_cap", "over_intent"])
"""Reasons of rejects that are pairs enough, whose origin or intent has more than its limit."""


def rates_for(store: Store, wanted: int) -> dict[str, float]:
    """For each intent the share of its passages that should give ``wanted`` training pairs; 1 where even all are few.

    What was asked stays in: an intent that has enough keeps its share, and no other gets a smaller one.

    Raises:
        InputError: nothing was written yet: a small sample has to come first; or pairs were, which are not in ``mtp``.
    """
    asked, kept = _yield(store)
    return {intent: _rate(_asked_of(asked, intent), kept[intent], wanted) for intent in asked["intents"]}


def too_few_for(store: Store, wanted: int) -> dict[str, int]:
    """Intents of which even all passages should give fewer than ``wanted`` training pairs, and how many these are.

    Raises:
        InputError: see :func:`rates_for`.
    """
    asked, kept = _yield(store)
    rates = {intent: _asked_of(asked, intent) for intent in asked["intents"]}
    capped = {intent: rate for intent, rate in rates.items() if _rate(rate, kept[intent], wanted) == 1}
    most = {intent: round(kept[intent] / rate) for intent, rate in capped.items()}
    return {intent: n for intent, n in most.items() if n < wanted}


def _yield(store: Store) -> tuple[dict[str, Any], Counter[str]]:
    """What was asked, and how many training pairs of each intent it gave.

    Raises:
        InputError: see :func:`rates_for`.
    """
    pairs = Version.open(store, Ref.parse("mtp"))
    written = Version.open(store, Ref.parse("mtp/dm"))
    made_of = _made_of(store, pairs.manifest)
    if (of := written.manifest.ref) not in made_of:
        raise InputError(
            f"{pairs.manifest.ref} is not of {of}, the pairs that were written last: run combine_pairs and "
            "decontaminate_pairs, so that it is known how many of them are kept"
        )
    asked = Version.open(store, Ref.parse(written.manifest.inputs["needs"][0])).manifest.params
    kept = _trained(pairs, "origin")
    n = Counter(kept.filter(pc.equal(kept["origin"], "dm"))["intent"].to_pylist())
    n += _put_aside(store, written, made_of - {of})
    return asked, n


def per_intent_for(wanted: int) -> int:
    """The limit of each intent under which ``wanted`` pairs are left when contaminated ones are refused after it."""
    return math.ceil(MARGIN * wanted)


def _trained(pairs: Version, column: str) -> pa.Table:
    """Intent and another column of pairs to train on."""
    rows = pairs.table(["intent", "split", column])
    return rows.filter(pc.equal(rows["split"], "train"))


def _put_aside(store: Store, written: Version, made_of: set[Ref]) -> Counter[str]:
    """Of each intent, how many written pairs to train on were beyond a limit on the way."""
    pairs, n = _trained(written, "query_id"), Counter[str]()
    for ref in made_of:
        for part in Version.open(store, ref).rejects().parts(["row_id", "reason"]):
            aside = part.filter(pc.is_in(part["reason"], _PUT_ASIDE))["row_id"]
            n.update(pairs.filter(pc.is_in(pairs["query_id"], aside))["intent"].to_pylist())
    return n


def _made_of(store: Store, manifest: Manifest) -> set[Ref]:
    """The versions that a version was made of, however far back."""
    found, new = set[Ref](), [manifest]
    while new:
        refs = {Ref.parse(name) for names in new.pop().inputs.values() for name in names} - found
        found |= refs
        new += [load_manifest(store, ref) for ref in refs if ref.dataset.startswith("mtp")]
    return found


def _asked_of(asked: dict[str, Any], intent: str) -> float:
    """The share of its passages that was asked about."""
    return asked.get("rates", {}).get(intent, asked["sample_rate"])


def _rate(now: float, kept: int, wanted: int) -> float:
    if kept >= wanted:
        return now
    return min(1.0, max(now, _rounded_up(now * (MARGIN * wanted / kept if kept else _STEP))))


def _rounded_up(rate: float) -> float:
    """To four digits that say something."""
    unit = 10.0 ** (math.floor(math.log10(rate)) - 3) if rate > 0 else 1.0
    return float(f"{math.ceil(rate / unit) * unit:.4g}")
