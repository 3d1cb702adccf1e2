"""The stack in a real browser, as a user: log in, start runs by their forms, look at the lineage, be refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from pipeline_tasks.core.manifest import Ref
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import resolve
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import REFERENCE_MODELS
from tests.chromium import chromium
from tests.containers.conftest import ROOT, weights_for
from tests.containers.small_store import ALPHAS, TITLE
from tests.containers.stack import Stack
from tests.containers.visitor import Visitor
from tests.stores import rows

NEW_ALPHA = "0.95"
FEW_STEPS = {
    "pretrain": {"max_query_length": 48, "max_passage_length": 64, "pretrain_batch_size": 8},
    "finetune": {"finetune_batch_size": 8},
}
IN_CONTAINERS = """SELECT step, dataset FROM steps WHERE status = 'complete' AND NOT reused
AND image LIKE 'retriever-foundry/cpu%' ORDER BY started_at"""


@pytest.fixture(scope="module")
def store(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """What the stack's store holds at first; in the end it is empty again, and no DAG runs by itself."""
    folder = tmp_path_factory.mktemp("small")
    environment = (
        os.environ | stack.keys | {"FOUNDRY_STORE_CACHE": str(folder / "copies"), "FOUNDRY_ALLOW_HOSTS": "127.0.0.1"}
    )
    for command in (
        ["tests.containers.small_store", str(folder)],
        ["pipeline_tasks.cli.main", "sync", str(folder / "store"), "s3://foundry/store"],
    ):
        subprocess.run([sys.executable, "-m", *command], env=environment, cwd=ROOT, check=True)
    weights_for(stack, backbone("33m").name, *REFERENCE_MODELS)
    found = LocalStore(folder / "store")
    yield found
    for dag in ("build_triplets", "train_retriever"):
        stack.ask("PATCH", f"dags/{dag}", is_paused=True)
    stack.bucket.objects.filter(Prefix="store/").delete()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def visitor(browser: Any, stack: Stack, store: LocalStore, pytestconfig: pytest.Config) -> Iterator[Visitor]:
    """Somebody who is logged in; no page had an error in the end."""
    found = Visitor(browser, stack, pytestconfig.getoption("--pictures", None))
    found.open("/lineage/")
    found.log_in(stack.settings["ADMIN_PASSWORD"])
    found.page.wait_for_url("**/lineage/")
    yield found
    assert found.complaints == []


@dataclass(frozen=True)
class Runs:
    training: str
    triplets: str


@pytest.fixture(scope="module")
def runs(visitor: Visitor) -> Runs:
    """Both runs, started by their forms; while they go on, the other pages are looked at."""
    return Runs(
        visitor.trigger("train_retriever", small_model, "stack-train-form"),
        visitor.trigger("build_triplets", one_new_level, "stack-triplets-form"),
    )


def under(form: Any, heading: str) -> Any:
    """The fields under a heading of a DAG's form."""
    return form.locator(f"[id$=':content:{heading}']")


def choice(form: Any, name: str) -> Any:
    """Where one types to choose for the field ``name``, of which there may be several under a heading."""
    return form.locator(f"#element_{name}").get_by_role("combobox")


def small_model(form: Any) -> None:
    """33m, on short texts, in small batches and at one level, for two cores."""
    choice(form, "size").click()
    form.page.get_by_role("option", name="33m", exact=True).click()
    for section, fields in FEW_STEPS.items():
        form.get_by_role("button", name=section, exact=True).click()
        for name, value in fields.items():
            form.get_by_label(name, exact=True).fill(str(value))
    choice(form, "alphas").fill(str(ALPHAS[-1]))
    choice(form, "alphas").press("Enter")
    form.get_by_role("button", name="Run Parameters", exact=True).click()


def one_new_level(form: Any) -> None:
    """One level that is there, and one that is not."""
    form.get_by_role("button", name="mine_negatives", exact=True).click()
    field = under(form, "mine_negatives")
    for alpha in ALPHAS[:-1]:
        field.get_by_label(f"Remove {alpha}").click()
    choice(form, "alphas").fill(NEW_ALPHA)
    choice(form, "alphas").press("Enter")
    chosen = [value.get_attribute("value") for value in form.locator("[name=element_alphas]").all()]
    assert chosen == [str(ALPHAS[-1]), NEW_ALPHA]


def test_nothing_opens_without_the_right_password(browser: Any, stack: Stack):
    for method, path in (("GET", "versions"), ("GET", "graph"), ("POST", "sql")):
        assert httpx.request(method, f"{stack.url}/lineage/api/{path}", timeout=30).status_code == 401, path
    assert httpx.get(f"{stack.url}/api/v2/dags", timeout=30).status_code == 401
    stranger = Visitor(browser, stack)
    for path in ("/lineage/", "/plugin/lineage", "/dags/train_retriever"):
        stranger.open(path)
        stranger.page.wait_for_url("**/auth/login/**")
    stranger.log_in("admin")
    stranger.page.get_by_text("Invalid login").wait_for()
    stranger.open("/lineage/")
    stranger.page.wait_for_url("**/auth/login/**")
    stranger.page.close()


