"""What the trainings of ``learning.py`` learn from beside pairs: rankings by systems as they came, and negatives.

Arrays that take long to make lie in files, and are made once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from judged_sets import JudgedSet

from pipeline_tasks.curation.agreement import NOBODY, Strategy, agreed
from pipeline_tasks.curation.rank_lists import interval_ends, sample
from pipeline_tasks.retrieval.bm25 import Bm25
from pipeline_tasks.retrieval.fusion import fuse, fused_score
from pipeline_tasks.retrieval.open_encoder import open_encoder
from pipeline_tasks.retrieval.search import top_k
from pipeline_tasks.training.data.examples import Examples

DEPTH, ALPHA, RANKS, TOP_N = 200, 0.95, 10, 2
SKIPPED, INTERVALS = 3, 3
NEAR = 10
LENGTHS = {"max_query_length": 64, "max_passage_length": 192}
FUSION = "rrf"
Arrays = Mapping[str, np.ndarray]


def load_or_make(path: Path, make: Callable[[], Arrays]) -> dict[str, np.ndarray]:
    """The arrays in ``path``; where there are none, what ``make`` gives, which then lies there."""
    if not path.is_file():
        made = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez(file, **made)
        part.replace(path)
    with np.load(path) as arrays:
        return dict(arrays)


@dataclass(frozen=True)
class References:
    """What systems that were not trained make of the judged queries and of the pairs.

    Attributes:
        judged: rankings [q, depth] of the corpus by system, fusions included.
        pairs: rankings [pairs, depth] by BM25 and by each reference model.
        vectors: of each reference model: ``judged``, ``pairs``, ``passages``.
    """

    judged: dict[str, np.ndarray]
    pairs: dict[str, np.ndarray]
    vectors: dict[str, dict[str, np.ndarray]]


def references(data: JudgedSet, models: Sequence[str], place: Path) -> References:
    """Rank everything with BM25, the models and their fusion; vectors are kept in ``place``."""
    texts = list(data.passages.values())
    asked = {"judged": [query.text for query in data.queries], "pairs": [pair.query for pair in data.pairs]}
    depth = min(DEPTH, len(texts))
    words = Bm25(texts)
    found = {side: {"bm25": words.search(queries, depth).indices} for side, queries in asked.items()}
    vectors = {}
    for name in models:
        vectors[name] = load_or_make(place / f"{name}.npz", partial(_vectors, name, asked, texts))
        for side in asked:
            found[side][name] = top_k(vectors[name][side], vectors[name]["passages"], depth)[0]
    fused = {f"{FUSION}({','.join(found['judged'])})": fuse(list(found["judged"].values()), depth)[0]}
    return References(found["judged"] | fused, found["pairs"], vectors)


def _vectors(name: str, asked: Mapping[str, Sequence[str]], passages: Sequence[str]) -> Arrays:
    encoder = open_encoder(name)
    found = {side: encoder.encode_queries(list(queries)) for side, queries in asked.items()}
    return found | {"passages": encoder.encode_passages(list(passages))}


def positives_by(data: JudgedSet, found: References, strategy: Strategy) -> list[str | None]:
    """Per pair the passage of the training documents that the models' best :data:`TOP_N` give it, if any.

    The models' order is that of the call; the pipeline's default for the strategy is N = 2, as here.
    """
    ids = np.array(list(data.passages))
    trained_on = np.isin(ids, [pair.passage_id for pair in data.pairs])
    codes = np.full((len(data.pairs), len(found.vectors), TOP_N), NOBODY, np.int32)
    for seat, name in enumerate(found.vectors):
        for row, ranked in enumerate(found.pairs[name]):
            best = ranked[trained_on[ranked] & (ranked >= 0)][:TOP_N]
            codes[row, seat, : len(best)] = best
    places = {name: place for place, name in enumerate(ids)}
    own = np.array([places[pair.passage_id] for pair in data.pairs], np.int32)
    chosen = agreed(codes, np.ones(codes.shape[:2], bool), own, strategy)
    return [None if place == NOBODY else str(ids[place]) for place in chosen]


def with_wrong_sources(data: JudgedSet, share: float) -> JudgedSet:
    """Let ``share`` of the pairs have another source than theirs: by turns any, and one of BM25's best :data:`NEAR`.

    Both are passages that pairs have, and of no pair with that query. Which pairs is drawn by the share alone.
    """
    sources = sorted({pair.passage_id for pair in data.pairs})
    chance, answers, pairs = np.random.default_rng(round(share * 1e6)), data.answers(), list(data.pairs)
    marked = np.sort(chance.choice(len(pairs), round(len(pairs) * share), replace=False))
    words = Bm25([data.passages[name] for name in sources])
    best = words.search([pairs[row].query for row in marked], 2 * NEAR).indices
    for turn, row in enumerate(marked):
        others = [sources[place] for place in best[turn]] if turn % 2 else list(chance.permutation(sources))
        others = [name for name in others if name not in answers[pairs[row].query]][:NEAR]
        pairs[row] = replace(pairs[row], passage_id=str(chance.choice(others)))
    return replace(data, pairs=pairs)


def negatives(data: JudgedSet, found: References, n_negatives: int, alpha: float = ALPHA) -> list[list[str]]:
    """Per pair so many passages of the training documents, the first model's best below alpha times the source."""
    ids = list(data.passages)
    places = {name: place for place, name in enumerate(ids)}
    answers, trained_on = data.answers(), {pair.passage_id for pair in data.pairs}
    name, vectors = next(iter(found.vectors.items()))
    mined = []
    for pair, query, ranked in zip(data.pairs, vectors["pairs"], found.pairs[name], strict=True):
        limit = alpha * float(query @ vectors["passages"][places[pair.passage_id]])
        close = [ids[p] for p in ranked if query @ vectors["passages"][p] < limit]
        mined.append([i for i in close if i in trained_on and i not in answers[pair.query]][:n_negatives])
    return mined


