"""Tasks of mteb, of files with a JSON object a line, that have no queries and passages: similarity, classification."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import file_sha256, short_id
from pipeline_tasks.core.paths import absolute_path
from pipeline_tasks.evaluation.mteb_task import TEST, in_memory

if TYPE_CHECKING:
    from mteb.abstasks.classification import AbsTaskClassification
    from mteb.abstasks.sts import AbsTaskSTS

TRAIN = "train"
_MOST = 1e300
"""A score beyond it is none that arithmetic can go on with."""


def similarity_task(source: str | Path, name: str) -> AbsTaskSTS:
    """Scored pairs as a task of mteb; its main score is Spearman's correlation of cosines with ``score``.

    Args:
        source: a file of lines with ``sentence1``, ``sentence2`` and a number ``score`` of any scale, or a folder that
            has it as ``test.jsonl``.
        name: of the task.

    Raises:
        InputError: there is no such file, a line is no such object, or all scores are the same.
    """
    from datasets import Dataset
    from mteb.abstasks.sts import AbsTaskSTS

    path = _file(source, TEST)
    rows = list(_rows(path))
    columns: dict[str, list[Any]] = {
        side: [_text(row, side, where) for where, row in rows] for side in ("sentence1", "sentence2")
    }
    scores = [_number(row, where) for where, row in rows]
    if len({*scores}) < 2:
        raise InputError(f"{path} has {len({*scores})} different scores: nothing can be in their order")
    data = Dataset.from_dict(columns | {"score": scores})
    return in_memory(AbsTaskSTS, _facts(name, "STS", "cosine_spearman", [path]), {TEST: data})


def classification_task(folder: str | Path, name: str) -> AbsTaskClassification:
    """Labelled texts as a task of mteb: a classifier learns from vectors of a few texts of each label.

    That is 8 texts a label, ten times drawn anew; its main score is the mean accuracy on the test texts.

    Args:
        folder: has ``train.jsonl`` and ``test.jsonl``, lines with ``text`` and ``label``, a word or a number.
        name: of the task.

    Raises:
        InputError: a file is missing, a line is no such object, there is one label, or the files' labels differ.
    """
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.classification import AbsTaskClassification

    paths = {split: _file(folder, split) for split in (TRAIN, TEST)}
    texts, labels = dict[str, list[str]](), dict[str, list[str]]()
    for split, path in paths.items():
        rows = list(_rows(path))
        texts[split] = [_text(row, "text", where) for where, row in rows]
        labels[split] = [_text(row, "label", where) for where, row in rows]
    known = sorted({*labels[TRAIN]})
    if len(known) < 2 or known != sorted({*labels[TEST]}):
        raise InputError(f"{folder}: train.jsonl and test.jsonl are to have the same labels, two at least")
    splits = {
        split: Dataset.from_dict({"text": texts[split], "label": [known.index(label) for label in labels[split]]})
        for split in paths
    }
    facts = _facts(name, "Classification", "accuracy", list(paths.values()))
    return in_memory(AbsTaskClassification, facts, DatasetDict(splits))


def _facts(name: str, kind: str, main_score: str, paths: Sequence[Path]) -> dict[str, Any]:
    revision = short_id([file_sha256(path) for path in paths])
    dataset = {"path": name, "revision": revision}
    return {"name": name, "description": name, "dataset": dataset, "type": kind, "main_score": main_score}


def _file(source: str | Path, split: str) -> Path:
    path = absolute_path(source)
    path = path / f"{split}.jsonl" if path.is_dir() else path
    if not path.is_file():
        raise InputError(f"there is no {path}: name a file of lines of JSON, or a folder with {split}.jsonl")
    return path


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where each row stands, and the row."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error})") from error
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is not JSON ({error})") from error
        if not isinstance(row, dict):
            raise InputError(f"{where} is no object but {line.strip()[:60]!r}")
        yield where, row


def _text(row: dict[str, Any], field: str, where: str) -> str:
    value = row.get(field)
    if value is None or not str(value).strip():
        raise InputError(f"{where} has no {field!r}: its fields are {', '.join(row) or 'none'}")
    return str(value)


def _number(row: dict[str, Any], where: str) -> float:
    value = row.get("score")
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MOST:
        raise InputError(f"{where} has the score {value!r}: it is to be a number")
    return float(value)
