"""The shapes as data: as many parameters as transformers builds, and as many as a hand computation gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline_tasks.models.registry import get
from pipeline_tasks.models.shapes import SHAPES
from pipeline_tasks.models.sizes import SIZES, backbone

CONFIGS = json.loads((Path(__file__).parent / "backbones.json").read_text("utf-8"))


def test_every_size_has_a_shape():
    assert {backbone(size).name for size in SIZES} <= SHAPES.keys() == CONFIGS.keys()


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_as_many_parameters_as_its_model(name):
    import torch
    from transformers import AutoConfig, AutoModel

    facts = dict(CONFIGS[name])
    with torch.device("meta"):
        model = AutoModel.from_config(AutoConfig.for_model(facts.pop("model_type"), **facts))
    shape = SHAPES[name]
    assert sum(weights.numel() for weights in model.parameters()) == shape.n_params == get(name).n_params
    linear = [layer.weight for path, layer in model.named_modules() if hasattr(layer, "in_features")]
    pooler = shape.width**2 if shape.pooler_params else 0
    assert sum(weights.numel() for weights in linear) == shape.matrix_params + pooler


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.gated])
def test_adapters_have_as_many_parameters_as_peft_makes(name):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModel

    facts, targets = dict(CONFIGS[name]), ("q_proj", "k_proj", "o_proj", "gate_proj", "down_proj")
    with torch.device("meta"):
        model = AutoModel.from_config(AutoConfig.for_model(facts.pop("model_type"), **facts))
        adapted = get_peft_model(model, LoraConfig(r=16, target_modules=list(targets)), low_cpu_mem_usage=True)
    trained = sum(weights.numel() for weights in adapted.parameters() if weights.requires_grad)
    assert SHAPES[name].adapter_params(16, targets) == trained


def test_bert_base_by_hand():
    shape = SHAPES["bert-base-uncased"]
    block = 4 * (768 * 768 + 768) + (768 * 3072 + 3072) + (3072 * 768 + 768) + 4 * 768
    embeddings = (30522 + 512 + 2) * 768 + 2 * 768
    assert shape.n_params == embeddings + 12 * block + (768 * 768 + 768) == 109_482_240
    assert shape.matrix_params == 12 * 12 * 768 * 768
