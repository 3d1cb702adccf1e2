"""DAGs over the toy steps."""

from datetime import timedelta

from airflow.sdk import DAG, Param
from foundry_airflow.forms import form
from foundry_airflow.inputs import pin_versions
from foundry_airflow.steps import DEFAULT_ARGS, fold_lineage, input_from_outputs_task, publish, step

SQUARE = form("square", "refuse")

with DAG(
    "toy",
    schedule=None,
    tags=["toy"],
    params={"parts": Param(4, type="integer"), "extra": Param("", type="string")} | SQUARE.params,
) as toy:
    numbers = step("count", params={"parts": toy.param("parts")})
    squares = step("square", inputs={"numbers": numbers}, params=SQUARE.values(toy), max_groups=3)
    extra = step("total", inputs={"squares": squares}, params={"plus": 5}, only_if="{{ params.extra }}")
    published = publish("total", [extra])
    fold_lineage(published)

with DAG("toy_totals", schedule=None, tags=["toy"], params={"plus": Param(["1", "2"], type="array")}) as totals:
    read = pin_versions(numbers="squares > numbers", squares="squares", total=({"plus": 1}, ()))
    twice = step("square", inputs={"numbers": read["squares"]}, only_if="")
    named = input_from_outputs_task("total", "squares", {"plus": 1}, [read["total"]["squares"], twice])
    sums = step("total", inputs={"squares": named}, each={"plus": totals.param("plus")})

with DAG(
    "toy_stumble",
    schedule=None,
    tags=["toy"],
    params={"how": "", "mark": ""},
    default_args=DEFAULT_ARGS | {"retry_delay": timedelta(0)},
) as stumbles:
    step("stumble", params={"how": "{{ params.how }}", "mark": stumbles.param("mark")})
