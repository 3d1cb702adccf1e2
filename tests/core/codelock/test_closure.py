import pytest

from pipeline_tasks.core.codelock.closure import closure, meaning
from pipeline_tasks.core.registry import get_step

SOURCE = '''
"""What it is."""
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LIMIT = 3
"""Why three."""

class Params(StepParams):
    """Some."""
    n: int = Field(2, ge=1, description="how many")
    size: int = resolved(ge=1, description="how large")

@step(reads={}, writes=ROWS, kind="map", version="1", memory_gib=2)
def body(rows):
    """Do it."""
    return rows[:LIMIT]  # the first
'''


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# the first", "# the first of them"),
        ('"""Do it."""', '"""Do it well.\n\n    Twice.\n    """'),
        ('"""Why three."""', '"""Why not four."""'),
        ('"""What it is."""', ""),
        ("rows[:LIMIT]", "(rows[ : LIMIT ])"),
        ("from pathlib import Path", "from pathlib import PurePath"),
        ('description="how many"', 'description="number of them"'),
        ('description="how large"', 'description="how long"'),
        ('version="1", memory_gib=2', 'version="2", memory_gib=8, image="gpu"'),
    ],
)
def test_words_and_formatting_do_not_count(before, after):
    assert before in SOURCE
    assert meaning(SOURCE.replace(before, after)) == meaning(SOURCE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("LIMIT = 3", "LIMIT = '3'"),
        ("rows[:LIMIT]", "rows[LIMIT:]"),
        ("import re", "import regex as re"),
        ("ge=1", "ge=0"),
        ('kind="map"', 'kind="map", keeps=("rows",)'),
        ("return rows", "return None; rows"),
    ],
)
def test_what_is_computed_counts(before, after):
    assert before in SOURCE
    assert meaning(SOURCE.replace(before, after)) != meaning(SOURCE)


@pytest.mark.parametrize(
    ("step", "reaches"),
    [
        ("write_pairs", "pipeline_tasks/synthesis/checking/parse.py"),
        ("write_pairs", "rows:needs"),
        ("write_pairs", "pipeline_tasks/domains/__init__.py"),
        ("combine_pairs", "sql/combine_pairs.sql"),
        ("extract_text", "pipeline_tasks/corpus/pdf/engine_pypdfium2.py"),
        ("extract_text", "pipeline_tasks/corpus/pdf/preload.py"),
        ("chunk_passages", "pipeline_tasks/core/ids.py"),
        ("embed_passages", "pipeline_tasks/retrieval/onnx_int8.py"),
    ],
)
def test_a_step_reaches_what_it_imports_anywhere_loads_by_name_and_reads(step, reaches):
    assert reaches in closure(get_step(step))


def test_a_step_does_not_reach_its_runner_or_another_room():
    found = closure(get_step("write_pairs"))
    core = {name for name in found if name.startswith("pipeline_tasks/core/")}
    assert core <= {f"pipeline_tasks/core/{name}.py" for name in ("compiled", "growth", "ids", "vectors")}
    assert not {name for name in found if name.startswith(("pipeline_tasks/training/", "pipeline_tasks/cli/"))}
    assert "pipeline_tasks/synthesis/__init__.py" not in found
