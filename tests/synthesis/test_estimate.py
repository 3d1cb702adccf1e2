from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline_tasks.cli.estimate import DAG, estimate_command
from pipeline_tasks.cli.plan import plan_command
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.plan import plan
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, load_manifest
from pipeline_tasks.datasets import NEEDS, PAIRS, PASSAGES
from pipeline_tasks.demo.recorded_llm import load_recording, serve_recorded
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.models.prices import listed
from pipeline_tasks.synthesis.combine_pairs import combine_pairs
from pipeline_tasks.synthesis.decontaminate_pairs import decontaminate_pairs
from pipeline_tasks.synthesis.enough import per_intent_for, rates_for, too_few_for
from pipeline_tasks.synthesis.estimate import estimate, of_step
from pipeline_tasks.synthesis.write_needs import write_needs
from pipeline_tasks.synthesis.write_pairs import write_pairs
from tests.stores import go, put, rows

DOCUMENTS, PART, PILOT = 6, 25, 0.35


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Parameters with which the recorded writer answers at a price."""
    recording = load_recording(domain_folder())
    with serve_recorded(recording) as url:
        for name, value in {"OPENAI_BASE_URL": url, "FOUNDRY_LLM_PRICE_IN": "1", "FOUNDRY_LLM_PRICE_OUT": "8"}.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()
        yield {"llm": recording.name, "concurrency": 4}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """Paragraphs of documents that the writer has written about, as passages in several parts."""
    store, passages = LocalStore(tmp_path / "store"), []
    for file in sorted((domain_folder() / "recordings").glob("*.jsonl"))[:DOCUMENTS]:
        text = (domain_folder() / "sample" / f"{file.stem}.md").read_text("utf-8").split("+++", 2)[2]
        paragraphs = [paragraph for paragraph in text.split("\n\n") if len(paragraph.split()) >= 30]
        passages += [{"passage_id": f"{file.stem}-{i}", "text": p, "split": "train"} for i, p in enumerate(paragraphs)]
    put(store, PASSAGES, *(passages[at : at + PART] for at in range(0, len(passages), PART)))
    return store


def bought(store: LocalStore, asked: dict[str, Any], **more: Any) -> tuple[float, float]:
    """Requests and dollars of both steps."""
    runs = go(store, write_needs, **asked, intents_per_passage=2, **more), go(store, write_pairs, **asked)
    requests, dollars = (sum(run.counters[name] for run in runs) for name in ("llm_requests", "cost_usd"))
    return requests, dollars


def test_after_a_small_run_the_bill_of_a_large_one_is_known_within_15_percent(store, asked):
    chosen = asked | {"intents_per_passage": 2}
    thumb = estimate(store, chosen, {})
    assert [bill.n_measured for bill in thumb] == [0, 0] and list(store.keys("responses")) == []
    assert "rule of thumb" in thumb[0].notes()[0]

    _, spent = bought(store, asked, sample_rate=PILOT)
    stored = len(list(store.keys("responses")))
    needs, pairs = estimate(store, chosen, {})
    assert len(list(store.keys("responses"))) == stored, "nothing is bought to know what it costs"
    assert needs.n_measured >= 20 and needs.n_stored + pairs.n_stored == stored
    assert needs.rows * 2 == needs.n_requests + needs.n_stored

    requests, dollars = bought(store, asked)
    assert dollars > spent > 0
    assert needs.usd + pairs.usd == pytest.approx(dollars, rel=0.15)
    assert needs.n_requests + pairs.n_requests == pytest.approx(requests, rel=0.15)
    assert [(bill.n_requests, bill.usd) for bill in estimate(store, chosen, {})] == [(0, 0.0), (0, 0.0)]

    go(store, combine_pairs)
    kept = Counter(row["intent"] for row in rows(store, str(go(store, decontaminate_pairs).ref)))
    by_intent = {row["intent"]: row for row in query(store, "FROM cost_by_intent()").to_pylist()}
    assert {intent: row["n_pairs"] for intent, row in by_intent.items() if row["n_pairs"]} == kept
    assert sum(row["cost_usd"] for row in by_intent.values()) == pytest.approx(spent + dollars, rel=0.15)
    assert all(
        row["usd_per_pair"] == row["cost_usd"] / kept[intent] for intent, row in by_intent.items() if kept[intent]
    )


def test_answers_that_do_not_say_what_they_took_measure_nothing(store, asked):
    bought(store, asked, sample_rate=PILOT)
    for key in list(store.keys("responses")):
        record = json.loads(store.read(key) or b"")
        record["response"]["usage"] = {}
        store.replace(key, json.dumps(record).encode())
    needs, _ = estimate(store, asked | {"intents_per_passage": 2}, {})
    assert needs.n_stored > 0 == needs.n_measured and needs.usd > 0 and "rule of thumb" in needs.notes()[0]


def test_it_says_where_the_budget_would_stop_a_run(store, asked, monkeypatch, capsys):
    needs, pairs = estimate(store, asked | {"max_run_usd": 0.001}, {})
    assert needs.usd > 0.001
    assert needs.notes()[-1].startswith("write_needs would stop at max_run_usd=0.001")
    assert needs.hours(3600) == needs.n_requests / 4

    monkeypatch.setenv("FOUNDRY_STORE", str(store.root))
    settings.cache_clear()
    estimate_command(DAG, sets=[f"llm={asked['llm']}", "max_run_usd=0.001"], answer_s=3600)
    told = capsys.readouterr().out
    assert f"{needs.n_requests * 2:.2f} hours at 3600 s an answer" in told and "would stop at max_run_usd" in told
    assert f"by batches {(needs.usd + pairs.usd) / 2:,.2f} dollars" in told
    assert told.count("the prompts are those of the domain disaster (intents ") == 1
    with pytest.raises(InputError, match="'build_triplets' pays for nothing; ask about synthesize_pairs"):
        estimate_command("build_triplets")


def test_a_plan_has_these_bills_and_says_where_no_price_is_known(store, asked, monkeypatch, capsys):
    needs, pairs = estimate(store, asked, {})
    monkeypatch.setenv("FOUNDRY_STORE", str(store.root))
    settings.cache_clear()
    steps, sets = ["write_needs", "write_pairs"], [f"llm={asked['llm']}", "concurrency=4"]
    plan_command(steps, sets=sets, answer_s=3600)
    told = capsys.readouterr().out
    hours, dollars = needs.hours(3600) + pairs.hours(3600), needs.usd + pairs.usd
    assert f"~{hours:,.1f} hours, ~{dollars:,.2f} dollars\n" in told and dollars > needs.usd > 0
    assert needs.notes()[0] in told and "after write_needs" in told
    monkeypatch.delenv("FOUNDRY_LLM_PRICE_IN")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://llm.example.org/v1")
    settings.cache_clear()
    plan_command(steps, sets=sets)
    told = capsys.readouterr().out
    assert "0 hours, 0.00 dollars; not known: write_needs, write_pairs\nwrite_needs: the price of llm.example" in told


def test_without_an_endpoint_all_but_the_dollars_is_told(store, monkeypatch, capsys):
    monkeypatch.setenv("FOUNDRY_STORE", str(store.root))
    settings.cache_clear()
    none = "no endpoint is configured: set OPENAI_BASE_URL, or FOUNDRY_LLM_PRICE_IN and FOUNDRY_LLM_PRICE_OUT, to know"
    dry_run = of_step(store, plan(store, write_needs, {}, {})).lines()
    assert (
        dry_run[0].endswith(" of answers, ? dollars") and "the prompts are those of the domain disaster" in dry_run[-2]
    )
    assert dry_run[-1] == f"{none} the dollars"
    estimate_command("write_needs", sets=["max_run_usd=0.001"])
    told = capsys.readouterr().out
    assert "\n? dollars, " in told and "requests, " in told and " tokens, ? dollars\n" in told and none in told
    assert "would stop" not in told and "by batches" not in told
    plan_command(["write_needs", "write_pairs"])
    told = capsys.readouterr().out
    assert (
        "0.00 dollars; not known: write_needs, write_pairs\n" in told and " requests by a rule" in told and none in told
    )
    estimate_command(DAG, sets=["llm=gpt-4o-mini"])
    assert none not in capsys.readouterr().out, "a list has its price"
    monkeypatch.setenv("FOUNDRY_LLM_PRICE_IN", "1")
    settings.cache_clear()
    with pytest.raises(InputError, match="set FOUNDRY_LLM_PRICE_OUT"):
        estimate_command(DAG)
    settings.cache_clear()


def test_a_plan_prices_each_step_by_its_own_parameters(store, asked, tmp_path, monkeypatch, capsys):
    (tmp_path / "parameters.toml").write_text("[write_needs]\nmax_run_usd = 19\n[write_pairs]\nmax_run_usd = 0.0001\n")
    monkeypatch.setenv("FOUNDRY_PARAMETERS", str(tmp_path / "parameters.toml"))
    monkeypatch.setenv("FOUNDRY_STORE", str(store.root))
    settings.cache_clear()
    plan_command(["write_needs", "write_pairs"], sets=[f"llm={asked['llm']}"], answer_s=3600)
    told = capsys.readouterr().out
    assert "write_pairs would stop at max_run_usd=0.0001" in told and "write_needs would stop" not in told


def test_a_price_is_listed_by_host_and_model_and_a_list_of_ones_own_counts_first(tmp_path, monkeypatch):
    known = listed("gpt-4o-mini-2024-07-18", "api.openai.com")
    assert known and (known.prompt, known.completion, known.as_of.year) == (0.15, 0.6, 2026)
    assert listed("gpt-4o-mini", "llm.example.org") is None and listed("gpt-4o-mini") == known
    own = tmp_path / "prices.toml"
    entry = '[[price]]\nhost = "{}"\nmodel = "gpt-4o-mini"\nprompt = 0.1\ncompletion = 0.3\nas_of = 2026-11-01\n'
    own.write_text(entry.format("api.openai.com") + entry.format("llm.example.org"))
    monkeypatch.setenv("FOUNDRY_LLM_PRICES", str(own))
    settings.cache_clear()
    assert {listed("gpt-4o-mini", host).prompt for host in ("api.openai.com", "llm.example.org")} == {0.1}
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('[[price]]\nmodel = "gpt-4o-mini"\n')
    monkeypatch.setenv("FOUNDRY_LLM_PRICES", str(wrong))
    settings.cache_clear()
    with pytest.raises(InputError, match=r"wrong.toml: price.0.host: Field required"):
        listed("gpt-4o-mini")
    settings.cache_clear()


def test_a_wanted_number_of_each_intent_is_reached_in_steps_that_pay_for_what_is_new(store, asked, capsys, monkeypatch):
    wanted, intents = 15, ("qa", "sts")

    def written(**more: Any) -> tuple[float, Counter[str]]:
        bought_now, _ = bought(store, asked, intents=intents, **more)
        go(store, combine_pairs, per_intent=wanted)
        go(store, decontaminate_pairs, questions=False)
        return bought_now, Counter(row["intent"] for row in rows(store, "mtp"))

    with pytest.raises(InputError, match="mtp@latest is not in the store"):
        rates_for(store, wanted)
    first, kept = written(sample_rate=0.1)
    assert min(kept.values()) < wanted
    spent, sampled = [first], {}
    while min(kept.values()) < wanted:
        before, sampled = sampled, rates_for(store, wanted)
        assert all(sampled[intent] >= rate for intent, rate in before.items()), "what was asked stays in"
        new, kept = written(rates=sampled)
        spent.append(new)
        assert len(spent) < 8
    assert set(kept.values()) == {wanted} and rates_for(store, wanted) == sampled, "there are enough: no more is asked"
    monkeypatch.setenv("FOUNDRY_STORE", str(store.root))
    settings.cache_clear()
    estimate_command(DAG, sets=[f"{name}={value}" for name, value in asked.items()], wanted=wanted)
    said = capsys.readouterr().out
    assert "combine_pairs: --set per_intent=17" in said and '--set \'rates={"qa": ' in said
    assert "should give" not in said
    estimate_command(DAG, sets=[*(f"{name}={value}" for name, value in asked.items()), 'intents=["qa"]'], wanted=9999)
    said = capsys.readouterr().out
    assert '"sts"' not in said and "sts: all" not in said and "pairs, 9,999 are wanted: raise intents_per_" in said
    full, _ = bought(store, asked, intents=intents)
    assert sum(spent) < 0.75 * (sum(spent) + full), "what is not wanted is not bought"
    with pytest.raises(InputError, match="is not of mtp/dm@.*, the pairs that were written last: run combine_pairs"):
        rates_for(store, wanted)


def test_what_a_limit_put_aside_is_enough_where_the_gate_refuses_a_pair(tmp_path):
    store, params = LocalStore(tmp_path), {"intents": ["qa", "nli"], "sample_rate": 0.1}
    asked = load_manifest(store, put(store, NEEDS, [{"need_id": "n"}])).model_copy(
        update={"id": "2" * 16, "params": params}
    )
    commit(store, asked)
    held_out = "who opens the shelter at the old mill when the river is over its banks"
    pairs = [
        {"query_id": f"{intent}{n}", "intent": intent, "origin": "dm", "split": split, "query": f"{intent} {n} {split}"}
        for intent, most in (("qa", 60), ("nli", 10))
        for n, split in enumerate(["train"] * most + ["test"] * 30)
    ]
    copies = [pair | {"query": f"{pair['query'].split()[1]} {held_out}"} for pair in pairs[:20]]
    put(store, PAIRS, copies + pairs[20:], [pairs[60] | {"query_id": "out", "query": held_out}], dataset="mtp/dm",
        needs=asked.ref)  # fmt: skip
    for limits in ({"per_intent": 20}, {"caps": {"dm": 30}}, {"balance": 2}, {}):
        go(store, combine_pairs, near=1, **limits)
        go(store, decontaminate_pairs, questions=False, max_contaminated=1)
        kept = Counter(row["intent"] for row in rows(store, "mtp") if row["split"] == "train")
        assert kept["qa"] < (20 if limits else 60), "the gate refused some"
        assert rates_for(store, 20) == {"qa": 0.1, "nli": 0.22}, "of qa there are 40 or more"
        assert (too_few_for(store, 90), too_few_for(store, 120)) == ({}, {"nli": 100})
    assert per_intent_for(20) == 22
