"""What the store knows of a model beside its files: lineage, what it learned from, licences, scores.

A model's own card is written with it and says how it was trained. Scores come later, and the rest is in manifests, so
these are put on the copy that leaves the store.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.query import ALL_ROWS, query
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import Version
from pipeline_tasks.datasets import PAIRS, PASSAGES, RANK_LISTS, SCORED_TRIPLETS, TRIPLETS, TUPLES

_PARTS = {PAIRS.name: "origin", PASSAGES.name: ""} | dict.fromkeys(
    (schema.name for schema in (TRIPLETS, SCORED_TRIPLETS, TUPLES, RANK_LISTS)), "intent"
)
"""Schema of what models learn from -> column that says what kinds of rows there are."""


def facts_of(version: Version) -> dict[str, dict[str, str]]:
    """Sections of a model's card: title -> facts."""
    chain = _models(version)
    return {
        "Lineage": {str(model.manifest.ref): _made(model) for model in chain},
        "Data": {str(ref): _composition(version.store, ref) for ref in _data(chain)},
        "Licences": dict(sorted(version.manifest.licences.items())),
        "Scores": _scores(version),
    }


def _models(version: Version) -> list[Version]:
    """The model, those that it started from or is the mean of, and so on, each once; not what is gone."""
    found = [version]
    for model in found:
        inputs = model.manifest.inputs
        for ref in map(Ref.parse, (*inputs.get("init", ()), *inputs.get("models", ()))):
            if all(known.manifest.ref != ref for known in found):
                with suppress(InputError):
                    found.append(Version.open(version.store, ref))
    return found


def _made(model: Version) -> str:
    read = ", ".join(f"{name}={' '.join(refs)}" for name, refs in sorted(model.manifest.inputs.items()))
    return f"{model.manifest.step} v{model.manifest.code_version} from {read or 'nothing'}"


def _data(chain: list[Version]) -> list[Ref]:
    """Datasets that any of these models read, the last one's first, each once; models are none."""
    found = (Ref.parse(ref) for model in chain for refs in model.manifest.inputs.values() for ref in refs)
    models = {str(model.manifest.ref) for model in chain}
    return list(dict.fromkeys(ref for ref in found if str(ref) not in models))


def _composition(store: Store, ref: Ref) -> str:
    """Rows by split, and by kind within it."""
    try:
        version = Version.open(store, ref)
        made = version.manifest
        if made.rows_schema == FILES:
            return "a model"
        if made.rows_schema not in _PARTS:
            return f"{made.rows:,} rows of {made.rows_schema or 'no kind'}"
        kind = _PARTS[made.rows_schema]
        counts: Counter[tuple[str, str]] = Counter()
        for rows in version.batches(["split", *([kind] if kind else [])], 65_536):
            kinds = rows[kind].fill_null("").to_pylist() if kind else [""] * len(rows)
            counts.update(zip(rows["split"].fill_null("").to_pylist(), kinds, strict=True))
    except InputError:
        return "not in the store any more"
    splits = sorted({split for split, _ in counts}, reverse=True)
    return "; ".join(_of_split(split, {k: n for (of, k), n in counts.items() if of == split}) for split in splits)


def _of_split(split: str, counts: dict[str, int]) -> str:
    named = any(counts)
    kinds = ", ".join(f"{kind or 'unknown'} {n:,}" for kind, n in sorted(counts.items()) if named)
    return f"{split or 'of no split'} {sum(counts.values()):,}" + (f" ({kinds})" if kinds else "")


def _scores(version: Version) -> dict[str, str]:
    """Evaluation and metric -> mean over intents, of the latest evaluation of each set that has this version."""
    sql = """SELECT e.dataset, e.metric, round(e.score, 4) AS score, e.n_queries
             FROM evaluations e JOIN versions v USING (dataset, version)
             WHERE e.model_version = ? AND e.intent = 'average'
             QUALIFY row_number() OVER (PARTITION BY e.dataset, e.metric ORDER BY v.created_at DESC, e.version) = 1
             ORDER BY e.dataset, e.metric"""
    rows = query(version.store, sql, [str(version.manifest.ref)], rows=False, max_rows=ALL_ROWS).to_pylist()
    return {f"{row['dataset']}, {row['metric']}": f"{row['score']:.4f} ({row['n_queries']:,} queries)" for row in rows}
