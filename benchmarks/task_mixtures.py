"""One task or several, in their natural shares or alike, told apart by the form of a query or not: what a model learns.

As many rows each: of one task alone, of all as often as they come, of all alike (``uniform``), the same with tasks put
before their texts without a delimiter (``joined``) and without tasks (``untold``). Every model is scored on all
targets, asked in the form that it was trained with. No checkpoint is chosen: the last step's weights are scored.

Source: Gecko 4.3 and Table 2. Departures: no task is classification, and similar sentences are people's, not written.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from judged_sets import JudgedSet, disaster_guides, multihoprag_snippets, smaller
from learning_rows import RANKS, Arrays, load_or_make
from measure import finish, sd, show
from short_trainings import NOTHING, after_training, params_of, parser_of, start_of, vectors

from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.encoders.layout import SEPARATOR
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training.data.examples import Examples

OBJECTIVE = {"name": "same_tower"}
TASKS = {
    "guide questions": "Given a question, find the passage of a guide that answers it",
    "guide claims": "Given a claim, find the passage of a guide that supports or refutes it",
    "news questions": "Given a question, find the news snippet that answers it",
    "similar sentences": "Given a sentence, find one that means the same",
}
BETWEEN = {"told": SEPARATOR, "joined": " "}
"""What is between a task and its text; in every other form the task is left out."""
INTENTS = {"qa": "guide questions", "qadoc": "guide questions", "factcheck": "guide claims"}
"""Task of the judged queries of an intent; those of other intents take no part."""
SAME = 4.4
"""Of 5: from here on two sentences are taken for the same."""


@dataclass(frozen=True)
class Pool:
    """What there is to learn from and to be scored on.

    Attributes:
        pairs: text and positive, by task.
        judged: sets to search in, by name.
        similar: two sentences and how people scored them.
    """

    pairs: Mapping[str, list[tuple[str, str]]]
    judged: Mapping[str, JudgedSet]
    similar: list[tuple[str, str, float]]

    def rows(self, shares: Mapping[str, float], n: int) -> list[tuple[str, str, str]]:
        """Task, text, positive: of each task its share of ``n``, drawn by a hash, again from the start if too few."""
        found = []
        for task, share in shares.items():
            drawn = sorted(self.pairs[task], key=lambda pair: unit_hash("task", *pair))
            found += [(task, *drawn[at % len(drawn)]) for at in range(round(share * n))]
        return found

    def texts(self, form: str) -> dict[str, list[str]]:
        """What is encoded to score a model that was trained with that form."""
        asked = [asks(task_of(name, q.intent), q.text, form) for name, of in self.judged.items() for q in of.queries]
        ones, others, _ = zip(*self.similar, strict=True)
        sides = [asks("similar sentences", text, form) for text in (*ones, *others)]
        corpora = {name: list(of.passages.values()) for name, of in self.judged.items()}
        return {"queries": asked + sides} | corpora

    def scores(self, found: Arrays) -> dict[str, float]:
        """NDCG@10 of each judged set and Spearman's rank correlation with the scores of similar sentences."""
        from scipy.stats import spearmanr

        figures, at = {}, 0
        for name, of in self.judged.items():
            asked = found["queries"][at : (at := at + len(of.queries))]
            figures[name] = of.mean(top_k(asked, found[name], RANKS)[0], "test")
        one, other = np.split(found["queries"][at:], 2)
        figures["similar sentences"] = float(
            spearmanr((one * other).sum(1), [row[2] for row in self.similar]).statistic
        )
        return figures | {"mean": float(np.mean(list(figures.values())))}


def task_of(judged: str, intent: str) -> str:
    """The task of a judged query."""
    return INTENTS[intent] if judged == "guides" else "news questions"


def asks(task: str, text: str, form: str) -> str:
    """A text as a model of that form is asked it."""
    return TASKS[task] + BETWEEN[form] + text if form in BETWEEN else text


