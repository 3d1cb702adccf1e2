"""Compiled loops are found again by what they are made of, not by the file that they are in alone."""

from pathlib import Path

from pipeline_tasks.core.compiled import made_of


def written(root: Path, **texts: str) -> str:
    for name, text in texts.items():
        path = root / "pipeline_tasks" / "room" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made_of(root)


def test_a_change_of_what_a_loop_calls_or_takes_gives_it_another_folder(tmp_path) -> None:
    calls = "from numpy import sum\n\nif 1:\n    from pipeline_tasks.room.rules import Rules\n"
    first = written(tmp_path, a_kernels=calls, b_kernels="ONE = 1\n", rules="class Rules: ...\n", other="x = 1\n")
    assert written(tmp_path, other="x = 2\n") == first
    called = written(tmp_path, b_kernels="ONE = 2\n")
    taken = written(tmp_path, rules="class Rules: a = 1\n")
    assert len({first, called, taken}) == 3
    assert written(tmp_path, b_kernels="ONE = 1\n", rules="class Rules: ...\n") == first


def test_what_loops_import_is_found() -> None:
    root = Path(__file__).parents[2]
    for path in root.glob("pipeline_tasks/**/*_kernels.py"):
        for line in path.read_text("utf-8").splitlines():
            kind, _, rest = line.strip().partition(" ")
            if kind in ("from", "import") and rest.startswith("pipeline_tasks"):
                assert kind == "from", f"{path}: {line}"
                module = root.joinpath(*rest.split()[0].split("."))
                assert module.with_suffix(".py").is_file(), f"{path}: {line}"


def test_loops_are_where_they_are_looked_for() -> None:
    root = Path(__file__).parents[2] / "pipeline_tasks"
    loops = {path.name for path in root.rglob("*.py") if "core.compiled import" in path.read_text("utf-8")}
    assert loops
    assert all(name.endswith("_kernels.py") for name in loops)
