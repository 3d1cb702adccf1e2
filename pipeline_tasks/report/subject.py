"""What a report is about: one trained model and the evaluations that have it, found in the lineage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage.fold import fold
from pipeline_tasks.core.lineage.query import ALL_ROWS, answer, bring_shown, connect
from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import resolve

Ask = Callable[..., list[dict[str, Any]]]
"""A SELECT and the values of its ``?``; all rows of the answer."""

_EVALUATED = """
SELECT dataset || '@' || version AS ref FROM versions SEMI JOIN evaluated_queries USING (dataset, version)
ORDER BY created_at DESC, ref LIMIT 1
"""
_TRAINED = """
SELECT dataset || '@' || version AS ref FROM versions WHERE dataset LIKE 'model/%' ORDER BY created_at DESC, ref LIMIT 1
"""
_MODEL_OF = """
SELECT DISTINCT model_version AS ref, m.created_at
FROM evaluated_queries e JOIN versions m ON m.dataset || '@' || m.version = e.model_version
WHERE e.dataset = ? AND e.version = ? ORDER BY m.created_at DESC, ref LIMIT 1
"""
_EVALUATIONS_OF = """
SELECT e.dataset || '@' || e.version AS ref, e.system
FROM evaluated_queries e JOIN versions v USING (dataset, version)
WHERE e.model_version = ?
GROUP BY e.dataset, e.version, e.system, v.created_at
QUALIFY row_number() OVER (PARTITION BY e.dataset ORDER BY v.created_at DESC, e.version) = 1
ORDER BY e.dataset LIKE '%-instructions', count(*) DESC, ref
"""


@dataclass(frozen=True)
class Subject:
    """A trained model and where it was evaluated.

    Attributes:
        model: ``dataset@version``; empty where an evaluation has no trained model.
        system: what the evaluations call it; empty where there are none.
        evaluations: one of each set, ``dataset@version``; the one that was asked for first, else the largest first,
            those with instructions last.
    """

    model: str
    system: str
    evaluations: tuple[str, ...]

    @property
    def newest_work(self) -> str:
        """What everything behind the report led to."""
        return self.model or self.evaluations[0]


@contextmanager
def lineage(store: Store) -> Iterator[Ask]:
    """Questions to the lineage of everything that was finished before; all answers are of one moment."""
    with connect(fold(store), store.folder / "objects") as con:
        bring_shown(store, con)
        yield lambda sql, *values: answer(con, sql, list(values), max_rows=ALL_ROWS).to_pylist()


def subject(store: Store, ask: Ask, name: str | None = None) -> Subject:
    """What ``name`` means, an evaluation or a model; without one the model that was evaluated last.

    Raises:
        InputError: it is neither, or nothing was evaluated yet.
    """
    if name is None:
        found = ask(_EVALUATED) or ask(_TRAINED)
        if not found:
            raise InputError("there is neither an evaluation nor a model to report on; run evaluate_retriever first")
        name = found[0]["ref"]
        name = _model_of(ask, Ref.parse(name)) or name
    ref = resolve(store, Ref.parse(name))
    if ref.dataset.startswith("model/"):
        model, first = str(ref), []
    elif ref.dataset.startswith("eval/"):
        model, first = _model_of(ask, ref), [str(ref)]
    else:
        raise InputError(f"{ref} is neither eval/… nor model/…: name what a report can be about")
    found = ask(_EVALUATIONS_OF, model)
    sets = {Ref.parse(known).dataset for known in first}
    others = [row["ref"] for row in found if Ref.parse(row["ref"]).dataset not in sets] if model else []
    system = found[0]["system"] if model and found else ""
    return Subject(model, system, (*first, *others))


def _model_of(ask: Ask, ref: Ref) -> str:
    """The model of an evaluation that was trained last; empty where it has none."""
    models = ask(_MODEL_OF, ref.dataset, ref.version)
    return models[0]["ref"] if models else ""
