"""What an erasure cannot take rows out of: models that learned from them, and what stands for these models' weights."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline_tasks.core.manifest import Manifest
from pipeline_tasks.core.pins import Deletion
from pipeline_tasks.core.schema import FILES
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.upkeep.check import Damage, forget
from pipeline_tasks.core.versions import refs


def trained_on_it(manifests: list[Manifest]) -> list[Manifest]:
    """Versions of files made from one that has other content since, or from such a model; those come first."""
    changed = {str(m.ref): m.content for m in manifests if m.erased or m.learned_from}
    found: list[Manifest] = []
    marked = set[str]()
    models, known = [manifest for manifest in manifests if manifest.rows_schema == FILES], -1
    while known != len(found):
        known = len(found)
        for model in models:
            read = (name for names in model.inputs.values() for name in names)
            learned = any(name in changed and changed[name] != model.learned_from.get(name) for name in read)
            if model not in found and (learned or _reads(model, marked)):
                found.append(model)
                marked.add(str(model.ref))
    return found


def made_by(models: Iterable[Manifest], manifests: Iterable[Manifest]) -> list[Manifest]:
    """Versions of rows that read one of ``models``, such as its scores.

    What was made of such rows is none of these: a pool of what the models found holds passages, and queries that were
    judged on it, and models whose checkpoints these chose, are of no dropped weights.
    """
    names = {str(model.ref) for model in models}
    return [made for made in manifests if made.rows_schema != FILES and _reads(made, names)]


def drop(store: Store, models: list[Manifest], made: list[Manifest], right: Deletion) -> None:
    """Forget these versions: their steps make them again, and ``foundry gc`` drops the files. For when no step runs.

    What was made of a model goes before it: of one that is gone nothing is found any more.
    """
    versions = [*made, *reversed(models)]
    gone = {version.ref for version in versions}
    forget(store, Damage({}, versions, {key: None for key, ref in refs(store).items() if ref in gone}, 0), right)


def _reads(made: Manifest, wanted: set[str]) -> bool:
    return any(not wanted.isdisjoint(names) for names in made.inputs.values())
