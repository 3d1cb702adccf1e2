"""Paths from a dataset to the versions that it was made from: how a run finds, once, which versions it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any

from foundry_airflow.backends import parameters_of
from foundry_airflow.operators import flat
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.local_files import for_a_form
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import load_manifest, resolve
from pipeline_tasks.retrieval.reference_models import first_of_panels

ARROW = " > "
OF_PAIRS = ("mtp > pairs > dm > needs > passages", "mtp > pairs > own > passages")
Starts = dict[str, str]
Where = str | Callable[[Store, Starts], list[str]]


def follow(store: Store, path: str, starts: Starts | None = None) -> list[str]:
    """The versions at the end of ``path``: a dataset, then names of inputs or of datasets that it was made from.

    ``labelled > rankings > queries``: query embeddings behind the rankings that ``labelled`` was made from. A name with
    a star, ``labelled > rankings > embeddings/*``, may find none.

    Args:
        store: where they are.
        path: as above.
        starts: dataset -> the version that a path begins with. Of any other dataset that is the latest, which is added,
            so that all paths of one run begin with the same version.

    Raises:
        InputError: the dataset is not in the store, or was made from nothing of that name.
    """
    start, *names = path.split(ARROW)
    starts = {} if starts is None else starts
    if start not in starts:
        starts[start] = str(resolve(store, Ref.parse(start)))
    refs = [starts[start]]
    for name in names:
        sources = [source for ref in refs for source in load_manifest(store, Ref.parse(ref)).inputs.items()]
        refs = [ref for key, found in sources for ref in found if _is(name, key, ref)]
        if not refs and "*" not in name:
            known = ", ".join(sorted({key for key, _ in sources})) or "nothing"
            raise InputError(f"{path!r}: no {name!r} there; it was made from: {known}")
    return refs


def _is(name: str, key: str, ref: str) -> bool:
    return fnmatchcase(key, name) or fnmatchcase(Ref.parse(ref).dataset, name)


def best_rankings(store: Store, starts: Starts | None = None) -> list[str]:
    """The rankings of the first judge of every intent, behind ``labelled``: negatives come from these."""
    (labelled,) = follow(store, "labelled", starts)
    best = first_of_panels(load_manifest(store, Ref.parse(labelled)).params["judges"])
    return [ref for model in best for ref in follow(store, f"labelled{ARROW}rankings/{model}", starts)]


def inputs_by_parameters(
    store: Store, name: str, values: dict[str, Any], inputs: list[str], starts: Starts, made: Sequence[str] = ()
) -> dict[str, list[str]]:
    """The versions that step ``name`` reads as each of ``inputs`` where nobody gives it any but its parameters.

    Datasets that the run has yet to make, ``made``, are left out.

    Raises:
        InputError: one is not in the store, or the step cannot have these parameters.
    """
    step = get_step(name)
    with for_a_form():
        params = step.parse(parameters_of(step, values))
    datasets = {one: [name for name in step.reads[one].defaults(params) if name not in made] for one in inputs}
    params.check_inputs([one for one, found in datasets.items() if found])
    return {
        one: [ref for dataset in found for ref in follow(store, dataset, starts)] for one, found in datasets.items()
    }


def input_from_outputs(store: Store, name: str, values: dict[str, Any], one: str, versions: Any) -> list[str]:
    """Of the outputs of tasks, some perhaps skipped, those that the parameters of step ``name`` name as ``one``."""
    starts = {Ref.parse(version).dataset: version for version in flat(versions)}
    return inputs_by_parameters(store, name, values, [one], starts)[one]


def passages_of_pairs(store: Store, starts: Starts | None = None) -> list[str]:
    """The passages that the pairs of ``mtp`` were written from, or that pairs of your own name; else the latest."""
    for path in OF_PAIRS:
        with suppress(InputError):
            if len(found := set(follow(store, path, starts))) == 1:
                return list(found)
    return follow(store, "passages", starts)


def stages(store: Store, model: str) -> list[str]:
    """The versions that ``model`` was trained through, the first one first, itself last."""
    refs = [str(resolve(store, Ref.parse(model)))]
    while init := load_manifest(store, Ref.parse(refs[0])).inputs.get("init"):
        refs = [*init, *refs]
    return refs


def read(store: Store, paths: dict[str, Where], named: dict[str, Any], starts: Starts) -> dict[str, list[str]]:
    """What a run reads: the versions of each path, and of what steps read by their parameters."""
    found = {key: path(store, starts) if callable(path) else follow(store, path, starts) for key, path in paths.items()}
    for name, (values, inputs, *made) in named.items():
        of_step = inputs_by_parameters(store, name, values, inputs, starts, *made)
        found |= {f"{name}.{one}": refs for one, refs in of_step.items()}
    return found
