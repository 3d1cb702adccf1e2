"""FRet, second half, by an endpoint: which of a query's nearest passages is its best, by grades that an LLM gives."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.ids import seed_of, unit_hash
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import step
from pipeline_tasks.curation.compared_passages import READS, Compared
from pipeline_tasks.curation.passage_scores import ranks_of
from pipeline_tasks.datasets import RELABELLED
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.synthesis.checking.parse import UNPARSABLE, Rejected, parse_fields
from pipeline_tasks.synthesis.llm.asking import PromptTask, Refusal, write_all
from pipeline_tasks.synthesis.llm.client import Response
from pipeline_tasks.synthesis.prompting.chat_prompts import as_material, chat_prompt, cut, repaired
from pipeline_tasks.synthesis.prompting.instructing import InstructingParams, room_for
from pipeline_tasks.synthesis.prompting.prompts import Prompt

_FIELDS = ("grades",)
_TOKENS = 200
_GRADES = re.compile(r"\[?\s*(?:[0-3]+|[0-3](?:[\s,;]+[0-3])*)\s*\]?\.?")
_SYSTEM = """\
You judge the results of a search engine. You get a task, a query that somebody typed for it, and numbered passages. \
Give every passage a grade: 3 where it answers the query fully, as the task wants it; 2 where it answers a part of it; \
1 where it is about the same subject and answers nothing; 0 where it is about something else. Judge each by itself: \
several may have the same grade. "grades" is one digit a passage, in their order, with a space between."""


class GradePassagesParams(InstructingParams):
    """Whose nearest passages, and which model grades them."""

    model: str = Field(REFERENCE_MODELS[0], description="encoder whose nearest passages are graded")


@step(
    reads=READS,
    writes=RELABELLED,
    kind="map",
    dataset="relabelled/graded",
    version="7",
    pool="llm",
    secrets=("llm",),
)
def grade_passages(rows: pa.Table, params: GradePassagesParams, run: Run) -> pa.Table:
    """Order each query's nearest passages by the grades that the LLM gives them, in one request a query.

    The passage that the query was written for competes also where it is not among the nearest. Passages are shown in an
    order by the query's id, so that their place tells nothing; of equal grades the passage that the query was written
    for comes first, then the nearer one. ``relevances`` are the grades, 0 to 3; likelihoods there are none. A query
    whose answer cannot be read is a reject, its reason beginning with ``grades_``; ``positives_changed`` counts those
    that have another positive now.

    Source: Gecko 3.2, relevance classification, for endpoints that tell no probabilities. Departures: grades are
    written, for all passages at once, and there is no query likelihood to fuse them with.

    Raises:
        InputError: the nearest passages are of other pairs or of other passages, or the model's context is too short.
    """
    compared = Compared.read(rows, run)
    if not len(compared):
        return RELABELLED.table()
    texts = compared.passages["text"].to_pylist()
    queries = compared.queries.to_pylist()
    shown = [_shuffled(query["query_id"], ids) for query, ids in zip(queries, compared.ids, strict=True)]
    asked = [
        _ask(query["query_id"], query["instruction"] or "", query["query"], [texts[mine][i] for i in order], params)
        for query, mine, order in zip(queries, compared.slices(), shown, strict=True)
    ]
    graded, best, grades = [], [], []
    for place, answer in enumerate(write_all(asked, "grades", params, run)):
        if isinstance(answer, Refusal):
            run.reject(queries[place]["query_id"], answer.reason, answer.detail)
            continue
        run.responses.add(answer.response_id)
        own = np.empty(len(answer.value), np.float32)
        own[shown[place]] = answer.value
        graded.append(place)
        others = np.array(compared.ids[place]) != queries[place]["passage_id"]
        best.append(np.lexsort((others, -own)))
        grades.append(own)
    if not graded:
        return RELABELLED.table()
    run.count("passages_compared", n_all := sum(map(len, grades)))
    found = {
        "likelihoods": pa.nulls(n_all, pa.float32()),
        "relevances": pa.array(np.concatenate(grades)),
        "likelihood_ranks": pa.nulls(n_all, pa.int32()),
        "relevance_ranks": pa.array(np.concatenate([*map(ranks_of, best)])),
    }
    return compared.take(graded).ordered(best, found, run)


def _shuffled(query_id: str, ids: Sequence[str]) -> list[int]:
    return sorted(range(len(ids)), key=lambda place: unit_hash("shown", query_id, ids[place]))


def _ask(
    query_id: str, task: str, query: str, texts: Sequence[str], params: GradePassagesParams
) -> PromptTask[list[int]] | Refusal:
    system = _SYSTEM + as_material(_FIELDS, ("task", "query"))
    room = room_for(params, _TOKENS, system, (task, query), len(texts))
    if isinstance(room, Refusal):
        return room
    passages = [{"number": n, "passage": cut(text, room)} for n, text in enumerate(texts, 1)]
    user = json.dumps({"task": task, "query": query, "passages": passages}, ensure_ascii=False)
    seed = seed_of("grade", query_id)
    prompt = chat_prompt(system, (), user, _FIELDS, _TOKENS, "", (system,), seed, **params.chat_terms)
    return PromptTask(prompt, partial(_read, len(texts)), partial(_repair, len(texts)))


def _repair(n_passages: int, answer: Response, prompt: Prompt) -> Prompt | None:
    """One more turn, with how many grades are wanted if it is the object, unless it has them or was cut off."""
    unread = isinstance(_read(n_passages, answer, prompt), Rejected)
    is_object = parse_fields(answer.text, *prompt.fields) != Rejected(UNPARSABLE)
    also = f' "grades" is {n_passages} digits of 0 to 3, with spaces between.' if is_object else ""
    return repaired(prompt, answer.text, also) if unread and answer.finish_reason != "length" else None


def _read(n_passages: int, answer: Response, prompt: Prompt) -> list[int] | Rejected:
    """A grade for each passage, in the order that they were shown in."""
    found = parse_fields(answer.text, *prompt.fields)
    if isinstance(found, Rejected):
        return Rejected("too_long") if answer.finish_reason == "length" else found
    if not _GRADES.fullmatch(found["grades"].strip()):
        return Rejected(UNPARSABLE)
    grades = [int(digit) for digit in re.findall(r"[0-3]", found["grades"])]
    return grades if len(grades) == n_passages else Rejected("other_number")
