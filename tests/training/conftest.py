"""Toy rows that a tiny random model can learn."""

from functools import partial
from pathlib import Path

import pytest

from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.follow_instructions import plain_rows_of, rows_of
from pipeline_tasks.training.parallel import processes
from tests import shapes
from tests.forked import forked
from tests.shapes import FILLERS, TOPICS
from tests.training.made import planted


@pytest.fixture
def forked_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that train together are forks of one that has imported what they need, not begun anew."""
    monkeypatch.setattr(processes, "get_context", lambda _: forked())


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain transformers folder, dropout on, without a pooler."""
    return shapes.make("bert", tmp_path_factory.mktemp("tiny_bert"))


def passage(topic: int, variant: int = 0) -> str:
    """A passage about ``topic``, of a length that differs by topic and variant."""
    fillers = [FILLERS[(topic * 5 + variant * 3 + i) % len(FILLERS)] for i in range(3 + (topic + variant) % 9)]
    return " ".join([*fillers, TOPICS[topic], FILLERS[variant]])


def query(topic: int, variant: int = 0) -> str:
    """A query that shares only the topic word with its passage."""
    return f"{FILLERS[(topic + 3 * variant + 7) % len(FILLERS)]} {TOPICS[topic]}"


@pytest.fixture(scope="session")
def rows() -> Examples:
    """One row per topic, each with three to five negatives of other topics."""
    topics = range(len(TOPICS))
    return Examples.of(
        queries=[query(t) for t in topics],
        positives=[passage(t) for t in topics],
        negatives=[[passage((t + k) % len(TOPICS)) for k in range(1, 4 + t % 3)] for t in topics],
    )


@pytest.fixture(scope="session")
def lists() -> Examples:
    """One list per topic, of two to five passages with a ranker's scores, of which the topic's own is the first."""
    topics = range(len(TOPICS))
    others = [[passage((t + k) % len(TOPICS), k) for k in range(1, 2 + t % 4)] for t in topics]
    scores = [[12.0, *(5.0 - k for k in range(len(texts)))] for texts in others]
    return Examples.of([query(t) for t in topics], [passage(t) for t in topics], others, targets=scores)


@pytest.fixture(scope="session")
def tuples() -> Examples:
    """The questions of a tuple for each topic, and its queries without instruction."""
    given, layout = TUPLES.table([planted(topic, "train") for topic in range(len(TOPICS))]), Layout("mean", 24)
    return Examples(partial(iter, [*rows_of(given, layout), *plain_rows_of(given, layout)]))


@pytest.fixture(scope="session")
def many_rows() -> Examples:
    """Six wordings of each topic, so that the topic word is what can be learned; four negatives a row."""
    pairs = [(topic, variant) for variant in (0, 3, 4, 5, 6, 7) for topic in range(len(TOPICS))]
    return Examples.of(
        queries=[query(*pair) for pair in pairs],
        positives=[passage(*pair) for pair in pairs],
        negatives=[[passage((t + k) % len(TOPICS), v) for k in (1, 5, 9, 14)] for t, v in pairs],
    )


@pytest.fixture(scope="session")
def dev() -> Examples:
    """Other wordings of the topics."""
    topics = range(len(TOPICS))
    return Examples.of([query(t, 1) for t in topics], [passage(t, 2) for t in topics])
