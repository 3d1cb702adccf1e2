"""FRet, second half, by an endpoint that tells log-probabilities: which of a query's nearest passages is its best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paid.endpoint import Unanswered
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import step
from pipeline_tasks.curation import relevance_prompts as prompts
from pipeline_tasks.curation.compared_passages import READS, Compared
from pipeline_tasks.curation.passage_scores import Scores, ScoringPrompts, expected_grades, ordered_by_both
from pipeline_tasks.datasets import RELABELLED
from pipeline_tasks.models.use import REFERENCE_MODELS
from pipeline_tasks.retrieval.fusion import USUAL_K
from pipeline_tasks.synthesis.llm.asking import Refusal
from pipeline_tasks.synthesis.llm.client import Request
from pipeline_tasks.synthesis.llm.endpoint import LlmParams, ask_each
from pipeline_tasks.synthesis.llm.log_probs import LogProbs, behind
from pipeline_tasks.synthesis.llm.wanted import NOT_BOUGHT

_IDENTITY = ("model", "llm", "passage_chars", "k", "top_logprobs", "again")
_OF_WRITERS = ("api", "temperature", "writer", "context_tokens", "reasoning_tokens", "json_schema", "checks")


class ScorePassagesParams(LlmParams):
    """Whose nearest passages, and which model of the endpoint compares them."""

    model: str = Field(REFERENCE_MODELS[0], description="encoder whose nearest passages are scored")
    passage_chars: int = Field(1_500, ge=100, description="characters of a passage that the model reads")
    k: int = Field(USUAL_K, ge=1, description="RRF constant k of the fusion of both scores")
    top_logprobs: int = Field(
        20,
        ge=0,
        description="top_logprobs of the API, among which grades are looked for first; 0: every grade is asked for",
    )

    def model_post_init(self, context: Any) -> None:
        """Refuse what decides how texts are written: nothing is written here."""
        super().model_post_init(context)
        for name in _OF_WRITERS:
            if (value := getattr(self, name)) != LlmParams.model_fields[name].default:
                raise InputError(
                    f"{name}={value!r}: passages are scored by /completions, and nothing is written; leave it out, or "
                    "have a chat model give grades (grade_passages)"
                )

    def identity(self) -> dict[str, Any]:
        """Model, what it is shown, and what the prompts say."""
        fields = super().identity()
        return {name: fields[name] for name in _IDENTITY if name in fields} | {"prompts_sha256": prompts.sha256()}


@step(
    reads=READS,
    writes=RELABELLED,
    kind="map",
    dataset="relabelled/scored",
    version="2",
    pool="llm",
    memory_gib=4,
    secrets=("llm",),
)
def score_passages(rows: pa.Table, params: ScorePassagesParams, run: Run) -> pa.Table:
    """Order each query's nearest passages as ``relabel`` does, by the log-probabilities that an endpoint tells.

    Prompts, scores, their fusion and the columns are those of ``relabel``. A passage takes a request for the likelihood
    of the query (``echo``), and one for the likeliest tokens behind the relevance prompt, where the grades are looked
    for; each grade that is not among them, or each one with ``top_logprobs=0``, takes a further request. A query with a
    passage that got no score is a reject, its reason ``llm_…`` or ``score_not_apart``: no token begins where the query
    does.

    Source: as :func:`~pipeline_tasks.curation.relabel.relabel`.

    Raises:
        InputError: the nearest passages are of other pairs or of other passages; the endpoint does not echo or leaves
            log-probabilities out; or grades do not differ in their first token.
    """
    compared = Compared.read(rows, run)
    if not len(compared):
        return RELABELLED.table()
    asking = _Asking(ScoringPrompts.of(compared, params.passage_chars), params, run)
    likelihoods = asking.likelihoods()
    whole = [range(mine.start, mine.stop) for mine in compared.slices() if asking.answered(mine)]
    grades = asking.grades([number for numbers in whole for number in numbers])
    kept: list[int] = []
    of_kept: list[int] = []
    for place, mine in enumerate(compared.slices()):
        numbers = range(mine.start, mine.stop)
        failed = next((number for number in numbers if number in asking.refused), None)
        if failed is None:
            kept.append(place)
            of_kept.extend(numbers)
        else:
            refusal, passage = asking.refused[failed], compared.ids[place][failed - mine.start]
            run.reject(compared.queries["query_id"][place].as_py(), refusal.reason, f"{passage}: {refusal.detail}")
    if not kept:
        return RELABELLED.table()
    run.count("passages_compared", len(of_kept))
    scores = Scores(likelihoods[of_kept], expected_grades(_among_grades(grades[of_kept])))
    return ordered_by_both(compared.take(kept), scores, params.k, run)


def _among_grades(log_probs: np.ndarray) -> np.ndarray:
    """Log-probabilities that sum to 1 in each row, as if nothing but a grade could follow. Shapes: [n, grades]."""
    below = log_probs - log_probs.max(axis=1, keepdims=True)
    return below - np.log(np.exp(below).sum(axis=1, keepdims=True))


class _Asking:
    """Asks for the scores of all passages; ``refused`` says by its number why one has none."""

    def __init__(self, asked: ScoringPrompts, params: ScorePassagesParams, run: Run) -> None:
        self.refused: dict[int, Refusal] = {}
        self._asked, self._params, self._run = asked, params, run

    def likelihoods(self) -> np.ndarray:
        """Log P(query | passage, task), summed over the query's tokens. Shapes: [n], float32."""
        found = np.full(len(self._asked), np.nan, np.float32)
        befores = (prompts.LIKELIHOOD_BEGINNING + text for text in self._asked.before_queries)
        for number, of_tokens in self._ends(range(len(found)), befores, self._asked.queries):
            found[number] = sum(log_prob for _, log_prob in of_tokens)
        return found

    def answered(self, query: slice) -> bool:
        """Whether all passages of a query have what was asked for, or would: with one refused, it is lost."""
        said = (self.refused.get(number) for number in range(query.start, query.stop))
        return all(refusal is None or refusal.reason == f"llm_{NOT_BOUGHT}" for refusal in said)

    def grades(self, asked: Sequence[int]) -> np.ndarray:
        """Log P(grade | passage, task, query), each by its first token; NaN of passages that are not ``asked`` about.

        Shapes:
            returns [n, grades], float32.

        Raises:
            InputError: two grades begin with one token.
        """
        befores, n_top = self._asked.before_grades, self._params.top_logprobs
        found = np.full((len(befores), len(prompts.GRADES)), np.nan, np.float32)
        answered = set(() if n_top else asked)
        if n_top:
            requests = (Request(prompts.RELEVANCE_BEGINNING + befores[number], 1, logprobs=n_top) for number in asked)
            for place, answer in self._answers(asked, requests):
                found[asked[place]] = [answer.top.get(grade, np.nan) for grade in prompts.GRADES]
                answered.add(asked[place])
        lacking = [(number, grade) for number, grade in np.argwhere(np.isnan(found)).tolist() if number in answered]
        numbers, ends = [number for number, _ in lacking], [prompts.GRADES[grade] for _, grade in lacking]
        texts = (prompts.RELEVANCE_BEGINNING + befores[number] for number in numbers)
        first: dict[str, int] = {}
        for place, of_tokens in self._ends(numbers, texts, ends):
            (token, log_prob), (number, grade) = of_tokens[0], lacking[place]
            if first.setdefault(token, grade) != grade:
                raise InputError(
                    f"grades {list(prompts.GRADES)} do not differ in their first token: {self._params.llm!r} cannot "
                    "tell them apart; take another model"
                )
            found[number, grade] = log_prob
        self._run.count("grades_asked_apart", len(lacking))
        return found

    def _ends(
        self, numbers: Sequence[int], befores: Iterable[str], ends: Sequence[str]
    ) -> Iterator[tuple[int, list[tuple[str, float]]]]:
        """Places of requests, and the tokens of each one's end with their log-probabilities."""
        requests = (Request(before + end, 1, echo=True, logprobs=1) for before, end in zip(befores, ends, strict=True))
        for place, answer in self._answers(numbers, requests):
            if of_tokens := behind(answer, ends[place]):
                yield place, of_tokens
            else:
                self.refused[numbers[place]] = Refusal("score_not_apart", f"no token begins with {ends[place]!r}")

    def _answers(self, numbers: Sequence[int], requests: Iterable[Request]) -> Iterator[tuple[int, LogProbs]]:
        """Places of requests that are answered, and the answers; ``numbers`` are those of their passages."""
        for place, outcome in enumerate(ask_each(requests, len(numbers), self._params, self._run)):
            if isinstance(outcome, Unanswered):
                self.refused[numbers[place]] = Refusal(f"llm_{outcome.reason}", outcome.detail)
            elif outcome.log_probs:
                self._run.responses.add(outcome.response_id)
                yield place, outcome.log_probs
