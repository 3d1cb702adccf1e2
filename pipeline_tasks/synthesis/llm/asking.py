"""From prompts to what was written for them: asked, read, asked once more where nothing could be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pipeline_tasks.core.paid.endpoint import Unanswered
from pipeline_tasks.core.run import Run
from pipeline_tasks.synthesis.checking.parse import Rejected
from pipeline_tasks.synthesis.llm.client import Response
from pipeline_tasks.synthesis.llm.endpoint import SHOWN, LlmParams, ask_all
from pipeline_tasks.synthesis.prompting.prompts import Prompt

T = TypeVar("T")


@dataclass(frozen=True)
class PromptTask(Generic[T]):
    """A prompt, how its writer reads the answer and asks again, and what is written, where prompts differ in that."""

    prompt: Prompt
    read: Callable[[Response, Prompt], T | Rejected]
    repair: Callable[[Response, Prompt], Prompt | None]
    what: str = ""


@dataclass(frozen=True)
class Written(Generic[T]):
    """What was written, the answer that it stands in, and the prompt that asked for it."""

    value: T
    response_id: str
    prompt: Prompt


@dataclass(frozen=True)
class Refusal:
    """Why nothing was written: the reason of a reject, and what shows it."""

    reason: str
    detail: str


def write_all(
    asked: Sequence[PromptTask[T] | Refusal], what: str, params: LlmParams, run: Run
) -> list[Written[T] | Refusal]:
    """What was written for each prompt, in their order.

    ``what`` begins the reasons of answers that are refused, where the prompt does not say what is written.

    What is refused before anybody is asked stays so, in its place.

    Answers that could not be read and were asked for again are counted as ``repairs``. These, and such as are refused
    in the end, were paid for and are in no row: the part's receipt names all that were used.

    Raises:
        InputError, TransientError: as :func:`~pipeline_tasks.synthesis.llm.endpoint.ask_all`.
    """
    again, able = set[int](), [one for one in asked if isinstance(one, PromptTask)]

    def repair(place: int, answer: Response) -> Prompt | None:
        prompt = able[place].repair(answer, able[place].prompt)
        if prompt:
            again.add(place)
            run.responses.add(answer.response_id)
        return prompt

    outcomes = ask_all([one.prompt for one in able], params, run, repair)
    if again:
        run.count("repairs", len(again))
    written = iter([_written(one, outcome, one.what or what, run) for one, outcome in zip(able, outcomes, strict=True)])
    return [next(written) if isinstance(one, PromptTask) else one for one in asked]


def _written(one: PromptTask[T], outcome: Response | Unanswered, what: str, run: Run) -> Written[T] | Refusal:
    if isinstance(outcome, Unanswered):
        return Refusal(f"llm_{outcome.reason}", outcome.detail)
    run.responses.add(outcome.response_id)
    found = one.read(outcome, one.prompt)
    if isinstance(found, Rejected):
        return Refusal(f"{what}_{found.reason}", outcome.text[:SHOWN])
    return Written(found, outcome.response_id, one.prompt)
