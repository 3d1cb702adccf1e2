"""What training on tuples adds to an embedder's p-MRR, and costs of its plain NDCG, on queries that it has not seen.

No LLM takes part: tuples are made by rules from one half of a judged set's queries, instructions to score by are made
by the same rules for the other half. So this says whether an objective learns what its tuples say, in wordings that it
has met; it says nothing of instructions by an LLM or of people.

Source: InF-IR, Table 3, for the variants of the objective.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from judged_sets import SETS, JudgedSet, Query
from measure import finish, show

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.core.settings import settings
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.encoders.layout import layout_of
from pipeline_tasks.evaluation.altered_instructions import RULES, alter, words_of
from pipeline_tasks.evaluation.metrics import score
from pipeline_tasks.evaluation.p_mrr import p_mrr
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import folder
from pipeline_tasks.retrieval.encoders import load_encoder
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.export import export
from pipeline_tasks.training.follow_instructions import FollowInstructionsParams, rows_of
from pipeline_tasks.training.trainer import train

DATA = Path("../shared/data/ir")
OBJECTIVES = {"uni-P": ("uni", ["P"]), "uni-P-I": ("uni", ["P", "I"]), "multi-P-I": ("multi", ["P", "I"])}
DEEPEST = 1000


class Words:
    """The words of a set's passages, and how rare each is."""

    def __init__(self, data: JudgedSet) -> None:
        """Of all passages."""
        self.of = {name: words_of(text) for name, text in data.passages.items()}
        self._often = Counter(word for said in self.of.values() for word in said)

    def rarity(self, word: str) -> float:
        """The rarer in the corpus, the larger."""
        return math.log(len(self.of) / self._often[word])


def tuples_of(queries: list[Query], data: JudgedSet, words: Words) -> list[dict]:
    """A tuple for each query with two words that divide its relevant passages; every second one leaves a word out.

    That of the others wants a word, so there is none where no other query has a passage with it.
    """
    relevant = {q.text: [name for name, grade in q.judged.items() if grade > 0] for q in queries}
    found = []
    for place, query in enumerate(queries):
        made = {one.rule: one for one in alter(query.text, query.judged, words.of, words.rarity)}
        if "also" not in made:
            continue
        wants = place % 2 == 0
        x, y = made["also"].changed.split('"')[1:4:2]
        own, other = ([n for n in relevant[query.text] if word in words.of[n]] for word in (x, y))
        told, poisoned = (
            made["only" if wants else "without"].changed.replace(f'"{x}"', f'"{word}"')
            for word in ((x, y) if wants else (y, x))
        )
        fits = {name for name, said in words.of.items() if (x in said if wants else y not in said)}
        asked = ((q, n) for q in relevant if q != query.text for n in relevant[q] if n in fits)
        poison = min(asked, key=lambda one: unit_hash("poison", query.text, *one), default=None)
        if poison is None or poison[1] in relevant[query.text]:
            continue
        passages = {"positive": own[0], "instruction_passage": other[0], "query_passage": poison[1]}
        texts = {
            "query": query.text,
            "instruction": told,
            "poisoned_instruction": poisoned,
            "poisoned_query": poison[0],
        }
        found.append(texts | {part: data.passages[name] for part, name in passages.items()} | {"intent": "any"})
    return found


