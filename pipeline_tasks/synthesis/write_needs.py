"""Information needs: for a passage and a search intent, what somebody who finds this passage may have wanted."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import short_id, unit_hash
from pipeline_tasks.core.run import Run
from pipeline_tasks.core.step import added, step
from pipeline_tasks.datasets import NEEDS, PASSAGES
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import check_known, load_intents
from pipeline_tasks.synthesis.llm.asking import PromptTask, Refusal, write_all
from pipeline_tasks.synthesis.llm.endpoint import LlmParams
from pipeline_tasks.synthesis.prompting.writers import writer_of


class WriteNeedsParams(LlmParams):
    """How many passages, and which intents."""

    sample_rate: float = Field(
        1.0, gt=0, le=1, description="fraction of passages that the LLM writes for, sampled by their id"
    )
    rates: dict[str, Annotated[float, Field(gt=0, le=1)]] = added(
        {}, description="intent -> its own sample_rate, see foundry estimate --wanted"
    )
    intents: tuple[str, ...] = Field(
        default_factory=lambda: tuple(load_intents(domain_folder())), min_length=1, description="search intents"
    )
    intents_per_passage: int = Field(1, ge=1, description="intents per passage, at most, sampled by its id")
    splits: tuple[Literal["train", "dev", "test"], ...] = Field(
        ("train", "dev", "test"),
        min_length=1,
        description="splits of passages to use; leave out test where another set is for testing",
    )

    def model_post_init(self, context: Any) -> None:
        """Refuse an intent that the domain has not, that is named twice, or that has a rate and is not asked about."""
        super().model_post_init(context)
        if len(set(self.intents)) < len(self.intents):
            raise InputError(f"intents={list(self.intents)}: name each intent once")
        check_known(domain_folder(), *self.intents, *self.rates)
        if unasked := [intent for intent in self.rates if intent not in self.intents]:
            raise InputError(f"rates has {unasked[0]!r}, which is not in intents={list(self.intents)}: leave it out")


@step(reads={"passages": PASSAGES}, writes=NEEDS, kind="map", version="10", pool="llm", secrets=("llm",))
def write_needs(rows: pa.Table, params: WriteNeedsParams, run: Run) -> pa.Table:
    """Ask the LLM what information need each sampled passage meets under its intents.

    Which passages and intents are asked depends on passage ids alone, so that new passages never change what was asked
    before. Rejects carry the reason of the first of the :mod:`~pipeline_tasks.synthesis.checking.checks` that refuses;
    passages outside the sample or the splits are counted as ``not_sampled``.

    Source: DMRetriever 3.3.1, appendix A, Algorithm 2 line 5. Departures: as in
    :func:`~pipeline_tasks.synthesis.write_pairs.write_pairs`; one intent a passage, unless told otherwise.
    """
    passages = rows.to_pylist()
    asked = [p for p in passages if p["split"] in params.splits]
    tasks = sorted(
        ((intent, p) for p in asked for intent in intents_of(p["passage_id"], params)),
        key=lambda task: (task[0], task[1]["passage_id"]),
    )
    run.count("not_sampled", len(passages) - len({p["passage_id"] for _, p in tasks}))
    writers = {intent: writer_of(domain_folder(), intent, params) for intent in params.intents}
    asked = []
    for intent, passage in tasks:
        writer = writers[intent]
        prompt = writer.ask_need(passage["text"], key=passage["passage_id"])
        asked.append(PromptTask(prompt, writer.read_need, writer.repair))
    needs = []
    for (intent, passage), one, need in zip(tasks, asked, write_all(asked, "need", params, run), strict=True):
        if isinstance(need, Refusal):
            run.reject(passage["passage_id"], need.reason, f"{intent}: {need.detail}")
            continue
        needs.append(
            {
                "need_id": short_id(passage["passage_id"], intent, one.prompt.sha256),
                "passage_id": passage["passage_id"],
                "doc_id": passage["doc_id"],
                "intent": intent,
                "need": need.value,
                "passage": passage["text"],
                "split": passage["split"],
                "response_id": need.response_id,
            }
        )
    return NEEDS.table(needs)


def intents_of(passage_id: str, params: WriteNeedsParams) -> list[str]:
    """The intents asked for a passage: of those that its id draws, those whose sample it is in.

    A sample is part of every larger one, so that asking for more pays for what is new.
    """
    drawn = sorted(params.intents, key=lambda intent: unit_hash("intent", passage_id, intent))
    place = unit_hash("sample", passage_id)
    return sorted(i for i in drawn[: params.intents_per_passage] if place < params.rates.get(i, params.sample_rate))
