"""The general-domain sets from a hub: the layouts of the files, ranges of them alone, and nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.core.versions import load_manifest
from pipeline_tasks.models.hub_files import BLOCK_BYTES
from pipeline_tasks.synthesis.files.general_sets import general_sets
from pipeline_tasks.synthesis.read_general_pairs import read_general_pairs
from tests.models.hub_server import asked_here, serving
from tests.stores import go, reasons, rows
from tests.synthesis.general_files import N, packed, parquet, plant, texts

ON_HUB = tuple(name for name, one in general_sets().items() if "://" not in one.hub)
QRELS = "BeIR/hotpotqa-qrels"


@pytest.fixture(scope="module")
def served():
    with serving() as hub:
        yield hub


@pytest.fixture
def hub(served, monkeypatch):
    """An empty hub, and the profile that asks it."""
    served.clear()
    asked_here(served, monkeypatch)
    monkeypatch.setenv("FOUNDRY_PROFILE", "hub")
    settings.cache_clear()
    yield served
    served.go_on.set()


def push(hub, name: str, folder: Path) -> str:
    """The files below ``folder`` as the data set of ``name``, at the commit where the registry has one."""
    one = general_sets()[name]
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return hub.push(one.hub, files | {"README.md": b"card", "script.py": b"raise"}, commit=one.revision)


def squad(root: Path, *, of: int = N, files: int = 1, name: str = "squad") -> Path:
    """Files of pairs in row groups of 100, with a column that nobody wants."""
    noise = random.Random(3)
    for file in range(files):
        pairs = [texts(name, file * of + i) for i in range(of)]
        table = pa.Table.from_pylist(
            [{"question": q, "answer": a, "more": noise.randbytes(500).hex()} for q, a in pairs]
        )
        path = root / name / "pair" / f"train-{file:05}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, row_group_size=100)
    return root / name


def pairs(store: LocalStore) -> list[tuple]:
    return sorted((row["origin"], row["intent"], row["query"], row["positive"]) for row in rows(store, "mtp/gd"))


def sizes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_every_layout_of_the_hub_gives_the_pairs_that_its_files_give(hub, store, tmp_path):
    plant(tmp_path / "gd")
    of_files = LocalStore(tmp_path / "other")
    go(of_files, read_general_pairs, source=str(tmp_path / "gd"), sets=ON_HUB)
    judged = tmp_path / "gd" / "hotpotqa" / "qrels" / "train.tsv"
    qrels = hub.push(QRELS, {"train.tsv": judged.read_bytes(), "test.tsv": b"wrong"})
    judged.unlink()
    for name in ON_HUB:
        push(hub, name, tmp_path / "gd" / name)
    outcome = go(store, read_general_pairs, source="hub", sets=ON_HUB)
    assert len(pairs(store)) == 14 * N and pairs(store) == pairs(of_files)
    read = load_manifest(store, outcome.ref).params["source"]
    one = general_sets()["hotpotqa"]
    assert read["hotpotqa"] == f"BeIR/hotpotqa@{one.revision}, {QRELS}@{qrels}"
    assert read["squad"] == f"sentence-transformers/squad@{hub.branches['sentence-transformers/squad', 'main']}"
    assert load_manifest(store, outcome.ref).licences.keys() == {"gd/msmarco", "gd/xnli"}
    assert {path.rpartition(".")[2] for path in hub.bytes_sent} == {"parquet", "jsonl", "gz", "tsv"}, "no script"


def test_no_more_row_groups_and_columns_are_read_than_the_pairs_want(hub, store, tmp_path):
    folder = squad(tmp_path, of=2_000, files=2)
    push(hub, "squad", folder)
    outcome = go(store, read_general_pairs, source="hub", sets=("squad",), most={"squad": 150})
    found = pairs(store)
    assert len(found) == 150 and outcome.counters["rows_in"] == 150
    assert outcome.counters["hub_bytes/gd/squad"] == sum(hub.bytes_sent.values()) < sizes(folder) / 10
    groups = {int(query.rpartition("no")[2][:-1]) // 100 for _, _, query, _ in found}
    assert len(groups) == 2 and groups != {0, 1}, "not the first rows: groups are drawn by their hashes"
    hub.bytes_sent.clear()
    go(store, read_general_pairs, source="hub", sets=("squad",))
    assert len(pairs(store)) == 4_000 and sum(hub.bytes_sent.values()) < sizes(folder) / 2


def test_no_more_lines_are_read_than_the_pairs_want(hub, store, tmp_path):
    lines = [json.dumps({"text": f"news {i} {'x' * 1000}", "query": f"what {i}?"}) for i in range(5_000)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    push(hub, "signal1m", tmp_path)
    go(store, read_general_pairs, source="hub", sets=("signal1m",), most={"signal1m": 100})
    assert len(pairs(store)) == 100 and sum(hub.bytes_sent.values()) == BLOCK_BYTES < sizes(tmp_path) / 2


def test_texts_are_not_looked_for_once_all_are_found(hub, store, tmp_path):
    plant(tmp_path)
    corpus = tmp_path / "nfcorpus" / "corpus.jsonl"
    corpus.write_text(
        corpus.read_text() + "".join(f'{{"_id": "x{i}", "text": "{"y" * 1000}"}}\n' for i in range(5_000))
    )
    push(hub, "nfcorpus", tmp_path / "nfcorpus")
    go(store, read_general_pairs, source="hub", sets=("nfcorpus",))
    assert len(pairs(store)) == N and sum(hub.bytes_sent.values()) < 2 * BLOCK_BYTES < sizes(tmp_path / "nfcorpus")


def test_a_kill_in_the_middle_fetches_nothing_again(hub, store, tmp_path):
    for name, files in (("eli5", 1), ("squad", 3)):
        push(hub, name, squad(tmp_path, of=300, files=files, name=name))
    values = ["--set", "source=hub", "--set", 'sets=["squad", "eli5"]']
    command = [sys.executable, "-m", "pipeline_tasks.cli.main", "run", "read_general_pairs", *values]
    environment = os.environ | {"HF_ENDPOINT": hub.url, "FOUNDRY_STORE": str(tmp_path / "store")}
    hub.most_files = 3
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as child:
        assert hub.stuck.wait(60)
        child.send_signal(signal.SIGKILL)
    assert len(hub.bytes_sent) == 3 and "eli5" in next(iter(hub.bytes_sent))
    hub.most_files = None
    hub.go_on.set()
    before = hub.bytes_sent.copy()
    go(store, read_general_pairs, source="hub", sets=("squad", "eli5"))
    assert len(pairs(store)) == 1_200
    again = {path: n for path, n in hub.bytes_sent.items() if n != before[path]}
    assert len(again) == 1 and again.keys().isdisjoint(before), "the one file that was not begun"


def test_a_set_that_was_read_is_not_read_again_for_another_beside_it(hub, store, tmp_path):
    for name in ("squad", "eli5"):
        push(hub, name, squad(tmp_path, name=name))
    go(store, read_general_pairs, source="hub", sets=("squad",))
    before = hub.bytes_sent.copy()
    outcome = go(store, read_general_pairs, source="hub", sets=("squad", "eli5"))
    assert {path.split("/")[3] for path in (hub.bytes_sent - before)} == {"eli5"}
    assert outcome.counters["pairs/gd/squad/qa"] == outcome.counters["pairs/gd/eli5/qa"] == N


def test_a_branch_that_moves_is_another_version_and_a_pinned_commit_is_not(hub, store, tmp_path, monkeypatch):
    first = push(hub, "squad", squad(tmp_path))
    before = go(store, read_general_pairs, source="hub", sets=("squad",)).ref
    push(hub, "squad", squad(tmp_path, of=2 * N))
    assert go(store, read_general_pairs, source="hub", sets=("squad",)).ref != before
    assert len(pairs(store)) == 2 * N
    monkeypatch.setenv("FOUNDRY_HUB_REVISIONS", f"squad={first}")
    settings.cache_clear()
    assert go(store, read_general_pairs, source="hub", sets=("squad",)).ref == before
    converted = (squad(tmp_path, of=3) / "pair" / "train-00000.parquet").read_bytes()
    files = {"pair/train/0000.parquet": converted}
    hub.push(general_sets()["squad"].hub, files, branch="refs/convert/parquet", commit="c" * 40)
    monkeypatch.setenv("FOUNDRY_HUB_REVISIONS", "squad=refs/convert/parquet")
    settings.cache_clear()
    version = load_manifest(store, go(store, read_general_pairs, source="hub", sets=("squad",)).ref)
    assert version.rows == 3 and version.params["source"]["squad"].endswith("c" * 40)


@pytest.mark.parametrize(
    ("values", "variables", "message"),
    [
        ({}, {"FOUNDRY_PROFILE": "offline"}, r"set 'squad': source=hub asks the hub, and FOUNDRY_PROFILE=offline "
         r"forbids it: set FOUNDRY_PROFILE=hub, or elsewhere: hf download sentence-transformers/squad .*source=FOLDER"),
        ({"sets": ()}, {}, "source='hub' is given no sets=; there are squad, paq"),
        ({"sets": ("msmarco_documents",)}, {}, r"'msmarco_documents' is on no hub: leave it out of sets=, or download "
         r"msmarco-doctrain-queries.tsv\*.* into FOLDER/msmarco_documents, and read that with source=FOLDER"),
        ({"sets": ("paq",)}, {}, "the hub has no data set sentence-transformers/paq@main, or it wants a token"),
        ({"sets": ("eli5",)}, {}, r"set 'eli5': data set sentence-transformers/eli5@6e3b\w+ has no .*\.parquet file "
         r"like pair/train\*; it has README.md, other/train.parquet, script.py. Name another commit"),
        ({"sets": ("gooaq",)}, {}, "set 'gooaq': pair/train.parquet has no column 'answer'; it has question, antwort"),
        ({"sets": ("altlex",)}, {}, "set 'altlex': pair/train.parquet of .* cannot be read as parquet"),
        ({"sets": ("xnli",)}, {"FOUNDRY_ALLOW_NONCOMMERCIAL": "false"}, "'xnli' has the licence 'CC-BY-NC-4.0': leave"),
        ({"most_gib": 1e-6}, {}, "set 'squad' wants more than most_gib=1e-06: raise it, or lower most="),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_the_remedy(hub, store, tmp_path, monkeypatch, values, variables, message):
    push(hub, "squad", squad(tmp_path))
    parquet(tmp_path / "eli5" / "other" / "train.parquet", [{"question": "a", "answer": "b"}])
    parquet(tmp_path / "gooaq" / "pair" / "train.parquet", [{"question": "a", "antwort": "b"}])
    (tmp_path / "altlex" / "pair").mkdir(parents=True)
    (tmp_path / "altlex" / "pair" / "train.parquet").write_bytes(b"no parquet" * 10)
    for name in ("eli5", "gooaq", "altlex"):
        push(hub, name, tmp_path / name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    with pytest.raises(InputError, match=message):
        go(store, read_general_pairs, **{"source": "hub", "sets": ("squad",)} | values)


@pytest.mark.parametrize("texts_are", ["texts", "bytes"])
def test_what_is_no_pair_is_a_reject_that_says_where_it_stands(hub, store, tmp_path, texts_are):
    given = [{"question": "", "answer": "b"}, {"question": "a", "answer": "b"}]
    parquet(tmp_path / "pair" / "train.parquet", given if texts_are == "texts" else packed(given))
    push(hub, "squad", tmp_path)
    go(store, read_general_pairs, source="hub", sets=("squad",), most={"squad": 5})
    assert pairs(store) == [("gd/squad", "qa", "a", "b")] and reasons(store, "mtp/gd") == {"no_query": 1}
