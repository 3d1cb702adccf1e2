"""Words of texts, and that the library which takes them does not start JAX, which would seize a card's memory."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from pipeline_tasks.evaluation.systems import identity
from pipeline_tasks.retrieval.rank_bm25 import RankBm25Params
from pipeline_tasks.texts.words import stop_words, tokenized, words_version

TRIED = """
import sys
from pipeline_tasks.texts.words import stop_words, tokenized
print(tokenized(["levees"])[0], "the" in stop_words(), "jax" in sys.modules)
import jax
"""


def test_distinct_words_without_stop_words_by_their_places():
    words, texts = tokenized(["The river and the River's levees", "levees", "of it"])
    assert [sorted(words[place] for place in text) for text in texts] == [["levees", "river", "river"], ["levees"], []]
    assert tokenized([]) == ([], [])
    assert {"the", "of", "against"} <= stop_words()


def test_what_takes_words_from_texts_is_part_of_the_identity_of_rankings_and_evaluations():
    assert words_version() == {"bm25s": version("bm25s")}
    assert RankBm25Params().identity()["libraries"] == identity("bm25")["libraries"] == words_version()


def test_jax_is_not_started_where_it_is_installed_and_can_be_imported_afterwards(tmp_path: Path):
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("print('started')\n")
    (tmp_path / "jax" / "lax.py").write_text("def top_k(scores, k):\n    print('took the card')\n")
    (tmp_path / "tried.py").write_text(TRIED)
    root = str(Path(__file__).parents[2])
    tried = subprocess.run(
        [sys.executable, str(tmp_path / "tried.py")],
        env={"PYTHONPATH": f"{tmp_path}:{root}", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert tried.stdout.splitlines() == ["['levees'] True False", "started"]
    plain = subprocess.run(
        [sys.executable, "-c", "import bm25s"],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert plain.stdout.splitlines() == ["started", "took the card"], "bm25s starts JAX no more: the detour can go"
