from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline_tasks.cli.inspect import ls_command, sql_command
from pipeline_tasks.cli.stale import stale_command
from pipeline_tasks.core.lineage import query
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import commit, load_manifest
from pipeline_tasks.curation.unify import unify
from pipeline_tasks.datasets import DOWNLOADS, INSTRUCTED_PAIRS, PAIRS, RELABELLED
from tests.stores import go, put

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "lineage"))
import toy  # noqa: E402


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the toy chain in it."""
    store = LocalStore(tmp_path_factory.mktemp("cli"))
    toy.chain(store, "a", "twin", "bad", "c")
    return store.root


def foundry(root: Path, *args: str, code: int = 0, **variables: str) -> str:
    """stdout of the real command, and stderr where it fails."""
    environment = {"FOUNDRY_STORE": str(root), "COLUMNS": "250", "PATH": "/usr/bin:/bin"} | variables
    done = subprocess.run(
        [sys.executable, "-m", "pipeline_tasks.cli.main", *args],
        env=environment,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr


def test_lists_of_versions_are_not_cut(root, monkeypatch, capsys):
    monkeypatch.setitem(query.__kwdefaults__, "max_rows", 3)
    monkeypatch.setattr("pipeline_tasks.cli.inspect.store", lambda: LocalStore(root))
    monkeypatch.setattr("pipeline_tasks.cli.stale.used_store", lambda: LocalStore(root))
    n = len(list((root / "versions").rglob("*.json")))
    ls_command("")
    assert len(re.findall(r" [0-9a-f]{16} ", capsys.readouterr().out)) == n > 3
    now = dict.fromkeys(("toy_urls", "toy_documents", "toy_distinct", "toy_passages"), "")
    monkeypatch.setattr("pipeline_tasks.cli.stale.step_names", lambda: now)
    monkeypatch.setattr("pipeline_tasks.cli.stale.get_step", lambda name: replace(toy.toy_urls, version="9"))
    stale_command("json")
    assert len(json.loads(capsys.readouterr().out)) == len(now) > 3


def test_ls_lists_versions_newest_first_and_marks_the_latest(root):
    everything = foundry(root, "ls")
    assert everything.index("eval/dev") < everything.index("urls")
    below = foundry(root, "ls", "rankings")
    assert re.search(r"rankings/beta +[0-9a-f]{16} +\* +2 ", below)
    assert "urls" not in below
    assert "'nothing' is not in the store" in foundry(root, "ls", "nothing", code=2)


def test_show_tells_rows_schema_and_origin(root):
    shown = foundry(root, "show", "mtt/0.75")
    assert "made by toy_triplets v1" in shown and "alpha = 0.75" in shown
    assert re.search(r"← labelled@[0-9a-f]{16}", shown) and "negative_ids" in shown
    assert "1_Pooling/config.json" in foundry(root, "show", "model/33m/finetune@latest")
    assert "encrypted" in foundry(root, "show", "documents/rejects")


def test_export_rows(root, tmp_path):
    foundry(root, "export", "labelled", str(tmp_path / "parquet"))
    (part,) = (tmp_path / "parquet").iterdir()
    assert pq.read_table(part)["query_id"].to_pylist() == ["q-n-p-d-a"]
    foundry(root, "export", "urls", str(tmp_path / "jsonl"), "--format", "jsonl")
    lines = [json.loads(x) for p in sorted((tmp_path / "jsonl").iterdir()) for x in p.read_text().splitlines()]
    assert [line["url_id"] for line in lines] == ["a", "twin", "bad", "c"]
    assert "is not empty" in foundry(root, "export", "urls", str(tmp_path / "jsonl"), code=2)


def test_export_a_model(root, tmp_path):
    foundry(root, "export", "model/33m/finetune", str(tmp_path / "model"))
    assert json.loads((tmp_path / "model/1_Pooling/config.json").read_text()) == {"pooling": "mean"}
    assert not any(p.is_symlink() for p in (tmp_path / "model").rglob("*"))


def test_sql_in_three_formats(root):
    select = "SELECT dataset, rows FROM versions WHERE step = 'toy_rank' ORDER BY dataset"
    wanted = [{"dataset": f"rankings/{m}", "rows": 2} for m in toy.MODELS]
    assert json.loads(foundry(root, "sql", select, "--format", "json")) == wanted
    rows = list(csv.DictReader(io.StringIO(foundry(root, "sql", select, "--format", "csv"))))
    assert rows == [{k: str(v) for k, v in row.items()} for row in wanted]
    assert "rankings/gamma" in foundry(root, "sql", select)
    assert "read-only" in foundry(root, "sql", "DROP TABLE steps", code=2)


def test_numbers_that_json_has_not_are_texts_as_on_the_lineage_page(root):
    select = "SELECT 'nan'::DOUBLE AS a, ['inf'::DOUBLE, 1] AS b, {'c': '-inf'::DOUBLE} AS c"
    found = json.loads(foundry(root, "sql", select, "--format", "json"))
    assert found == [{"a": "nan", "b": ["inf", 1.0], "c": {"c": "-inf"}}]
    sums = "SELECT sum(n) AS n, 1.50 AS d FROM range(4) AS t(n)"
    assert json.loads(foundry(root, "sql", sums, "--format", "json")) == [{"n": 6, "d": 1.5}]
    (row,) = csv.DictReader(io.StringIO(foundry(root, "sql", select, "--format", "csv")))
    assert row == {"a": "nan", "b": '["inf", 1.0]', "c": '{"c": "-inf"}'}


def test_sql_says_where_there_are_more_rows_than_it_prints(root, monkeypatch, capsys):
    monkeypatch.setenv("FOUNDRY_STORE", str(root))
    settings.cache_clear()
    for n, told in ((1, ""), (2, "only the first 1 rows are shown; raise --max-rows for more\n")):
        sql_command(f"FROM range({n})", "json", max_rows=1)
        printed, said = capsys.readouterr()
        assert json.loads(printed) == [{"range": 0}] and said == told
    settings.cache_clear()


def test_trace_tells_of_negatives_without_scores(tmp_path):
    store = LocalStore(tmp_path)
    texts = {"query_id": "q1", "intent": "qa", "query": "what is a?", "instruction": "find", "split": "train"}
    pair = texts | {"passage_id": "p1", "positive_id": "p1", "positive": "a is b", "passage": "a is b"}
    put(store, INSTRUCTED_PAIRS, [pair], dataset="mtp/instructed")
    ranked = {"passage_ids": ["p1", "p2"], "passages": ["a is b", "c is d"], "source_passage_id": "p1"}
    scores = {"likelihoods": [-1.0, -5.0], "relevances": [3.0, 0.1], "source_rank": 1}
    put(store, RELABELLED, [texts | ranked | scores], dataset="relabelled")
    go(store, unify, {"relabelled": ["relabelled"]})
    assert "p2  –  c is d" in foundry(tmp_path, "trace", "q1")


def test_trace_says_of_which_version_it_tells(tmp_path):
    store = LocalStore(tmp_path)
    ref = put(store, PAIRS, [{"query_id": "q1", "query": "what is a?", "split": "train"}])
    put(store, PAIRS, [{"query_id": "q2", "query": "what is b?", "split": "train"}])
    assert f"the latest versions do not tell it: this is of {ref}" in foundry(tmp_path, "trace", "q1")
    assert "latest versions" not in foundry(tmp_path, "trace", "q2")


def test_trace_tells_the_whole_story(root):
    told = foundry(root, "trace", "q-n-p-d-a")
    for fact in (
        "https://example.org/a.pdf",
        "Title a",
        "page 3",
        "p-d-a",
        "accepted",
        "mtt/0.65",
        "mtt/0.75",
        "p-other",
    ):
        assert fact in told, fact
    assert "beta: labelled positive at rank 1, cosine 0.900" in told
    refused = foundry(root, "trace", "q-n-p-d-c")
    assert "no_agreement" in refused and "in no build" in refused
    assert "gamma: written positive at rank 2, cosine 0.800" in refused
    assert "no pair of any version has query_id 'x'" in foundry(root, "trace", "x", code=2)


def test_show_opens_no_pdf(tmp_path):
    store = LocalStore(tmp_path / "store")
    ref = put(store, DOWNLOADS, [{"doc_id": "d", "url": "http://a/b", "content": b"%PDF-1.7"}])
    (part,) = load_manifest(store, ref).parts
    store.delete(part.bodies.key)
    shown = foundry(store.root, "show", "downloads")
    assert re.search(r"content *│ *large_binary *│ *a file", shown) and "http://a/b" in shown


def test_what_is_shown_of_licences_and_files_is_no_markup_and_no_code(tmp_path):
    store = LocalStore(tmp_path / "store")
    made = load_manifest(store, put(store, DOWNLOADS, [{"doc_id": "d"}]))
    odd = "[/bold]\x1b]0;owned\x07"
    file = made.parts[0].model_copy(update={"name": odd})
    changes = {"id": "0" * 16, "rows_schema": "files", "parts": [file], "licences": {odd: f"{odd}nc"}}
    commit(store, made.model_copy(update=changes))
    shown = foundry(store.root, "show", f"downloads@{'0' * 16}")
    assert "made with [/bold]]0;owned: [/bold]]0;ownednc  non-commercial" in shown and "│ [/bold]]0;owned" in shown
    assert "\x1b" not in shown and "\x07" not in shown


def test_gc_on_a_fresh_store_drops_nothing(root):
    before = sorted(root.glob("objects/*/*"))
    assert "would drop 0 bytes" in foundry(root, "gc", "--dry-run")
    assert "dropped 0 bytes" in foundry(root, "gc")
    assert "nothing to put together" in foundry(root, "compact")
    assert sorted(root.glob("objects/*/*")) == before


class _Endpoint(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "writer-1", "max_model_len": 4096}, {"id": "writer-2"}]}')

    def log_message(self, *args: object) -> None:
        """Quiet."""


def test_doctor_names_what_is_missing_and_asks_the_endpoint(root, tmp_path):
    server = HTTPServer(("127.0.0.1", 0), _Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    cache = {"FOUNDRY_CACHE": str(tmp_path)}
    priced = {"FOUNDRY_LLM_PRICE_IN": "1", "FOUNDRY_LLM_PRICE_OUT": "free", "FOUNDRY_LLM_USD_PER_MONTH": "50"}
    found = foundry(root, "doctor", code=2, OPENAI_BASE_URL=url, **cache, **priced)
    server.shutdown()
    server.server_close()
    assert (
        "127.0.0.1 answers 200: writer-1 (4,096 tokens)" in " ".join(found.split()) and "foundry models fetch" in found
    )
    assert "1 and 0 dollars per million tokens; 0.00 dollars and 0 tokens this month" in found
    assert "FOUNDRY_LLM_USD_PER_MONTH=50" in found
    found = foundry(root, "doctor", code=2, OPENAI_BASE_URL=url, **cache, FOUNDRY_LLM_PRICE_IN="1")
    assert "does not answer" in found and "set FOUNDRY_LLM_PRICE_OUT to US dollars" in found
    found = foundry(root, "doctor", code=2, **cache)
    assert "OPENAI_BASE_URL is not set" in found
    assert "minilm-l12-h384" in found and not re.search(r"smollm2-135m(?!-)", found)  # who trains that fetches it


def test_doctor_tells_the_domain_and_its_intents_or_that_there_is_none(root, tmp_path):
    cache = {"FOUNDRY_CACHE": str(tmp_path)}
    told = " ".join(foundry(root, "doctor", code=2, **cache, FOUNDRY_DOMAIN="food_safety").split())
    assert "│ food_safety (intents question, procedure, limit, belief); FOUNDRY_DOMAIN names another" in told
    told = foundry(root, "doctor", code=2, **cache, FOUNDRY_DOMAIN=str(tmp_path / "none"))
    assert "is no domain" in told


def test_doctor_and_steps_tell_what_the_operators_file_gives(root, tmp_path):
    file = tmp_path / "resources.toml"
    file.write_text("[default]\nretries = 5\n[finetune]\nmemory_gib = 48\ntimeout_minutes = 0\n")
    given = {"FOUNDRY_CACHE": str(tmp_path), "FOUNDRY_RESOURCES": str(file)}
    told = " ".join(foundry(root, "doctor", code=2, **given).split())
    assert "default (retries 5); finetune (memory_gib 48, timeout_minutes 0)" in told
    steps = foundry(root, "steps", **given)
    assert "48 GiB" in steps and "no time limit" in steps and "5 retries, goes on" in steps
    file.write_text("[fine_tune]\nretries = 5\n")
    assert "no step is called 'fine_tune'" in foundry(root, "doctor", code=2, **given)