def pool(data: Path, quick: bool) -> Pool:
    """Test queries and the passages that are judged for them, so that a model is scored in a minute."""
    guides, news = disaster_guides(data / "disaster_guides"), multihoprag_snippets(data / "multihoprag_snippets")
    of_intent = {json.loads(row)["query"]: json.loads(row)["intent"] for row in _lines(data / "disaster_guides")}
    tasks = {pair.query: INTENTS.get(of_intent[pair.query], "") for pair in guides.pairs}
    pairs = {
        name: [(pair.query, guides.passages[pair.passage_id]) for pair in guides.pairs if tasks[pair.query] == name]
        for name in TASKS
    }
    pairs["news questions"] = [(pair.query, news.passages[pair.passage_id]) for pair in news.pairs]
    scored = {split: _sentences(data / "stsb_en" / f"{split}.jsonl") for split in ("train", "test")}
    pairs["similar sentences"] = [(one, other) for one, other, score in scored["train"] if score >= SAME]
    some, similar = (12, 50) if quick else (200, 500)
    judged = {"guides": _test(guides, some, set(INTENTS)), "news": _test(news, some, {"qa"})}
    return Pool(pairs, judged, scored["test"][:similar])


def _test(data: JudgedSet, n: int, intents: set[str]) -> JudgedSet:
    """The first test queries of some intents, among all passages that are judged for any query of theirs."""
    queries = [query for query in data.queries if query.split == "test" and query.intent in intents]
    return smaller(JudgedSet(data.passages, queries, []), 0, n)


def _lines(folder: Path) -> list[str]:
    return (folder / "train.jsonl").read_text("utf-8").splitlines()


def _sentences(path: Path) -> list[tuple[str, str, float]]:
    rows = map(json.loads, path.read_text("utf-8").splitlines())
    return [(row["sentence1"], row["sentence2"], row["score"]) for row in rows]


def ways(of: Pool) -> dict[str, tuple[Mapping[str, float], str]]:
    """Shares of the tasks and form of the queries, by what they are called."""
    n = sum(map(len, of.pairs.values()))
    alike = {task: 1 / len(TASKS) for task in TASKS}
    alone: dict[str, tuple[Mapping[str, float], str]] = {f"{task} alone": ({task: 1.0}, "told") for task in TASKS}
    return alone | {
        "all": ({task: len(of.pairs[task]) / n for task in TASKS}, "told"),
        "uniform": (alike, "told"),
        "uniform, joined": (alike, "joined"),
        "uniform, untold": (alike, "untold"),
    }


def trained(of: Pool, way: str, seed: int, options: argparse.Namespace, place: Path) -> dict[str, float]:
    """Scores after training on the rows of a way. Both sentences of a similar pair are asked alike."""
    shares, form = ways(of)[way]
    rows = of.rows(shares, 32 if options.quick else options.rows)
    queries = [asks(task, text, form) for task, text, _ in rows]
    positives = [asks(task, text, form) if task == "similar sentences" else text for task, _, text in rows]
    params = params_of(options.size, seed, objective=OBJECTIVE, epochs=options.epochs)
    return of.scores(after_training(Examples.of(queries, positives), NOTHING, params, of.texts(form), place))


def main() -> None:
    """Print the table, and all scores as the last line."""
    parser = parser_of(__doc__)
    parser.add_argument("--rows", type=int, default=192, help="to train on")
    options = parser.parse_args()
    of, start = pool(options.data, options.quick), start_of(options.size)
    seeds = options.seeds[:1] if options.quick else options.seeds
    with tempfile.TemporaryDirectory() as passing:
        place = (options.keep or Path(passing)) / f"tasks{'-quick' * options.quick}"
        forms = {form: place / f"start-{options.size}-{form}.npz" for form in ("told", "joined", "untold")}
        found = {
            f"untouched, {form}": [of.scores(load_or_make(path, lambda form=form: vectors(start, of.texts(form))))]
            for form, path in forms.items()
        }
        found |= {way: [trained(of, way, seed, options, place) for seed in seeds] for way in ways(of)}
    figures = {}
    for way, each in found.items():
        figures[way] = {target: round(float(np.mean([one[target] for one in each])), 4) for target in each[0]}
        figures[way]["sd"] = round(sd([one["mean"] for one in each]), 4)
    columns = ("trained on", *next(iter(figures.values())))
    show(
        f"{options.size}, {options.rows} rows, seeds {seeds}",
        columns,
        [(way, *of.values()) for way, of in figures.items()],
    )
    finish({"rows": options.rows, "tasks": {task: len(pairs) for task, pairs in of.pairs.items()}} | figures)


if __name__ == "__main__":
    main()
