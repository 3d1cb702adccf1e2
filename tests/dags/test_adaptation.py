"""The first stage of a decoder, in the DAG that trains it; the adaptation of an embedder to a corpus."""

from copy import copy
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from foundry_airflow.operators import SKIPS, PlannedOperator
from foundry_airflow.outline import read_dag
from foundry_airflow.paths import read

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.registry import get_step
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.curation.sample_rank_lists import SampleRankListsParams
from pipeline_tasks.evaluation.systems import members
from pipeline_tasks.retrieval.rank_bm25 import RankBm25Params
from tests.training.made import put_model

LIST_NET = {"name": "list_net", "alpha": 1.0}


@pytest.mark.parametrize(
    ("size", "causal", "pretrained", "adapts"),
    [
        ("33m", None, True, False),
        ("596m", None, True, True),
        ("7.6b", True, True, False),
        ("4b", False, True, True),
        ("4b", False, False, False),
    ],
)
def test_a_decoder_is_adapted_before_pre_training_unless_it_is_to_stay_causal(bag, size, causal, pretrained, adapts):
    dag = bag.dags["train_retriever"]
    needed = dag.get_template_env().from_string(dag.get_task("adapt_backbone").only_if)
    rendered = needed.render(params={"size": size, "pretrain_causal": causal, "finetune_pretrained": pretrained})
    assert (rendered not in SKIPS) is adapts
    assert "adapt_backbone" in dag.get_task("pretrain").upstream_task_ids


@pytest.mark.parametrize(
    ("params", "objective", "in_batch"),
    [
        ({"objective": None, "alpha": 2.5, "lead": None}, {"name": "list_net", "alpha": 2.5}, False),
        ({"objective": "list_mle", "alpha": 1.0, "lead": None}, {"name": "list_mle"}, False),
        ({"objective": "list_net", "alpha": 5.0, "lead": None}, {"name": "list_net", "alpha": 5.0}, False),
        ({"objective": "list_net", "alpha": 5.0, "lead": "own"}, {"name": "list_net", "alpha": 5.0}, True),
        ({"objective": None, "alpha": 1.0, "lead": "own"}, {"name": "info_nce"}, True),
        ({"objective": "list_mle", "alpha": 1.0, "lead": "own"}, {"name": "list_mle"}, True),
    ],
)
def test_lists_are_learned_by_list_net_at_the_forms_alpha_and_own_passages_by_contrast(
    bag, params, objective, in_batch
):
    dag = bag.dags["adapt_to_corpus"]
    chosen = dag.get_task("adapt_to_corpus").values
    render = dag.get_template_env().from_string
    given = {name: render(chosen[name]).render(params=params) for name in ("objective", "in_batch")}
    task = PlannedOperator(task_id="a", step="adapt_to_corpus", values=given | {"size": "22m", "device": "cpu"})
    named = get_step("adapt_to_corpus").parse(task.parameters())
    assert (named.objective.model_dump(), named.in_batch) == (objective, in_batch)


@pytest.mark.parametrize(
    ("file", "form", "objective", "in_batch", "depth"),
    [
        ('[adapt_to_corpus]\nobjective = "list_mle"', {}, {"name": "list_mle"}, False, 200),
        ('[adapt_to_corpus]\nobjective = {name = "list_net", alpha = 3}', {}, LIST_NET | {"alpha": 3}, False, 200),
        (
            '[adapt_to_corpus]\nobjective = {name = "list_net", alpha = 3}',
            {"alpha": 0.5},
            LIST_NET | {"alpha": 0.5},
            False,
            200,
        ),
        ('[adapt_to_corpus]\nobjective = "list_mle"', {"objective": "list_net"}, LIST_NET, False, 200),
        ("[default]\nin_batch = true", {}, LIST_NET, False, 200),
        ('[sample_rank_lists]\nlead = "own"', {}, {"name": "info_nce"}, True, 200),
        ('[sample_rank_lists]\nlead = "own"', {"lead": "ranking"}, LIST_NET, False, 200),
        ("[sample_rank_lists]\nk = 1000", {}, LIST_NET, False, 1000),
        ("[rank_bm25]\ndepth = 500", {}, LIST_NET, False, 500),
        ('[sample_rank_lists]\nk = "300"', {}, LIST_NET, False, 300),
        ("[rank_bm25]\ndepth = 500", {"k": 50}, LIST_NET, False, 50),
    ],
)
def test_what_the_form_leaves_empty_is_as_the_operators_file_says(told, root, file, form, objective, in_batch, depth):
    told(file)
    dag = read_dag(root / "dags", "adapt_to_corpus")
    held = {name: dag.params[name] for name in dag.params} | form
    asked = {}
    for name in ("adapt_to_corpus", "rank_bm25"):
        templates = {key: text for key, text in dag.get_task(name).values.items() if isinstance(text, str)}
        values = {key: dag.get_template_env().from_string(text).render(params=held) for key, text in templates.items()}
        size = {"size": "22m", "device": "cpu"} if name == "adapt_to_corpus" else {}
        asked[name] = get_step(name).parse(PlannedOperator(task_id="a", step=name, values=values | size).parameters())
    trained = asked["adapt_to_corpus"]
    assert (trained.objective.model_dump(), trained.in_batch) == (objective, in_batch)
    assert asked["rank_bm25"].depth == depth


