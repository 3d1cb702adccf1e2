"""What a command says of a place that it cannot write to, and of an input that is none: never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline_tasks.cli.main import app
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import PASSAGES
from tests.stores import put


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder with a store of a passage, a file ``taken`` and an empty folder; settings are read anew."""
    put(LocalStore(tmp_path / "store"), PASSAGES, [{"passage_id": "p", "text": "water", "split": "train"}])
    (tmp_path / "taken").write_text("x")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOUNDRY_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    return tmp_path


def refused(*words: str) -> str:
    """The message of a command that is the caller's error."""
    found = CliRunner().invoke(app, words)
    assert isinstance(found.exception, InputError), (found.exception, found.output)
    return str(found.exception)


@pytest.mark.parametrize(
    "words",
    [
        ("metrics", "--output", "nowhere/x"),
        ("export", "passages", "taken/sub"),
        ("domain", "new", "taken/x"),
    ],
)
def test_a_path_that_cannot_be_is_named_with_what_to_do(here, words):
    assert "cannot be written" in (told := refused(*words)) and "name another" in told
    assert (here / "taken").read_text() == "x"


@pytest.mark.parametrize("store", ["taken", "/proc/nowhere"])
@pytest.mark.parametrize("words", [("run", "plan_searches"), ("fold",)])
def test_a_store_that_cannot_be_is_told_from_the_setting(here, monkeypatch, store, words):
    monkeypatch.setenv("FOUNDRY_STORE", store)
    settings.cache_clear()
    told = refused(*words)
    assert told.startswith("the store ") and told.endswith("check FOUNDRY_STORE")


def test_a_cache_that_cannot_be_is_told_from_the_setting(here, monkeypatch):
    monkeypatch.setenv("FOUNDRY_CACHE", "/proc/nowhere")
    settings.cache_clear()
    assert "set FOUNDRY_CACHE" in refused("models", "fetch", "all-minilm-l6-v2")


@pytest.mark.parametrize(
    "words",
    [
        ("metrics", "--output", "foundry.prom"), ("ls",), ("sql", "SELECT 1"), ("trace", "q"), ("stale",), ("check",),
        ("compact",), ("gc",), ("erase", "0123456789abcdef"),
    ],
)  # fmt: skip
def test_only_a_store_that_is_there_is_looked_at(here, monkeypatch, words):
    monkeypatch.setenv("FOUNDRY_STORE", "elsewhere")
    settings.cache_clear()
    told = refused(*words)
    assert "elsewhere yet: run one, or set FOUNDRY_STORE" in told
    assert sorted(path.name for path in here.iterdir()) == ["empty", "store", "taken"], "nothing was made"


@pytest.mark.parametrize(("value", "told"), [("s3:/x", "s3://bucket or"), ("s3:x", "s3://bucket or")])
def test_a_bucket_with_a_slash_too_few_is_no_folder(here, monkeypatch, value, told):
    monkeypatch.setenv("FOUNDRY_STORE", value)
    settings.cache_clear()
    assert told in refused("ls")
    assert not (here / "s3:").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sync", "nowhere", "copy"), "nowhere is no store: it has no versions"),
        (("run", "pretrain", "--set", "siz=22m"), "has no parameter 'siz'; did you mean 'size'\\?"),
        (
            ("estimate", "nope"),
            "'nope' pays for nothing; ask about synthesize_pairs, or a step with the parameter llm$",
        ),
        (("judge", "pool", "p.jsonl", "--questions", "nope.jsonl"), "nope.jsonl is not there"),
    ],
)
def test_what_is_not_there_is_named(here, words, told):
    with pytest.raises(InputError, match=told):
        raise InputError(refused(*words))
    assert not (here / "copy").exists()


def test_a_source_that_lists_nothing_is_told(here, caplog):
    assert CliRunner().invoke(app, ("run", "list_urls", "--set", "source=empty")).exit_code == 0
    assert "source='empty' lists nothing: name a folder with *.pdf" in caplog.text


def test_a_setting_that_is_wrong_is_called_as_its_variable(here, monkeypatch):
    monkeypatch.setenv("FOUNDRY_WORKERS", "many")
    settings.cache_clear()
    assert refused("ls").startswith("FOUNDRY_WORKERS='many': ")


@pytest.mark.parametrize("step", ["read_pairs", "read_triplets", "read_classes"])
@pytest.mark.parametrize(("text", "told"), [("{not json\n[1, 2]\n", "a.jsonl, line "), ("", "its files are empty")])
def test_files_that_cannot_be_read_are_not_blamed_on_their_columns(here, step, text, told):
    (here / "a.jsonl").write_text(text)
    assert told in refused("run", step, "--set", "source=a.jsonl")
