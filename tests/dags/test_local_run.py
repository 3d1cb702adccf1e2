"""Whole DAG runs of toy steps in a process of their own."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from foundry_airflow.local_run import parse_runs


@pytest.fixture
def runs(toy_runs, tmp_path: Path):
    """Runs DAGs in one process, over one store."""
    return partial(toy_runs, tmp_path)


def lines(output: str) -> list[tuple[str, str, str]]:
    """DAG, task and how it ended."""
    return [(line.split()[0], line.split()[1], line.split()[2]) for line in output.splitlines()]


def events(store: Path) -> list[tuple[str, bool]]:
    found = [json.loads(p.read_text()) for p in sorted((store / "lineage" / "events").glob("*-complete.json"))]
    return [(e["job"]["name"], e["run"]["facets"]["foundry"]["reused"]) for e in found]


def test_groups_skips_reuse_and_mapped_values(runs, tmp_path):
    done = runs("toy", "toy", '{"extra": "yes"}', "toy_totals", '{"plus": ["1", "7", "1"]}')
    assert done.returncode == 0, done.stdout + done.stderr
    seen = lines(done.stdout)
    second = seen.index(("toy", "fold_lineage", "done")) + 1
    first, again = [
        Counter((task, how) for dag, task, how in part if dag == "toy") for part in (seen[:second], seen[second:])
    ]
    assert [first[f"square_groups.run[{i}]", "done"] for i in range(4)] == [1, 1, 1, 0]
    assert first["total", "skipped"] == first["publish", "skipped"] == first["square", "done"] == 1
    assert again["total", "done"] == again["publish", "done"] == again["square", "done"] == 1
    assert not [task for task, _ in again if task.startswith("square_groups.run")]
    assert [task for dag, task, how in seen if (dag, how) == ("toy_totals", "skipped")] == [
        "square_groups.plan",
        "square",
    ]
    assert Counter(task for dag, task, how in seen if (dag, how) == ("toy_totals", "done")) == Counter(
        ["versions", "squares", "total_each", "total[0]", "total[1]"]
    )
    reused = Counter(events(tmp_path / "store"))
    assert reused["count", True] == 1
    assert {p.name for p in (tmp_path / "store" / "refs" / "total").iterdir()} == {"5", "1", "7"}
    assert (tmp_path / "store" / "lineage.duckdb").exists()


def test_only_busy_endpoints_are_tried_again(runs, tmp_path):
    busy, wrong = ({"how": how, "mark": str(tmp_path / how)} for how in ("twice", "input"))
    done = runs("toy_stumble", json.dumps(busy), "toy_stumble", json.dumps(wrong), "toy")
    assert done.returncode == 1, done.stdout + done.stderr
    report = [line for line in done.stdout.splitlines() if line.startswith("toy_stumble   ")]
    assert [how for _, _, how in lines("\n".join(report))] == ["retry", "retry", "done", "FAILED"]
    assert len((tmp_path / "twice").read_text().splitlines()) == 3
    assert len((tmp_path / "input").read_text().splitlines()) == 1
    assert "toy_stumble ended as failed: stumble" in done.stdout
    assert "this can never work" in done.stdout, "the end of the task's log"
    assert "toy  " not in done.stdout, "what comes after a failure is not started"


def test_a_field_that_the_form_has_not_fails_the_run_before_its_first_step(runs, tmp_path):
    known = {"how": "twice", "mark": str(tmp_path / "mark"), "openlineage": {"parentRunId": "added by Airflow"}}
    done = runs("toy_stumble", json.dumps(known | {"hwo": "input"}))
    assert done.returncode == 1 and "there is no field 'hwo'; the fields are: how, mark" in done.stdout
    assert [how for _, task, how in lines(done.stdout.splitlines()[0])] == ["FAILED"], "nothing tries it again"
    assert not (tmp_path / "mark").exists() and not (tmp_path / "store").exists()
    assert runs("toy_stumble", json.dumps(known)).returncode == 0


HOSTILE = [
    "{{ 7 * 7 }} {{ var.value.get('x', 'y') }}",
    "{% for c in ().__class__.__base__.__subclasses__() %}{{ c }}{% endfor %}",
    "$(touch owned) `touch owned` ; touch owned",
    "'; touch owned; \" | touch owned",
    "--input=numbers=numbers@0",
    "[1, {{ 7 }}",
    "../../etc/passwd",
]


def test_parameters_are_data_to_templates_and_to_the_shell(runs, tmp_path):
    marks = [tmp_path / f"{i} {{{{ 7 * 7 }}}} $(touch owned)" for i in range(len(HOSTILE))]
    conf = [json.dumps({"how": how, "mark": str(mark)}) for how, mark in zip(HOSTILE, marks, strict=True)]
    done = runs(*[word for one in conf for word in ("toy_stumble", one)])
    assert done.returncode == 0, done.stdout + done.stderr
    made = [json.loads(path.read_text())["params"] for path in (tmp_path / "store" / "versions").rglob("*.json")]
    assert sorted(params["how"] for params in made) == sorted(HOSTILE)
    assert all(mark.is_file() for mark in marks)
    assert not (tmp_path / "owned").exists()


def test_a_failed_group_fails_the_run_but_lineage_is_folded(runs, tmp_path):
    failed = runs("toy", '{"refuse": 3}')
    assert failed.returncode == 1
    seen = lines("\n".join(line for line in failed.stdout.splitlines() if line.startswith("toy  ")))
    assert ("toy", "square_groups.run[1]", "FAILED") in seen
    assert ("toy", "square_groups.run[0]", "done") in seen
    assert ("toy", "fold_lineage", "done") in seen
    assert not [task for _, task, _ in seen if task in ("square", "total")]
    assert "refuse=3 is among the numbers" in failed.stdout
    assert not (tmp_path / "store" / "versions" / "squares").exists()


def test_runs_are_read_as_dag_and_parameters():
    assert parse_runs(["a", "b", '{"x": 1}', "c"]) == [("a", {}), ("b", {"x": 1}), ("c", {})]
    with pytest.raises(ValueError, match="before any DAG"):
        parse_runs(["{}", "a"])
