"""Judged queries with two instructions each: those of a folder in FollowIR's layout, or any judged set's by rules."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import file_sha256
from pipeline_tasks.core.local_files import is_readable_file
from pipeline_tasks.core.made_from import check_corpus
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import From, step
from pipeline_tasks.datasets import ALTERED_QUERIES, JUDGED_QUERIES, PASSAGES
from pipeline_tasks.evaluation.altered_instructions import RULES, Rule, alter, words_of
from pipeline_tasks.evaluation.folder_params import FolderParams
from pipeline_tasks.evaluation.judge_queries import ANY_INTENT, HELD_OUT
from pipeline_tasks.evaluation.judged_folder import QUERIES, JudgedFolder, not_utf8, text_of
from pipeline_tasks.evaluation.judged_rows import AT_ONCE, check_name
from pipeline_tasks.evaluation.p_mrr import changed

INSTRUCTIONS = "instruction.jsonl"
ORIGINAL, CHANGED = "-og", "-changed"


class JudgeInstructionsParams(FolderParams):
    """Whose instructions."""

    set_name: str = Field(HELD_OUT, description="name of the judged set")
    folder: str = Field("", description="folder in FollowIR's layout, here or in a bucket; none: the rules make them")
    rules: tuple[Rule, ...] = Field(
        RULES, min_length=1, description="rules that make the instructions, where no folder has them"
    )

    def model_post_init(self, context: Any) -> None:
        """Find the files.

        Raises:
            InputError: the folder has no instructions.
        """
        super().model_post_init(context)
        if self.folder and not has_instructions(self.open()):
            raise InputError(
                f"{self.open().path} has no {INSTRUCTIONS}: name no folder to have rules make instructions"
            )

    def check_versions(self, inputs: Inputs) -> None:
        """Refuse queries that were judged on other passages, which a folder's own are not."""
        if not self.folder and "queries" in inputs and "passages" in inputs:
            check_corpus(inputs["queries"], inputs["passages"])

    def identity(self) -> dict[str, Any]:
        """The parameters, and what the folder's files hold, the instructions among them."""
        hashes = {"instructions": file_sha256(self.open().path / INSTRUCTIONS)} if self.folder else {}
        return super().identity() | hashes


@step(
    reads={"queries": From(JUDGED_QUERIES, "judged/{set_name}", optional=True), "passages": PASSAGES},
    writes=ALTERED_QUERIES,
    kind="reduce",
    dataset="instructed/{set_name}",
    version="5",
)
def judge_instructions(inputs: Inputs, params: JudgeInstructionsParams, run: Run) -> pa.Table:
    """Queries with an original and a changed instruction, and what is relevant under each.

    With a folder these are its own: a query ``7`` is there twice, as ``7-og`` and ``7-changed``, each with judgements
    and an instruction. Without one, rules give every judged query instructions whose effect its passages' words decide
    (:mod:`~pipeline_tasks.evaluation.altered_instructions`). Reasons of rejects: ``nothing_changes`` (the relevance of
    no passage of this corpus), ``no_passage`` (nothing here is relevant to begin with), ``not_paired`` (one of the two
    is missing or not judged, or they are of different queries), ``blank_query``, ``no_instruction``.

    Source: Weller et al. 2024, "FollowIR"; the layout is that of its sets in mteb.

    Raises:
        InputError: there is neither a folder nor a judged set, queries are of another or were judged on other passages,
            or none is left.
    """
    if not params.folder and "queries" not in inputs:
        raise InputError(f"there is no judged/{params.set_name}: run judge_queries, or name a folder")
    found = list(_of_folder(params.open(), inputs, run) if params.folder else _by_rules(inputs, params, run))
    if not found:
        raise InputError(
            "no query has an instruction that changes what is relevant in this corpus: rules need queries that two "
            "passages answer, or more, which held-out ones never have; judge set_name=questions, or a set of your own"
        )
    run.count("queries", len(found))
    return ALTERED_QUERIES.table(sorted(found, key=lambda row: row["query_id"]))