def test_an_adapted_embedder_is_compared_with_what_it_came_as_and_with_bm25_alone_and_fused(bag):
    dag = bag.dags["adapt_to_corpus"]
    systems = dag.get_task("evaluate_retriever").values["systems"]
    rendered = [dag.get_template_env().from_string(name).render(params={"size": "22m"}) for name in systems]
    assert rendered == ["bm25", "rrf(bm25,22m/untrained,k=40)", "rrf(bm25,22m/corpus,k=40)"]
    assert [members(name) for name in rendered[1:]] == [
        (["bm25", f"22m/{name}"], 40) for name in ("untrained", "corpus")
    ]


def test_rankings_are_as_deep_as_lists_read_them(bag):
    dag = bag.dags["adapt_to_corpus"]
    read = {name: dag.get_task(name).values for name in ("rank_bm25", "sample_rank_lists")}
    depth = dag.get_template_env().from_string(read["rank_bm25"]["depth"])
    assert [depth.render(params={"k": k}) for k in (None, 50, 1000)] == ["200", "50", "1000"]
    assert read["sample_rank_lists"]["k"]._name == "k"
    assert RankBm25Params().depth == SampleRankListsParams().k


@pytest.mark.parametrize(
    ("source", "by_llm"), [(None, False), (["titles"], False), (["events"], True), (["events", "titles"], False)]
)
def test_queries_are_of_the_passages_words_or_of_events_and_never_of_both(bag, source, by_llm):
    dag = bag.dags["adapt_to_corpus"]
    made_by = {
        True: ("extract_events", "write_event_queries", "decontaminate_event_queries"),
        False: ("extract_queries",),
    }
    for written, names in made_by.items():
        for name in names:
            rendered = (
                dag.get_template_env().from_string(dag.get_task(name).only_if).render(params={"query_source": source})
            )
            assert (rendered not in SKIPS) is (written is by_llm), name
    assert "events" in dag.params.get_param("query_source").schema["examples"]
    for name in ("rank_bm25", "sample_rank_lists", "adapt_to_corpus", "judge_queries"):
        before = dag.get_task(name).upstream_task_ids
        assert {"extract_queries", "decontaminate_event_queries"} <= before, name
        assert "write_event_queries" not in before, f"{name} reads what passed no gate"


def test_a_source_is_refreshed_before_the_run_decides_what_it_reads(bag):
    dag = bag.dags["adapt_to_corpus"]
    refresh = dag.get_task("refresh")
    assert (refresh.trigger_dag_id, refresh.source._name) == ("corpus_refresh", "source")
    assert "refresh" in dag.get_task("versions").upstream_task_ids
    assert dag.get_task("versions").trigger_rule == "none_failed", "a refresh that was skipped holds nothing up"
    assert "source" in bag.dags["corpus_refresh"].params
    rendered = dag.get_template_env().from_string(refresh.trigger_run_id).render(dag=dag, run_id="manual__1")
    assert rendered == "adapt_to_corpus__manual__1", "a task that is cleared runs the same refresh again"


def test_a_source_beside_a_paused_refresh_is_refused_with_what_to_do(bag, monkeypatch):
    refresh = copy(bag.dags["adapt_to_corpus"].get_task("refresh"))
    monkeypatch.setattr(refresh, "source", "pdfs")
    monkeypatch.setattr(refresh, "trigger_run_id", "one")
    paused = SimpleNamespace(get_dag=lambda dag_id: SimpleNamespace(is_paused=dag_id == "corpus_refresh"))
    with pytest.raises(AirflowFailException, match="corpus_refresh is paused.*`airflow dags unpause corpus_refresh`"):
        refresh.execute({"ti": paused})


@pytest.mark.parametrize("name", ["adapt_to_corpus", "follow_instructions", "order_dimensions"])
def test_a_backbone_that_judges_pairs_is_refused_before_anything_is_paid_for(name, tmp_path):
    store = LocalStore(tmp_path / "store")
    with pytest.raises(InputError, match="top 9 layers of minilm-l12-h384 judge .* start_from=model/33m/pretrain, or"):
        read(store, {}, {name: [{"size": "33m"}, ["init"]]}, {})
    for embeds in ({"size": "22m"}, {"size": "33m", "backbone": "all-minilm-l6-v2"}):
        assert read(store, {}, {name: [embeds, ["init"]]}, {}) == {f"{name}.init": []}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    trained = str(put_model(store, tmp_path / "model", "model/33m/pretrain"))
    named = {"size": "33m", "start_from": [trained]}
    assert read(store, {}, {name: [named, ["init"]]}, {}) == {f"{name}.init": [trained]}


def test_what_it_started_from_is_scored_beside_what_came_of_it(bag):
    dag = bag.dags["adapt_to_corpus"]
    models = dag.get_task("evaluate_retriever").inputs["models"]
    assert models[0] == dag.get_task("adapt_to_corpus").inputs["init"], "the version, whatever is latest by then"
    assert models[1].operator.task_id == "adapt_to_corpus"
