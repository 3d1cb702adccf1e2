"""How much has to be asked for a wanted number of pairs of every intent, told from what was kept so far."""

from __future__ import annotations

import math

import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, load_manifest

MARGIN = 1.1
"""More than the yield so far asks for, since that is of a sample."""
_STEP = 2.0
"""How many times as many are asked where nothing was kept yet."""


def rates_for(store: Store, wanted: int) -> dict[str, float]:
    """For each intent the share of its passages that should give ``wanted`` training pairs; 1 where even all are few.

    What was asked stays in: an intent that has enough keeps its share, and no other gets a smaller one.

    Raises:
        InputError: nothing was written yet: a small sample has to come first; or pairs were, which are not in ``mtp``.
    """
    pairs = Version.open(store, Ref.parse("mtp"))
    written = Version.open(store, Ref.parse("mtp/dm"))
    if (of := written.manifest.ref) not in _made_of(store, pairs.manifest):
        raise InputError(
            f"{pairs.manifest.ref} is not of {of}, the pairs that were written last: run combine_pairs and "
            "decontaminate_pairs, so that it is known how many of them are kept"
        )
    asked = Version.open(store, Ref.parse(written.manifest.inputs["needs"][0])).manifest.params
    rows = pairs.table(["intent", "origin", "split"])
    rows = rows.filter(pc.and_(pc.equal(rows["origin"], "dm"), pc.equal(rows["split"], "train")))
    counts = {row["values"]: row["counts"] for row in pc.value_counts(rows["intent"]).to_pylist()}
    return {intent: _rate(asked, intent, counts.get(intent, 0), wanted) for intent in asked["intents"]}


def _made_of(store: Store, manifest: Manifest) -> set[Ref]:
    """The versions that a version was made of, however far back."""
    found, new = set[Ref](), [manifest]
    while new:
        refs = {Ref.parse(name) for names in new.pop().inputs.values() for name in names} - found
        found |= refs
        new += [load_manifest(store, ref) for ref in refs if ref.dataset.startswith("mtp")]
    return found


def _rate(asked: dict, intent: str, kept: int, wanted: int) -> float:
    now = asked.get("rates", {}).get(intent, asked["sample_rate"])
    if kept >= wanted:
        return now
    return min(1.0, max(now, _rounded_up(now * (MARGIN * wanted / kept if kept else _STEP))))


def _rounded_up(rate: float) -> float:
    """To four digits that say something."""
    unit = 10.0 ** (math.floor(math.log10(rate)) - 3) if rate > 0 else 1.0
    return float(f"{math.ceil(rate / unit) * unit:.4g}")
