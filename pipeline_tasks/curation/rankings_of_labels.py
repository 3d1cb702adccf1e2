"""Whether the scores of labels, which bound those of negatives, compare with the rankings that are mined."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version, manifest_key
from pipeline_tasks.datasets import PAIR_EMBEDDINGS, PASSAGE_EMBEDDINGS, RANKINGS

_SCORED = {RANKINGS.name, PAIR_EMBEDDINGS.name, PASSAGE_EMBEDDINGS.name}
_NO_SCORE = {"shard_passages", "block_queries", "intents", "of_one_intent"}
"""Parameters of these that decide what is encoded, and no score of it."""
_FOUND = {"depth", "index", "recall"}
"""Those that decide what is found: its scores only where ranks are fused."""


def check_rankings_of_labels(labelled: Version, rankings: Mapping[str, Version]) -> None:
    """Make sure that labels were made by rankings with the parameters of these, of whatever passages.

    Rankings that no negatives come from pass, as do labels whose rankings are no longer in the store.

    Raises:
        InputError: a ranking, what it fuses, or its vectors have other parameters.
    """
    read = {name: version.manifest.ref for name, version in rankings.items()}
    made_by = map(Ref.parse, labelled.manifest.inputs.get("rankings", ()))
    old = {name: ref for ref in made_by if (name := ref.dataset.rsplit("/", 1)[-1]) in read}
    others = {name for name, ref in old.items() if not _comparable(labelled.store, ref, read[name])}
    refused = sorted(others & _best_models(labelled)) if others else []
    if refused:
        theirs, ours = (", ".join(str(refs[name]) for name in refused) for refs in (old, read))
        comparable = ",".join(str(old[name] if name in refused else ref) for name, ref in read.items())
        raise InputError(
            f"{labelled.manifest.ref} was made by {theirs}, of other parameters than {ours}: "
            f"run mutual_agreement again, or give --input rankings={comparable}"
        )


def _best_models(labelled: Version) -> set[str]:
    return {name for rows in labelled.parts(["best_model"]) for name in rows["best_model"].unique().to_pylist()}


def _comparable(store: Store, old: Ref, new: Ref, fused: bool = False) -> bool:
    one, other = (Manifest.read(store.read(manifest_key(ref))) for ref in (old, new))
    if old == new or one is None or other is None or one.rows_schema not in _SCORED:
        return True
    ignored = _NO_SCORE if fused else _NO_SCORE | _FOUND
    before, now = ({n: v for n, v in made.params.items() if n not in ignored} for made in (one, other))
    then, read, fuses = _sources(one), _sources(other), "rankings" in one.inputs
    return before == now and all(_comparable(store, then[key], read[key], fuses) for key in then.keys() & read.keys())


def _sources(made: Manifest) -> dict[tuple[str, str], Ref]:
    """The versions that it was made from, by input and dataset."""
    return {(name, ref.dataset): ref for name, refs in made.inputs.items() for ref in map(Ref.parse, refs)}
