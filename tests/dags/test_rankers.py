"""Whoever judges by the operator's file, ``build_triplets`` ranks by them and no others."""

import pytest
from airflow.dag_processing.dagbag import DagBag
from foundry_airflow.rankers import rankers

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models.use import REFERENCE_MODELS

FIRST, SECOND, THIRD = REFERENCE_MODELS


@pytest.mark.parametrize(
    ("text", "models", "best", "teachers"),
    [
        ("", [FIRST, SECOND, THIRD], [FIRST], [FIRST]),
        (f'[mutual_agreement]\nmodels = ["{THIRD}"]', [THIRD], [THIRD], [THIRD]),
        (f'[mutual_agreement]\njudges = {{any = ["{SECOND}", "bm25"]}}', [SECOND, "bm25"], [SECOND], [SECOND]),
        (f'[mutual_agreement]\nmodels = ["bm25", "{SECOND}"]', ["bm25", SECOND], ["bm25"], [SECOND]),
        (f'[default]\nmodels = ["{THIRD}", "{FIRST}"]', [THIRD, FIRST], [THIRD], [THIRD]),
        ('[mutual_agreement]\njudges = {qa = ["z", "a"], sts = ["a"]}', ["z", "a"], ["a", "z"], ["a", "z"]),
    ],
)
def test_a_build_ranks_by_those_who_judge_and_mines_by_the_first_of_each_panel(
    told, root, text, models, best, teachers
):
    told(text)
    bag = DagBag(root / "dags" / "build_triplets.py")
    assert bag.import_errors == {}
    dag = bag.dags["build_triplets"]
    embedders = [model for model in models if model != "bm25"]
    assert {task.values["model"] for task in dag.tasks if task.task_id.endswith(".rank_passages")} == set(embedders)
    assert ranked_by(dag.get_task("mutual_agreement").inputs) == models
    assert ranked_by(dag.get_task("mine_negatives").partial_kwargs["inputs"]) == best
    assert dag.get_task("score_triplets").partial_kwargs["values"] == {"models": teachers}
    fused = models if "default" in text else [*embedders, "bm25"]
    assert ranked_by(dag.get_task("fuse_rankings").inputs) == dag.get_task("fuse_rankings").values["models"] == fused
    assert (dag.get_task("rank_bm25").only_if is True) is ("bm25" in models)


def ranked_by(inputs):
    tasks = [output.operator for output in inputs["rankings"]]
    return [task.values.get("model", "bm25") for task in tasks]


@pytest.mark.parametrize(
    "text",
    [
        '[mutual_agreement]\nmodels = ["a"]\njudges = {any = ["a", "lacking"]}',
        '[mutual_agreement]\nmodels = ["lacking", "a"]\n[mine_negatives]\nmodels = ["a"]',
        '[mutual_agreement]\nmodels = ["a"]\n[fuse_rankings]\nmodels = ["bm25", "lacking"]',
    ],
)
def test_lists_that_do_not_fit_are_refused_with_the_name_of_their_file(told, tmp_path, text):
    told(text)
    with pytest.raises(InputError, match=rf"{tmp_path}/parameters\.toml: .*'lacking'.*leave one of the lists out"):
        rankers()
