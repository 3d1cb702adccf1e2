"""Contamination: no pair whose query, positive or source passage a model is evaluated with is trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, PrivateAttr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.execution.withdrawals import FEW_ROWS
from pipeline_tasks.core.ids import digest
from pipeline_tasks.core.made_from import check_corpora
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, StepParams, step, tuning
from pipeline_tasks.datasets import JUDGED_QUERIES, PAIRS, PASSAGES
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.questions import OWN_SETS, Question, load_questions
from pipeline_tasks.synthesis.evaluation_texts import EvaluationTexts, sets_with_corpora

_BLOCK = 10_000
_SHOWN = 200


class DecontaminatePairsParams(StepParams):
    """What models are evaluated with, and what of it no pair may have."""

    sets: tuple[str, ...] = Field(
        (), description="judged sets, as datasets judged/<set> and corpus/<set>, besides held-out queries and questions"
    )
    questions: bool = Field(True, description="also the domain's judged questions, and the quotes that answer them")
    passages: Literal["judged", "all", "none"] = Field(
        "judged", description="passages of the sets that no pair may copy: judged: relevant ones; all; none"
    )
    passage_share: float = Field(
        0.5, ge=0, le=1, description="fraction of a passage's 13-grams of words that makes a copy; 0: one is enough"
    )
    near: float = Field(
        0.9, ge=0.5, le=1, description="word Jaccard from which a query is a copy of an evaluation query"
    )
    max_contaminated: float = tuning(
        0.05, ge=0, le=1, description="largest fraction of pairs that may be refused; beyond it the step stops"
    )
    _questions: list[Question] = PrivateAttr(default_factory=list)

    def model_post_init(self, context: Any) -> None:
        """Read the questions once, so that one run is of one state of them."""
        if both := sorted(set(self.sets) & set(OWN_SETS)):
            raise InputError(f"sets={both[0]!r} is looked at in any case; name sets of others")
        if self.questions:
            self._questions = load_questions(domain_folder())

    def check_versions(self, inputs: Inputs) -> None:
        """Refuse a set with another corpus than it was judged on: its answers would be looked for in vain."""
        if self.passages != "none":
            check_corpora(sets_with_corpora(inputs))

    def identity(self) -> dict[str, Any]:
        """The parameters, and what the questions say."""
        return super().identity() | {"asked": digest([q.model_dump(mode="json") for q in self._questions])}

    @property
    def judged_questions(self) -> list[Question]:
        """The domain's judged questions, if they are to be looked at."""
        return self._questions


EVALUATION_SETS = {
    "queries": From(JUDGED_QUERIES, "judged/{item}", each="sets"),
    "passages": From(PASSAGES, "corpus/{item}", each="sets"),
}
"""What :func:`refuse_copies` reads besides pairs or triplets."""


@step(
    reads={"pairs": From(PAIRS, "mtp/combined"), **EVALUATION_SETS},
    writes=PAIRS,
    kind="reduce",
    dataset="mtp",
    keeps=("pairs",),
    version="3",
)
def decontaminate_pairs(inputs: Inputs, params: DecontaminatePairsParams, run: Run) -> None:
    """Refuse a pair whose texts are copies of what a model is evaluated with; pairs of held-out documents stay.

    Queries are compared with queries, and what a pair is trained to find, its positive and its source passage, with
    passages that answer a query of an evaluation set. Other passages of an evaluation corpus are nobody's answer: to
    train and to evaluate on one corpus is usual, and no contamination. Documents of one publisher share sentences, so a
    passage is a copy where half of it is, a query where 13 words in a row are. An answer of 8 to 12 words is found
    whole inside a longer text.

    Reasons of rejects, one a pair: ``query_exact``, ``query_normalised`` (the same words), ``query_13gram``,
    ``query_near``, ``passage_exact``, ``passage_normalised``, ``passage_13gram``; the detail names the sets. Counters
    ``contaminated/<set>/<reason>`` say how many.

    Raises:
        InputError: more than the share ``max_contaminated`` would be refused, and more than ten pairs.

    Source: DMRetriever, appendix C. Departures: it matches strings of queries and passages; here copies of words and
    near-duplicate queries count, too. It counts all passages of the evaluation's corpus, as ``passages=all`` does.
    """
    refuse_copies(inputs, params, run)


def refuse_copies(
    inputs: Inputs,
    params: DecontaminatePairsParams,
    run: Run,
    *,
    of: str = "pairs",
    held_out: Sequence[str] = ("pairs",),
    as_read: Callable[[pa.Table], pa.Table] = lambda rows: rows,
) -> None:
    """Reject those rows of the input ``of`` that :func:`decontaminate_pairs` speaks of, and count them.

    Args:
        inputs: judged sets besides.
        params: what is a copy.
        run: what it tells.
        of: pairs or triplets; the latter have no source passage.
        held_out: inputs with pairs, of which those of held-out documents are evaluated with; those that are there.
        as_read: rows with their texts as they were before anything was added to them.

    Raises:
        InputError: as there.
    """
    apart = [inputs[name] for name in held_out if name in inputs]
    known = EvaluationTexts.read(inputs, apart, params.judged_questions, params.passages, params.near)
    found: Counter[str] = Counter()
    checked = refused = 0
    pairs = inputs[of]
    further = [name for name in ("passage", "instruction") if pairs.has(name)]
    columns = ["query_id", "query", "positive", "split", *further]
    with run.progress(pairs.manifest.rows, of) as meter:
        for block in pairs.batches(columns, _BLOCK):
            trained = block.filter(pc.fill_null(pc.not_equal(block["split"], "test"), fill_value=True))
            checked += len(trained)
            for hit in known.found_in(as_read(trained), params.passage_share):
                rows = trained.take(pa.array(hit.rows))
                texts = pc.utf8_slice_codeunits(pc.fill_null(rows[hit.column], ""), 0, _SHOWN)
                details = pc.binary_join_element_wise(pa.array(hit.sets), texts, ": ")
                run.reject_all(rows["query_id"].combine_chunks(), hit.reason, details.combine_chunks())
                refused += len(rows)
                found.update(f"{name}/{hit.reason}" for sets in hit.sets for name in sets.split(", "))
            meter.advance(len(block))
    run.count(f"{of}_checked", checked)
    for name, n in found.items():
        run.count(f"contaminated/{name}", n)
    if params.max_contaminated < 1 and refused > max(FEW_ROWS, params.max_contaminated * checked):
        most = ", ".join(f"{n:,} {name}" for name, n in found.most_common(5))
        raise InputError(
            f"{refused:,} of the {checked:,} {of} of {pairs.manifest.ref} have copies of what models are evaluated "
            f"with, more than max_contaminated={params.max_contaminated:g} allows: {most}; see where they come from, "
            "or let them be refused by --set max_contaminated=1"
        )
