"""The family as data: the values of the paper, and how many parameters each backbone has, without its weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.sizes import SIZES, backbone, get_size, read_sizes

CONFIGS = json.loads((Path(__file__).parent / "backbones.json").read_text("utf-8"))
TABLE_8 = {
    "33m": (None, (4e-4, 2400), (4e-5, 1024)),
    "109m": (None, (3e-4, 732), (1e-5, 512)),
    "335m": (None, (1e-4, 384), (9e-6, 512)),
    "596m": ((1e-4, 256), (9e-5, 384), (6e-5, 512)),
    "4b": ((5e-5, 256), (4e-5, 192), (2e-5, 128)),
    "7.6b": ((2e-5, 256), (2e-5, 140), (1e-5, 64)),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_backbone_has_as_many_parameters_as_the_registry_says(name):
    import torch
    from transformers import AutoConfig, AutoModel

    facts = dict(CONFIGS[name])
    with torch.device("meta"):
        model = AutoModel.from_config(AutoConfig.for_model(facts.pop("model_type"), **facts))
    assert sum(weights.numel() for weights in model.parameters()) == get(name).n_params
    assert model.config.hidden_size == get(name).dim


def test_every_size_has_its_parameters_counted():
    assert {backbone(size).name for size in SIZES} <= CONFIGS.keys()


@pytest.mark.parametrize("size", TABLE_8)
def test_learning_rates_and_batch_sizes_are_those_of_table_8(size):
    found = get_size(size)
    stages = [
        (stage.learning_rate, stage.batch_size) if stage else None
        for stage in (found.adapt, found.pretrain, found.finetune)
    ]
    assert tuple(stages) == TABLE_8[size]
    assert {(s.temperature, s.max_query_length, s.max_passage_length) for s in (found.pretrain, found.finetune)} == {
        (0.01, 512, 512)
    }
    tuples = found.stage("instructions")
    assert (tuples.learning_rate, tuples.batch_size, tuples.temperature) == (5e-5, 96, 0.01)


@pytest.mark.parametrize("size", SIZES)
def test_decoders_and_they_alone_are_adapted_and_train_adapters(size):
    found = get_size(size)
    assert (found.adapt is not None) is found.decoder
    assert (found.lora.rank, found.lora.alpha) == ((16, 32) if found.decoder else (0, 32))


def test_there_is_nothing_to_adapt_in_an_encoder():
    with pytest.raises(InputError, match="bert-base-uncased attends both ways already"):
        get_size("109m").stage("adapt")


def test_an_entry_that_is_no_size_is_told_by_file_and_size(tmp_path):
    file = tmp_path / "sizes.toml"
    stages = (
        "pretrain = { learning_rate = 1e-4, batch_size = 8 }\nfinetune = { learning_rate = 1e-4, batch_size = 8 }\n"
    )
    file.write_text(f'[mine]\nbackbone = "bert-base-uncased"\nalphas = [0.95]\n{stages}')
    with pytest.raises(InputError, match=r"sizes\.toml: size mine: on_gpu: Field required; docs/recipes\.md"):
        read_sizes(file)
    file.write_text("[mine")
    with pytest.raises(InputError, match=r"sizes\.toml is no TOML"):
        read_sizes(file)
