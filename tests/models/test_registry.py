import re

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.licences import is_non_commercial
from pipeline_tasks.models.registry import ANY, _registry, assigned, get, models
from pipeline_tasks.models.sizes import backbone

SIZES = ("33m", "109m", "335m", "596m", "4b", "7.6b")


def test_an_unknown_name_is_told_the_nearest_one_or_where_all_are():
    hints = {"all-minilm-l6": "did you mean 'all-minilm-l6-v2'?", "x": "`foundry models` lists them"}
    hints["model/22m/finetune"] = (
        "a version trained here is asked by `foundry evaluate` and `foundry ask`, or exported: docs/use.md"
    )
    for name, hint in hints.items():
        with pytest.raises(InputError) as told:
            get(name)
        assert str(told.value) == f"unknown model {name!r}; {hint}"


def test_a_folder_that_is_written_as_a_name_is_told_how_it_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-model").mkdir()
    with pytest.raises(InputError, match=r"unknown model 'my-model'; .*; a folder is written as a path: \./my-model$"):
        get("my-model")


def test_names_are_unique():
    names = [spec.name for spec in models()]
    assert len(names) == len(set(names))


def test_every_offline_file_is_pinned_and_every_package_has_a_version():
    for spec in models():
        if spec.offline is None:
            continue
        pins = {**spec.offline.files, **spec.offline.made}
        assert all(re.fullmatch("[0-9a-f]{64}", pin) for pin in pins.values()), spec.name
        assert all(package.count("==") == 1 for package in spec.offline.packages), spec.name
        assert spec.weights[0] in pins, spec.name


@pytest.mark.parametrize("size", SIZES)
def test_every_size_of_the_paper_has_a_backbone_on_the_hub(size):
    assert backbone(size).role == "backbone"
    assert backbone(size).hub is not None


def test_unknown_size_lists_the_known_ones():
    with pytest.raises(InputError, match=r"'1b'.*33m.*7\.6b"):
        backbone("1b")


def test_widths_are_those_of_table_1():
    assert [backbone(size).dim for size in SIZES] == [384, 768, 1024, 1024, 2560, 4096]


def test_identity_of_a_converted_model_is_what_the_converter_makes():
    spec = get("minilm-l12-h384")
    assert spec.identity() == {"name": spec.name, "sha256": spec.offline.made["model.safetensors"]}
    assert get("bert-base-uncased").identity()["hub"] == "google-bert/bert-base-uncased@main"


def test_queries_of_bge_have_its_own_prefix():
    assert get("bge-small-en-v1.5").prefixes({})["query"].startswith("Represent this sentence")
    assert get("all-minilm-l6-v2").prefixes({"qa": "find"}) == {"query": "", "passage": ""}


def baselines():
    return [spec for spec in models() if spec.role == "encoder" and (spec.hub or spec.offline)]


def test_all_baselines_of_the_paper_are_there_and_pinned_where_their_commit_is_known():
    of_paper = [spec for spec in baselines() if not spec.name.startswith("all-")]
    assert len(of_paper) == 29
    assert [spec.name for spec in of_paper if spec.hub.revision == "main"] == ["bge-small-en-v1.5", "gte-large-en-v1.5"]
    assert {spec.max_length for spec in of_paper} == {512}


def test_decoders_end_in_a_token_and_take_the_last_and_only_they_are_told_what_to_do():
    decoders = [spec for spec in baselines() if spec.family in ("qwen2", "qwen3", "mistral") and not spec.only_served]
    assert len(decoders) == 10
    assert {(spec.pooling, bool(spec.append), spec.is_instructed) for spec in decoders} == {("last", True, True)}
    encoders = [spec for spec in baselines() if spec not in decoders and not spec.only_served]
    assert {spec.append for spec in encoders} == {""}
    assert [spec.name for spec in encoders if spec.is_instructed] == ["multilingual-e5-large-instruct"]


def test_what_pools_in_a_way_of_its_own_is_never_run_here():
    assert {spec.name for spec in models() if spec.pooling == "own" and not spec.only_served} == set()
    assert {spec.name for spec in baselines() if spec.pooling == "own"} == {"nv-embed-v1", "nv-embed-v2"}


def test_an_instructed_model_gets_the_instruction_of_the_intent():
    prefixes = get("qwen3-embedding-0.6b").prefixes({"qa": "Answer it", "sts": "Say it again"})
    assert prefixes == {"passage": "", "qa": "Instruct: Answer it\nQuery:", "sts": "Instruct: Say it again\nQuery:"}


def test_non_commercial_weights_are_those_of_table_13():
    marked = {spec.name for spec in models() if is_non_commercial(spec.licence)}
    assert marked == {"nv-embed-v1", "nv-embed-v2", "linq-embed-mistral", "sfr-embedding-mistral"}


def test_every_intent_has_three_models_of_table_5(monkeypatch):
    intents = ("qa", "qadoc", "twitter", "factcheck", "nli", "sts")
    for intent in intents:
        three = assigned("table-5", intent)
        assert len(set(three)) == 3 and all(get(name).role == "encoder" for name in three)
    assert assigned("table-5", "qa")[0] == "nv-embed-v2"
    assert assigned("offline", "qa") == assigned("offline", "anything")
    assert assigned("table-5", "gossip") == assigned("table-5", ANY)
    monkeypatch.delitem(_registry().assignments["table-5"], ANY)
    with pytest.raises(InputError, match="'table-5' has no models for intent 'gossip'"):
        assigned("table-5", "gossip")
    with pytest.raises(InputError, match="'table-6'.*offline, table-5"):
        assigned("table-6", "qa")