def test_only_the_missing_level_is_built(visitor: Visitor, stack: Stack, runs: Runs):
    assert stack.end_of(runs.triplets) == "success", stack.tasks(runs.triplets)
    of_training = ("model/", "judged/")
    built = [dataset for step, dataset in visitor.statement(IN_CONTAINERS) if not dataset.startswith(of_training)]
    visitor.picture("stack-triplets-sql")
    assert built == [f"mtt/{NEW_ALPHA}"], "what it is made of was there, and so was the other level"
    found = {name: state for name, state in stack.tasks(runs.triplets).items() if name.startswith("mine_negatives[")}
    assert found == dict.fromkeys(("mine_negatives[0]", "mine_negatives[1]"), "success")


def test_the_lineage_is_seen_in_airflow_and_alone(visitor: Visitor, runs: Runs):
    visitor.open("/plugin/lineage")
    inside = visitor.page.frame_locator("iframe")
    inside.locator(".node").first.wait_for()
    inside.get_by_label("Find a version").fill("labelled")
    inside.get_by_label("Find a version").press("Enter")
    inside.locator(".panel h2:text-is('labelled')").wait_for()
    visitor.picture("stack-lineage")
    visitor.open("/lineage/")
    visitor.page.locator(".node[aria-label^='labelled,']").wait_for()
    names = {
        label.split(",")[0]
        for label in visitor.page.locator(".node").evaluate_all(
            "nodes => nodes.map(node => node.getAttribute('aria-label'))"
        )
    }
    assert {"downloads", "passages", "mtp", "rankings/all-minilm-l6-v2", "mtt/0.65", "mtt/0.85"} <= names


def test_a_query_is_traced_to_a_pdf_whose_title_runs_nothing(visitor: Visitor, store: LocalStore):
    (passage, *_) = [row for row in rows(store, "passages") if row["title"] == TITLE]
    (pair,) = [row for row in rows(store, "mtp") if row["passage_id"] == passage["passage_id"]]
    visitor.open("/lineage/#/trace")
    visitor.page.get_by_role("searchbox").fill(pair["query"])
    visitor.page.get_by_role("button", name="Trace").click()
    visitor.page.locator(".results a", has_text=pair["query"]).first.click()
    visitor.page.locator(".steps").wait_for()
    story = visitor.page.inner_text(".story")
    told = (TITLE, passage["url"], f"On page {passage['page']}", passage["passage_id"], "Labelled", "mtt/0.85")
    for words in told:
        assert words in story
    assert visitor.page.title() == "Lineage"
    assert visitor.page.locator("main img").count() == 0


def test_two_levels_are_compared(visitor: Visitor, store: LocalStore):
    old, new = (str(resolve(store, Ref.parse(f"mtt/{alpha}"))) for alpha in ALPHAS[::2])
    visitor.open("/lineage/#/compare")
    visitor.page.get_by_label("old version").select_option(old)
    visitor.page.get_by_label("new version").select_option(new)
    visitor.page.locator(".tiles").wait_for()
    said = visitor.page.inner_text(".result")
    assert re.search(r"alpha\s+0\.65\s+0\.85", said)


def test_a_question_is_answered_and_a_write_refused(visitor: Visitor, store: LocalStore):
    found = visitor.statement("SELECT split, count(*) AS n FROM passages GROUP BY split ORDER BY split")
    made = [row["split"] for row in rows(store, "passages")]
    assert found == [[split, str(made.count(split))] for split in sorted(set(made))]
    for sql in ("DROP TABLE steps", "COPY steps TO '/tmp/steps.csv'", "FROM read_text('/etc/passwd')"):
        assert visitor.statement(sql) == []
        assert visitor.page.locator("[role=alert]").count() == 1
    visitor.statement("DELETE FROM steps")
    visitor.page.get_by_role("alert").get_by_text("read-only").wait_for()
    visitor.picture("stack-sql-refused")


def test_a_model_is_trained_by_its_form(visitor: Visitor, stack: Stack, runs: Runs):
    assert stack.end_of(runs.training) == "success", stack.tasks(runs.training)
    asked = stack.ask("GET", runs.training)["conf"]
    assert (asked["size"], asked["alphas"]) == ("33m", [str(ALPHAS[-1])])
    assert {name: asked[name] for fields in FEW_STEPS.values() for name in fields} == {
        name: value for fields in FEW_STEPS.values() for name, value in fields.items()
    }
    visitor.open("/" + runs.training.replace("/dagRuns/", "/runs/"))
    visitor.page.get_by_text("Success", exact=True).first.wait_for()
    visitor.picture("stack-train-run")
    built = [dataset for _, dataset in visitor.statement(IN_CONTAINERS)]
    models = ["model/33m/finetune", "model/33m/pretrain"]
    assert sorted(built) == ["eval/heldout", "judged/heldout", *models, f"mtt/{NEW_ALPHA}"]
    scores = visitor.statement(
        "SELECT system, score FROM evaluations WHERE metric = 'ndcg@10' AND intent = 'average' ORDER BY system"
    )
    assert {"33m/finetune-0.85", "33m/pretrain", "33m/untrained", "bm25"} <= {system for system, _ in scores}