def spread(data: JudgedSet, found: References) -> list[list[str]]:
    """Per pair a passage of each of three intervals of the ranking by BM25, as ``lead=own`` draws them."""
    ids, trained_on = list(data.passages), {pair.passage_id for pair in data.pairs}
    answers = data.answers()
    drawn = []
    for pair, ranked in zip(data.pairs, found.pairs["bm25"], strict=True):
        others = [ids[p] for p in ranked if p >= 0 and ids[p] in trained_on and ids[p] not in answers[pair.query]]
        behind = others[SKIPPED:]
        ends = interval_ends(np.arange(len(behind), 0, -1), INTERVALS, "doubling", "rank", SKIPPED)
        drawn.append([behind[rank] for rank in sample(pair.query, ends, 1)[0]])
    return drawn


def taught(data: JudgedSet, mined: list[list[str]], found: References, teacher: str) -> list[list[float]]:
    """A teacher's score of each pair's source and negatives."""
    places = {name: place for place, name in enumerate(data.passages)}
    wanted = [[places[i] for i in (pair.passage_id, *ids)] for pair, ids in zip(data.pairs, mined, strict=True)]
    if teacher != FUSION:
        vectors = found.vectors[teacher]
        pairs = zip(vectors["pairs"], wanted, strict=True)
        return [(vectors["passages"][row] @ query).tolist() for query, row in pairs]
    rankings = list(found.pairs.values())
    widest = max(map(len, wanted))
    columns = [np.array([row[n] if n < len(row) else -1 for row in wanted]) for n in range(widest)]
    scores = np.stack([fused_score(rankings, column) for column in columns], axis=1)
    return [row[: len(own)].tolist() for row, own in zip(scores, wanted, strict=True)]


def dev_set(data: JudgedSet) -> Examples:
    """The development queries, each with its best passage, over all passages judged for any of them."""
    queries = [query for query in data.queries if query.split == "dev"]
    best = [max(query.judged, key=query.judged.__getitem__) for query in queries]
    judged = {data.passages[name] for query in queries for name in query.judged}
    return Examples.of([q.text for q in queries], [data.passages[name] for name in best], others=sorted(judged))
