"""``foundry domain``: what is new says what it lacks, and every fault is told with its file, its key and its remedy."""

from __future__ import annotations

import shlex
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from pipeline_tasks.cli.domain_check import check_domain
from pipeline_tasks.cli.domain_skeleton import blank_toml, write_skeleton
from pipeline_tasks.cli.main import main
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains import folder_of

KITCHEN = folder_of("food_safety")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A copy of a domain that is whole."""
    return Path(shutil.copytree(KITCHEN, tmp_path / "mine"))


def keys(value: object) -> object:
    """The keys of a TOML file, as deep as they go; of several tables those of the first."""
    if isinstance(value, list):
        return keys(value[0]) if value and isinstance(value[0], dict) else None
    return {name: keys(inner) for name, inner in value.items()} if isinstance(value, dict) else None


@pytest.mark.parametrize("name", ["disaster", "food_safety"])
def test_the_domains_of_the_package_lack_nothing(name):
    found = check_domain(folder_of(name))
    assert (found.errors, found.notes) == ([], [])


def test_a_new_domain_has_every_key_and_the_check_names_every_file_to_fill_in(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["foundry", "domain", "new", "bread"]
    monkeypatch.setattr(sys, "argv", [*command, "--intent", "question", "--intent", "limit"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    for file in ("intents.toml", "prompts/question.toml"):
        mine, filled = (tomllib.loads((folder / file).read_text()) for folder in (tmp_path / "bread", KITCHEN))
        filled.pop("chat", None)
        assert keys(filled["question"] if "question" in filled else filled) == keys(mine.get("question", mine))
    assert "# [[chat]]" in (tmp_path / "bread" / "prompts" / "question.toml").read_text(), "it may be left out"
    assert (tmp_path / "bread" / "README.md").is_file()

    monkeypatch.setattr(sys, "argv", ["foundry", "domain", "check", "bread"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().out
    lists = ("topics.txt", "places.txt", "sites.txt")
    for file in ("intents.toml", "prompts/question.toml", "prompts/limit.toml", "sample/first-document.md", *lists):
        assert f"/bread/{file}" in said
    assert "question.definition is empty; write it" in said and "questions.jsonl" in said
    assert "examples.1.need is empty; write it" in said and "too few items" not in said, "two are there to be filled in"

    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2, "what is there is never written over"


def test_the_commands_that_a_new_domain_is_told_with_are_whole_where_its_path_has_a_blank(
    tmp_path, monkeypatch, capsys
):
    bread = str(tmp_path / "my things" / "bread")
    with pytest.raises(InputError) as told:
        folder_of(bread)
    assert shlex.split(str(told.value).split("`")[1])[3:] == [bread]
    monkeypatch.setattr(sys, "argv", ["foundry", "domain", "new", bread])
    with pytest.raises(SystemExit):
        main()
    _, check, export = capsys.readouterr().out.splitlines()
    assert shlex.split(check, comments=True)[3:] == [bread]
    assert shlex.split(export)[1:] == [f"FOUNDRY_DOMAIN={bread}"]


class Shot(BaseModel):
    """One example."""

    text: str


class Form(BaseModel):
    """What may be written, too."""

    most: int | None = Field(None, description="no more than that")
    shots: tuple[Shot, ...] = Field((), description="for large models")


def test_what_may_be_left_out_of_a_file_stands_in_comments():
    text = blank_toml(Form)
    assert tomllib.loads(text) == {}
    for line in ("# no more than that", "# most =", "# for large models", "# [[shots]]", '# text = ""'):
        assert line in text.splitlines()


@pytest.mark.parametrize("intent", ["passage", "Question", "../question"])
def test_a_name_that_cannot_be_is_refused_before_anything_is_written(tmp_path, intent):
    with pytest.raises(InputError, match="is no name"):
        write_skeleton(tmp_path / "bread", ["question", intent])
    assert not (tmp_path / "bread").exists()


def edited(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("intents.toml", 'instruction = "Given the task', 'instructions = "Given the task',
         ["procedure.instruction is missing", "procedure.instructions is no key"]),
        ("prompts/limit.toml", "max_tokens = 40", "max_tokens = 0", ["limit.toml: need.max_tokens is wrong"]),
        ("traits.toml", " = 5", " = 0", ["traits.toml: any.difficulty", "greater than 0"]),
        ("search.toml", "{food}", "{dish}", ["'dish', 'hazard'", "name the same in both"]),
        ("search.toml", "foods.txt", "food.txt", ["food.txt of 'food' cannot be read"]),
        ("sample/06-allergens.md", 'layout = "plain"', 'layout = "round"', ["06-allergens.md: layout = 'round'"]),
        ("questions.jsonl", '"intent": "question"', '"intent": "qa"', ["intent 'qa' is unknown; take one"]),
        ("questions.jsonl", "Germs that sit", "Germs sitting", ["evidence 'Germs sitting", "quote it to the letter"]),
        ("recordings/07-raw-milk.jsonl", "It is not sterile", "Sterile", ["is not in 07-raw-milk"]),
        ("recordings/07-raw-milk.jsonl", '"need"', '"needs"', ["07-raw-milk.jsonl, line 1"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_file_its_key_and_its_remedy(mine, file, old, new, said):
    edited(mine / file, old, new)
    errors = "\n".join(check_domain(mine).errors)
    assert all(words in errors for words in said), errors


def test_what_is_missing_is_an_error_only_where_a_run_needs_it(mine):
    (mine / "prompts" / "belief.toml").rename(mine / "prompts" / "rumour.toml")
    (mine / "search.toml").unlink()
    (mine / "recordings" / "07-raw-milk.jsonl").rename(mine / "recordings" / "06-allergens.jsonl")
    shutil.rmtree(mine / "sample")
    found = check_domain(mine)
    assert any("belief.toml does not exist" in error for error in found.errors)
    assert any("06-allergens has judged questions and recorded answers" in error for error in found.errors)
    notes = "\n".join(found.notes)
    assert "rumour.toml is of no intent" in notes and "search.toml" in notes and "sample: the demo has nothing" in notes
