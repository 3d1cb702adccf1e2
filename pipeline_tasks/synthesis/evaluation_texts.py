"""What models are evaluated with, as texts that pairs are compared with, and what pairs have of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Inputs
from pipeline_tasks.core.versions import Version
from pipeline_tasks.domains.questions import OWN_SETS, Question
from pipeline_tasks.texts.copies import KINDS, MOST_OWNERS, SHORT_WORDS, Copies, KnownTexts
from pipeline_tasks.texts.near import NearTexts

_HELD_OUT, _QUESTIONS = range(len(OWN_SETS))
_BLOCK = 10_000


class Hit(NamedTuple):
    """Pairs that are refused for one reason.

    Attributes:
        column: of the pair, that the copy is in.
        reason: kind of the copy.
        rows: places of the pairs, int64.
        sets: of each, the evaluation sets that have the text, joined by commas.
    """

    column: str
    reason: str
    rows: np.ndarray
    sets: list[str]


@dataclass
class EvaluationTexts:
    """Queries and passages of every evaluation set; a set is known by its place in ``names``."""

    names: list[str]
    near: NearTexts
    queries: KnownTexts = field(default_factory=KnownTexts)
    passages: KnownTexts = field(default_factory=lambda: KnownTexts(SHORT_WORDS))

    @classmethod
    def read(
        cls, inputs: Inputs, held_out: Iterable[Version], asked: list[Question], which: str, near: float
    ) -> EvaluationTexts:
        """Held-out pairs, judged questions and judged sets.

        Args:
            inputs: ``queries`` (judged sets) and ``passages`` (the corpus of each).
            held_out: pairs, of which those of held-out documents count.
            asked: the domain's questions.
            which: passages: ``judged``, those that answer a query of their set; ``all``; or ``none``.
            near: Jaccard similarity from which on two queries are near.

        Raises:
            InputError: more sets than a mask has bits, or a judged set without a corpus.
        """
        sets = _by_name(inputs.each("queries"))
        found = cls([*OWN_SETS, *sets], NearTexts(near))
        if len(found.names) > MOST_OWNERS:
            raise InputError(f"{len(sets)} judged sets are more than {MOST_OWNERS - len(OWN_SETS)}: name fewer in sets")
        for pairs in held_out:
            found._add_held_out(pairs, which)
        found._add_query(_QUESTIONS, pa.array([question.query for question in asked], pa.string()))
        if which != "none":
            quotes = [j.evidence for question in asked for j in question.judgements if j.grade > 0]
            found.passages.add(_QUESTIONS, pa.array(quotes, pa.string()))
        corpora = _by_name(inputs.each("passages"))
        for number, (name, queries) in enumerate(sets.items(), len(OWN_SETS)):
            if which != "none" and name not in corpora:
                raise InputError(f"judged/{name} has no corpus/{name} among the passages: give it as well")
            found._add_set(number, queries, corpora.get(name), which)
        return found

    def _add_query(self, owner: int, texts: pa.Array) -> None:
        self.queries.add(owner, texts)
        self.near.add(owner, texts)

    def _add_held_out(self, pairs: Version, which: str) -> None:
        for block in pairs.batches(["query", "passage", "split"], _BLOCK):
            held_out = block.filter(pc.equal(block["split"], "test"))
            self._add_query(_HELD_OUT, _texts(held_out, "query"))
            if which != "none":
                self.passages.add(_HELD_OUT, _texts(held_out, "passage").unique())

    def _add_set(self, owner: int, queries: Version, corpus: Version | None, which: str) -> None:
        answers: set[str] = set()
        for block in queries.batches(["query", "passage_ids", "grades"], _BLOCK):
            self._add_query(owner, _texts(block, "query"))
            relevant = pc.fill_null(pc.greater(pc.list_flatten(block["grades"]), 0), fill_value=False)
            answers.update(pc.list_flatten(block["passage_ids"]).filter(relevant).to_pylist())
        if which == "none" or corpus is None:
            return
        wanted = pa.array(sorted(answers), pa.string())
        for block in corpus.batches(["passage_id", "text"], _BLOCK):
            taken = block if which == "all" else block.filter(pc.is_in(block["passage_id"], wanted))
            self.passages.add(owner, _texts(taken, "text"))

    def found_in(self, pairs: pa.Table, passage_share: float) -> Iterator[Hit]:
        """Pairs with a copy, each once: of its query, near to a query, of its positive, of its source if any."""
        queries = _texts(pairs, "query")
        taken = np.zeros(len(pairs), bool)
        copies = self.queries.copies_among(queries)
        yield from self._of_kinds("query", "query", copies, taken)
        near = self.near.near_among(queries)
        yield from self._new("query", "query_near", near.rows, near.owners, taken)
        for column in [name for name in ("positive", "passage") if name in pairs.column_names]:
            copies = self.passages.copies_among(_texts(pairs, column), passage_share)
            yield from self._of_kinds(column, "passage", copies, taken)

    def _of_kinds(self, column: str, what: str, copies: Copies, taken: np.ndarray) -> Iterator[Hit]:
        for kind, name in enumerate(KINDS):
            of_kind = copies.kinds == kind
            yield from self._new(column, f"{what}_{name}", copies.rows[of_kind], copies.owners[of_kind], taken)

    def _new(self, column: str, reason: str, rows: np.ndarray, owners: np.ndarray, taken: np.ndarray) -> Iterator[Hit]:
        new = ~taken[rows]
        taken[rows] = True
        if new.any():
            yield Hit(column, reason, rows[new], [self._sets(mask) for mask in owners[new].tolist()])

    def _sets(self, mask: int) -> str:
        return ", ".join(name for number, name in enumerate(self.names) if mask >> number & 1)


def _texts(rows: pa.Table, column: str) -> pa.Array:
    return pc.fill_null(rows[column], "").combine_chunks()


def sets_with_corpora(inputs: Inputs) -> list[tuple[Version, Version]]:
    """Judged sets and their corpora, of those that have both."""
    corpora = _by_name(inputs.each("passages"))
    return [(queries, corpora[n]) for n, queries in _by_name(inputs.each("queries")).items() if n in corpora]


def _by_name(versions: list[Version]) -> dict[str, Version]:
    """Versions of ``judged/<name>`` or ``corpus/<name>`` by that name."""
    return {version.manifest.dataset.partition("/")[2]: version for version in versions}
