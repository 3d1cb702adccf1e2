import re

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models.registry import backbone, get, models

SIZES = ("33m", "109m", "335m", "596m", "4b", "7.6b")


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match=r"'minilm'.*all-minilm-l6-v2.*qwen3-8b"):
        get("minilm")


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
