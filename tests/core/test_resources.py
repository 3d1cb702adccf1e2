from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.registry import get_step, step_names
from pipeline_tasks.core.resources import resources_of


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes the operator's file."""

    def write(text: str) -> Path:
        path = tmp_path / "resources.toml"
        path.write_text(text)
        monkeypatch.setenv("FOUNDRY_RESOURCES", str(path))
        return path

    return write


def test_without_a_file_a_step_has_what_it_declares():
    for name in step_names():
        assert resources_of(get_step(name)) == get_step(name).resources


def test_a_step_has_what_its_own_table_says_then_the_default_then_what_it_declares(given):
    own = "memory_gib = 48.5\ngpus = 2\nnodes = 4\ntimeout_minutes = 0\n"
    given(f"[default]\nretries = 7\nmemory_gib = 3\n[finetune]\n{own}")
    finetune, crawl = (resources_of(get_step(name)) for name in ("finetune", "crawl"))
    assert (finetune.memory_gib, finetune.gpus, finetune.timeout_minutes, finetune.retries) == (48.5, 2, 0, 7)
    assert (crawl.memory_gib, crawl.gpus, crawl.timeout_minutes, crawl.retries) == (3, None, 24 * 60, 7)
    assert (finetune.nodes, crawl.nodes) == (4, 1)
    assert (finetune.image, finetune.pool, finetune.resumes) == ("gpu", "gpu", True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[fine_tune]\nretries = 1", "no step is called 'fine_tune'; tables may be: default, .*finetune"),
        (
            "[crawl]\nmemory = 4",
            r"crawl.memory = 4: .*a table may have: memory_gib, more_memory_gib, timeout_minutes, gpus, nodes, retries",
        ),
        ("[crawl]\nmemory_gib = 0", "crawl.memory_gib = 0: .*greater than 0"),
        ("[crawl]\nmemory_gib = inf", "crawl.memory_gib = inf: .*finite"),
        (
            "[crawl]\nmemory_gib = 4\nmore_memory_gib = 4",
            "crawl.more_memory_gib = 4 is not more than its memory_gib = 4; raise it",
        ),
        ("[crawl]\nretries = '3'", "crawl.retries = '3': .*integer"),
        ("[crawl]\ngpus = -1", "crawl.gpus = -1"),
        ("[crawl]\nnodes = 0", "crawl.nodes = 0"),
        ("[crawl]\nnodes = 2", "crawl.nodes = 2, and one run of crawl has one node: give nodes to a step that trains"),
        ("crawl = 4", "crawl = 4: .*table may have"),
        ("[crawl", "cannot be read"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(given, text, said):
    path = given(text)
    with pytest.raises(InputError, match=said) as told:
        resources_of(get_step("crawl"))
    assert str(path) in str(told.value)


def test_a_file_that_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("FOUNDRY_RESOURCES", str(tmp_path / "absent.toml"))
    with pytest.raises(InputError, match="absent.toml cannot be read"):
        resources_of(get_step("crawl"))


def test_steps_with_checkpoints_go_on_from_them():
    resuming = {name for name in step_names() if get_step(name).resources.resumes}
    with_checkpoints = {
        "crawl",
        "adapt_backbone",
        "pretrain",
        "finetune",
        "distill",
        "adapt_to_corpus",
        "follow_instructions",
    }
    assert with_checkpoints <= resuming
    assert resuming - with_checkpoints == {n for n in step_names() if get_step(n).kind != "reduce"}
