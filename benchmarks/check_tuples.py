"""How many ambiguous tuples a check by margin discards, and how many clean ones it keeps, where the truth is planted.

A tuple by rules is clean: which passage fits under which instruction is decided by its words. It becomes ambiguous by
what an LLM does that writes too freely: a passage that was written for poison says what the positive says as well, so
that it answers the original instruction and query, too. The margin is chosen on tuples of other queries.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from instructed_sets import SETS, Instructed, instructed
from judged_sets import Query
from measure import finish, show
from planted_tuples import Part, relevant_of

from pipeline_tasks.core.settings import settings
from pipeline_tasks.curation.check_tuples_by_margin import TIES, Unit, margins_of
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.evaluation.altered_instructions import words_of
from pipeline_tasks.models.use import folder
from pipeline_tasks.retrieval.open_encoder import load_encoder

DATA = Path("../shared/data/ir")
MODELS = ("all-minilm-l6-v2", "bge-small-en-v1.5", "all-mpnet-base-v2")
WISH = "Only what speaks of {} is of use."
POISON = ("instruction_passage", "query_passage")


def clean(options: argparse.Namespace, part: Part, n: int) -> list[dict]:
    """So many tuples of queries of a part, of all sets alike."""
    found: list[dict] = []
    for name in options.sets:
        given = instructed(name, options.data / name, options.words, "dev", 0, 0)
        made = tuples_of(given.parts[part], given, options.length)
        found += [one for one, _ in zip(made, range(-(-n // len(options.sets))), strict=False)]
    random.Random(0).shuffle(found)
    return found[:n]


def tuples_of(queries: Sequence[Query], given: Instructed, length: int) -> Iterator[dict]:
    """A tuple of each query with two relevant passages, each of which says something that the other one does not.

    An instruction asks for that. The passage of the poisoned query is relevant to it, and is made to say what the
    original instruction asks for.
    """
    for place, query in enumerate(queries):
        other = queries[place - 1]
        names = relevant_of(query)[:2]
        answers = [name for name in relevant_of(other) if name not in query.judged]
        answers.sort(key=lambda name: -len(given.words.of[name] & words_of(other.text)))
        texts = [given.data.passages[name] for name in (*names, *answers[:1])]
        if len(texts) < 3 or {*names} & {*relevant_of(other)}:
            continue
        own, poisoned = (_own(*pair, query.text, length) for pair in (texts[:2], texts[1::-1]))
        if not own or not poisoned:
            continue
        yield {
            "intent": "any",
            "query": query.text,
            "instruction": WISH.format(own),
            "poisoned_instruction": WISH.format(poisoned),
            "poisoned_query": other.text,
            "positive": texts[0],
            "instruction_passage": texts[1],
            "query_passage": f"{texts[2].rstrip('. ')}, {own}.",
        }


def _own(text: str, other: str, query: str, length: int) -> str:
    """Those words in a row of which most are said neither by the other passage nor by the query; none where few are."""
    said, known = text.rstrip(". ").split(), words_of(other) | words_of(query)
    windows = [" ".join(said[at : at + length]) for at in range(len(said) - length + 1)]
    best = max(windows, key=lambda window: len(words_of(window) - known), default="")
    return best if len(words_of(best) - known) >= length / 2 else ""


def ambiguous(tuples: Sequence[dict]) -> list[dict]:
    """The same, the poison of each saying what its positive says: by turns that of the instruction and of the query."""
    return [
        one | {column: f"{one[column].rstrip('. ')}. {one['positive']}"}
        for one, column in zip(tuples, POISON * len(tuples), strict=False)
    ]


def shares(discarded: np.ndarray, lost: np.ndarray, margin: float) -> dict[str, float]:
    """Share of the ambiguous that a margin discards, and of the clean that it keeps; both are least margins, [n]."""
    return {"discarded": float((discarded < margin).mean()), "kept": float((lost >= margin).mean())}


def chosen(discarded: np.ndarray, lost: np.ndarray) -> float:
    """The lowest margin that discards nine of ten ambiguous tuples, a little above what one of them has."""
    return float(np.quantile(discarded, 0.95)) + 1e-4


def measure(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Every model and every choice of several, by passages and by sentences."""
    base = {"choose": clean(options, "tuples", options.choose), "tell": clean(options, "test", options.n)}
    found: dict[str, dict[str, float]] = {}
    for by in options.by:
        of_model = {
            name: {use: margins_by(name, tuples, by) for use, tuples in base.items()} for name in options.models
        }
        for n in range(1, len(options.models) + 1):
            for names in combinations(options.models, n):
                found[f"{', '.join(names)}, {by}"] = joint_shares([of_model[name] for name in names])
    return found


def margins_by(model: str, tuples: Sequence[dict], by: Unit) -> np.ndarray:
    """Those of the tuples, and of the same ones made ambiguous, [2, n, 3]."""
    encoder = load_encoder(folder(model), settings().cache, settings().threads)
    found = margins_of(TUPLES.table([*tuples, *ambiguous(tuples)]), encoder, by)
    return found.reshape(2, len(tuples), -1)


def joint_shares(of_models: Sequence[Mapping[str, np.ndarray]]) -> dict[str, float]:
    """What models find together: of each question the largest margin counts."""
    best = {use: np.max([one[use] for one in of_models], axis=0) for use in ("choose", "tell")}
    right, wrong = best["choose"].min(axis=2)
    margin = chosen(wrong, right)
    right, wrong = best["tell"].min(axis=2)
    leaky = best["tell"][1, 0::2, 0]
    own = {"n": float(len(wrong)), "margin": margin, **shares(wrong, right, margin)}
    own["not_poison"] = float((leaky < margin).mean())
    return own | {f"{name} at the default": value for name, value in shares(wrong, right, TIES).items()}


def main() -> None:
    """Check what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["multihoprag_snippets", "climate_fever_local"])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the judged sets")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--by", nargs="+", choices=("passage", "sentence"), default=["passage", "sentence"])
    parser.add_argument("--words", type=int, default=40, help="after which passages are cut")
    parser.add_argument("--length", type=int, default=6, help="of what an instruction asks for, in words")
    parser.add_argument("-n", type=int, default=200, help="clean tuples, and as many ambiguous ones")
    parser.add_argument("--choose", type=int, default=60, help="by which the margin is chosen")
    options = parser.parse_args()
    found = measure(options)
    columns = list(next(iter(found.values())))
    show("tuples by rules", ("model, by", *columns), [[name, *own.values()] for name, own in found.items()])
    finish({name: {k: round(v, 4) for k, v in own.items()} for name, own in found.items()})


if __name__ == "__main__":
    main()