def _by_rules(inputs: Inputs, params: JudgeInstructionsParams, run: Run) -> Iterator[dict[str, Any]]:
    check_name(inputs["queries"].manifest.dataset, params.set_name)
    judged = inputs["queries"].table().sort_by("query_id").to_pylist()
    wanted = {name for row in judged for name in row["passage_ids"]}
    words: dict[str, set[str]] = {}
    often: Counter[str] = Counter()
    n_passages = 0
    for batch in inputs["passages"].batches(["passage_id", "text"], AT_ONCE):
        for name, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            n_passages += 1
            often.update(said := words_of(text))
            if name in wanted:
                words[name] = said

    def rarity(word: str) -> float:
        return math.log(n_passages / often[word])

    for row in judged:
        grades = {n: g for n, g in zip(row["passage_ids"], row["grades"], strict=True) if n in words}
        made = list(alter(row["query"], grades, words, rarity, params.rules))
        if not made:
            run.reject(row["query_id"], "nothing_changes", row["query"])
        for one in made:
            run.count(f"queries/{one.rule}")
            name, instructions = f"{row['query_id']}/{one.rule}", (one.instruction, one.changed)
            yield _row(row, name, instructions, one.grades, one.changed_grades)


def _of_folder(folder: JudgedFolder, inputs: Inputs, run: Run) -> Iterator[dict[str, Any]]:
    known = {i for batch in inputs["passages"].batches(["passage_id"], AT_ONCE) for i in batch[0].to_pylist()}
    instructions, judgements = _instructions(folder), folder.judgements()
    asked: dict[str, dict[str, Any]] = {}
    for row in folder.rows(QUERIES):
        if asked.setdefault(row["_id"], row) is not row:
            run.reject(row["_id"], "duplicate_id", row["text"])
    for name in sorted({found.removesuffix(ORIGINAL).removesuffix(CHANGED) for found in asked}):
        both = [name + end for end in (ORIGINAL, CHANGED)]
        queries = {asked[one]["text"] for one in both if one in asked}
        texts = [instructions.get(one, "") for one in both]
        grades = [{n: g for n, g in judgements.get(one, {}).items() if n in known} for one in both]
        if not (all(one in asked and one in judgements for one in both) and len(queries) == 1):
            run.reject(name, "not_paired")
        elif not "".join(queries).strip():
            run.reject(name, "blank_query")
        elif not all(text.strip() for text in texts):
            run.reject(name, "no_instruction")
        elif not any(grade > 0 for grade in grades[0].values()):
            run.reject(name, "no_passage")
        elif not changed(*grades):
            run.reject(name, "nothing_changes")
        else:
            query = asked[both[0]]
            about = {"doc_id": "", "intent": query["intent"] or ANY_INTENT, "query": query["text"]}
            yield _row(about, name, texts, *grades)


def has_instructions(folder: JudgedFolder) -> bool:
    """Whether a folder is in FollowIR's layout."""
    return is_readable_file(folder.path / INSTRUCTIONS)


def _instructions(folder: JudgedFolder) -> dict[str, str]:
    """Query id -> instruction."""
    path, number, found = folder.path / INSTRUCTIONS, 0, {}
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, 1):  # noqa: B007
                if line.strip():
                    row = json.loads(line)
                    found[str(row["query-id"])] = text_of(row["instruction"])
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}, line {number}: no object with query-id and instruction ({error})") from error
    return found


def _row(
    asked: dict[str, Any], query_id: str, texts: Sequence[str], grades: dict[str, int], changed_grades: dict[str, int]
) -> dict[str, Any]:
    judged = sorted(grades.keys() | changed_grades.keys())
    return {
        **{name: asked[name] for name in ("doc_id", "intent", "query")},
        "query_id": query_id,
        "instruction": texts[0],
        "changed_instruction": texts[1],
        "passage_ids": judged,
        "grades": [grades.get(name, 0) for name in judged],
        "changed_grades": [changed_grades.get(name, 0) for name in judged],
    }