def measured(model: Path, queries: list[Query], data: JudgedSet, words: Words) -> dict[str, float]:
    """p-MRR by rule, and NDCG@10 without instructions."""
    encoder = load_encoder(model, settings().cache, settings().threads)
    ids, passages = list(data.passages), encoder.encode_passages(list(data.passages.values()))

    def ranked(texts: list[str], told: list[str | None]) -> list[list[str]]:
        places = top_k(encoder.encode_queries(texts, None, told), passages, min(DEEPEST, len(ids)))[0]
        return [[ids[place] for place in row] for row in places]

    texts, grades = [q.text for q in queries], [q.judged for q in queries]
    plain = score(ranked(texts, [None] * len(texts)), grades, ["ndcg@10"])["ndcg@10"]
    made = [(q.text, one) for q in queries for one in alter(q.text, q.judged, words.of, words.rarity)]
    before, after = (
        ranked([q for q, _ in made], [getattr(one, told) for _, one in made]) for told in ("instruction", "changed")
    )
    values = p_mrr(before, after, [one.grades for _, one in made], [one.changed_grades for _, one in made])
    of_rule = {rule: values[[one.rule == rule for _, one in made]] for rule in RULES}
    means = {f"p_mrr/{rule}": float(of.mean()) for rule, of in of_rule.items()}
    return {"p_mrr": float(values.mean()), **means, "ndcg@10": float(plain.mean()), "n": len(made)}


def trained(tuples: list[dict], variant: str, seed: int, options: argparse.Namespace, out: Path) -> Path:
    """The embedder after training; the last step's weights, for none is chosen here."""
    start = folder(backbone("22m").name)
    form, terms = OBJECTIVES[variant]
    lengths = {"max_query_length": 64, "max_passage_length": 128}
    objective = {"name": "instruction_contrast", "form": form, "terms": terms}
    own = {"temperature": 0.05, "learning_rate": options.rate, "epochs": options.epochs, "batch_size": options.batch}
    params = FollowInstructionsParams(size="22m", device="cpu", seed=seed, objective=objective, **own, **lengths)
    layout = replace(layout_of(start), max_length=128)
    rows = Examples(lambda: rows_of(TUPLES.table(tuples), layout))
    with tempfile.TemporaryDirectory() as work:
        result = train(rows, Examples.of(), start, params, Path(work), threads=settings().threads)
    export(result.encoder, out, card={"name": out.name}, layout=layout)
    return out


def measure(name: str, options: argparse.Namespace, place: Path) -> dict:
    """One set."""
    whole = SETS[name](options.data / name)
    queries = sorted(whole.queries, key=lambda q: unit_hash("half", q.text))
    queries = [q for q in queries if sum(grade > 0 for grade in q.judged.values()) > 1][: options.queries]
    half = len(queries) // 2
    named = [n for q in queries for n in q.judged]
    kept = set(list(dict.fromkeys([*named, *whole.passages]))[: max(options.passages, len(set(named)))])
    data = replace(whole, passages={n: text for n, text in whole.passages.items() if n in kept})
    words, test = Words(data), queries[half:]
    tuples = tuples_of(queries[:half], data, words)
    found = {"start": [measured(folder(backbone("22m").name), test, data, words)]}
    for variant in options.objectives:
        models = (trained(tuples, variant, seed, options, place / f"{variant}-{seed}") for seed in options.seeds)
        found[variant] = [measured(model, test, data, words) for model in models]
    means = {s: {k: round(float(np.mean([one[k] for one in of])), 4) for k in of[0]} for s, of in found.items()}
    spread = {s: round(float(np.std([one["p_mrr"] for one in of])), 4) for s, of in found.items()}
    title = f"{name}: {len(data.passages)} passages, {len(tuples)} tuples, {len(test)} queries, seeds {options.seeds}"
    show(title, ("system", *means["start"], "sd of p_mrr"), [[s, *of.values(), spread[s]] for s, of in means.items()])
    return {"tuples": len(tuples), "means": means, "sd": spread}


def main() -> None:
    """Run the sets that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["multihoprag_snippets"])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the judged sets")
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--queries", type=int, default=10_000, help="judged queries at most; half are for tuples")
    parser.add_argument(
        "--passages", type=int, default=1_000_000, help="of the corpus at most, besides all judged ones"
    )
    parser.add_argument("--rate", type=float, default=2e-5)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    options = parser.parse_args()
    found = {}
    for name in options.sets:
        with tempfile.TemporaryDirectory() as place:
            found[name] = measure(name, options, Path(place))
    finish(found)


if __name__ == "__main__":
    main()
