"""A domain is any folder; what is made depends on what its files say, never on where they lie."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.step import StepParams
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.corpus.hold_out_documents import HoldOutDocumentsParams
from pipeline_tasks.curation.unify import UnifyParams
from pipeline_tasks.datasets import NEEDS, PAIRS, PASSAGES
from pipeline_tasks.domains import domain_folder, prompts_sha256
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.evaluation.judge_queries import JudgeQueriesParams, judge_queries
from pipeline_tasks.models.registry import assigned
from pipeline_tasks.retrieval.reference_models import default_panels
from pipeline_tasks.synthesis.read_pairs import ReadPairsParams
from pipeline_tasks.synthesis.write_needs import WriteNeedsParams
from pipeline_tasks.synthesis.write_pairs import write_pairs
from tests.stores import go, put, rejects

SEVENTH = """
[rumour]
definition = "The searcher has heard something and wants what is known of it."
instruction = "Given the rumour, retrieve the passage that says what is known of it"
query = "What people say."
positive = "What is known."
"""


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], Path]:
    """Makes a domain the configured one."""

    def choose(domain: object) -> Path:
        monkeypatch.setenv("FOUNDRY_DOMAIN", str(domain))
        settings.cache_clear()
        return domain_folder()

    return choose


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The disaster domain in another folder, with an intent more."""
    folder = shutil.copytree(domain_folder(), tmp_path / "mine", ignore=shutil.ignore_patterns("sample", "recordings"))
    with (folder / "intents.toml").open("a") as file:
        file.write(SEVENTH)
    shutil.copy(folder / "prompts" / "qa.toml", folder / "prompts" / "rumour.toml")
    return folder


def test_a_version_does_not_know_where_its_domain_lies(tmp_path, configured):
    here = WriteNeedsParams().identity(), JudgeQueriesParams(set_name="questions").identity()
    elsewhere = configured(shutil.copytree(domain_folder(), tmp_path / "elsewhere"))
    assert elsewhere == tmp_path / "elsewhere"
    assert (WriteNeedsParams().identity(), JudgeQueriesParams(set_name="questions").identity()) == here


@pytest.mark.parametrize(
    "step",
    [
        HoldOutDocumentsParams,
        partial(UnifyParams, format="joined"),
        partial(JudgeQueriesParams, set_name="questions"),
        partial(ReadPairsParams, source=str(domain_folder() / "questions.jsonl")),
    ],
    ids=["hold_out_documents", "unify", "judge_queries", "read_pairs"],
)
def test_what_a_run_takes_of_its_domain_is_what_it_was_when_it_began(mine, configured, step: Callable[..., StepParams]):
    configured(mine)
    begun = step()
    before = begun.identity()
    with (mine / "intents.toml").open("a") as file:
        file.write(SEVENTH.replace("rumour", "hearsay"))
    (mine / "questions.jsonl").write_text("")
    assert begun.identity() == before != step().identity()


def test_a_domain_without_questions_is_evaluated_with_held_out_queries(mine, configured, tmp_path):
    (configured(mine) / "questions.jsonl").unlink()
    store = LocalStore(tmp_path / "store")
    put(store, PASSAGES, [{"passage_id": "p", "text": "Boil it."}])
    put(store, PAIRS, [{"query_id": "q"}], dataset="mtp")
    with pytest.raises(InputError, match="mine has no questions.jsonl: write one, or evaluate with --on heldout"):
        go(store, judge_queries, set_name="questions")


def test_a_relative_folder_is_found_from_where_the_command_was_given(mine, configured, monkeypatch):
    monkeypatch.chdir(mine.parent)
    assert configured("./mine") == mine
    assert settings().domain == str(mine)


def test_a_domain_may_have_seven_intents(mine, configured, tmp_path):
    before = WriteNeedsParams().identity()
    configured(mine)
    asked = WriteNeedsParams(intents_per_passage=7)
    assert asked.intents == tuple(load_intents(mine)) and len(asked.intents) == 7
    assert WriteNeedsParams().identity()["prompts_sha256"] != before["prompts_sha256"]
    assert default_panels()["rumour"] == assigned("offline", "any")


def test_the_name_of_an_intent_is_in_the_identity_of_its_prompts(mine, configured):
    configured(mine)
    prompts = mine / "prompts"
    shutil.copy(prompts / "nli.toml", prompts / "nlj.toml")
    assert prompts_sha256("nli", "qa") != prompts_sha256("nlj", "qa")


def test_an_assignment_falls_back_to_any_for_an_intent_that_it_does_not_name():
    assert assigned("table-5", "rumour") == assigned("table-5", "any") != assigned("table-5", "twitter")


def test_an_intent_that_the_domain_has_not_is_refused_before_anything_is_asked(tmp_path):
    with pytest.raises(InputError, match="no intent is called 'rumour'; the domain has qa, qadoc"):
        WriteNeedsParams(intents=("qa", "rumour"))
    with pytest.raises(InputError, match="no intent is called 'rumour'"):
        ReadPairsParams(source=str(tmp_path), intent="rumour")


def test_a_need_of_an_intent_that_is_gone_is_a_reject_that_says_so(tmp_path):
    store = LocalStore(tmp_path / "store")
    put(store, NEEDS, [{"need_id": "n", "passage_id": "p", "intent": "rumour", "need": "x", "passage": "y"}])
    go(store, write_pairs)
    (found,) = rejects(store, "mtp/dm").values()
    assert found["reason"] == "unknown_intent" and found["detail"].startswith("rumour: the domain has qa, qadoc")


def test_who_names_no_domain_is_told_how_to_name_one(tmp_path, configured):
    with pytest.raises(
        InputError, match=r"no domain is called 'cooking'; FOUNDRY_DOMAIN may be .*disaster.*\./cooking"
    ):
        configured("cooking")
    with pytest.raises(InputError, match=r"is no domain: it has no intents\.toml; name another folder"):
        configured(tmp_path)
    with pytest.raises(
        InputError, match=r"is no domain: it has no intents\.toml; `foundry domain new .*/fresh` writes"
    ):
        configured(tmp_path / "fresh")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("passage", "no intent is called 'passage', which is what a model puts before passages"),
        ("average", "no intent is called 'average'"),
        ('"../qa"', "is no name"),
    ],
)
def test_an_intent_that_would_be_taken_for_something_else_is_refused(mine, name, said):
    (mine / "intents.toml").write_text(SEVENTH.replace("[rumour]", f"[{name}]"))
    with pytest.raises(InputError, match=said):
        load_intents(mine)


def test_an_intent_without_a_prompt_file_is_named(mine, configured):
    configured(mine)
    (mine / "prompts" / "rumour.toml").unlink()
    with pytest.raises(InputError, match=r"prompts/rumour\.toml does not exist"):
        WriteNeedsParams().identity()
