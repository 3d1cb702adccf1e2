"""What is counted of a training's memory is what PyTorch keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModel, BertConfig, BertModel

from pipeline_tasks.encoders.lora import Lora, with_adapters
from pipeline_tasks.models.shapes import Shape
from pipeline_tasks.training.dry_run.cost import Cost

BATCH, LENGTH, RANK = 32, 64, 4
WIDTHS = {
    "bert": {"width": 192, "mlp_width": 352, "heads": 6},
    **dict.fromkeys(("llama", "qwen3"), {"width": 192, "mlp_width": 352, "heads": 4, "key_value_heads": 2}),
}
TARGETS = {
    "bert": ("query", "key", "value", "dense"),
    **dict.fromkeys(("llama", "qwen3"), ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")),
}


def trunk(shape: Shape, *, held_half: bool, adapters: bool) -> Any:
    common = {
        "hidden_size": shape.width, "intermediate_size": shape.mlp_width, "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads, "vocab_size": shape.vocabulary,
    }  # fmt: skip
    if shape.architecture == "bert":
        # A processor keeps another kind of dropout mask than a GPU.
        dropped = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        model: Any = BertModel(BertConfig(**common, **dropped), add_pooling_layer=False)
    else:
        grouped = {"num_key_value_heads": shape.key_value_heads, "head_dim": shape.head_width, "use_cache": False}
        model = AutoModel.from_config(AutoConfig.for_model(shape.architecture, **common, **grouped))
    model = model.to(torch.bfloat16) if held_half else model
    return with_adapters(model, Lora(RANK, 8, TARGETS[shape.architecture]), 0) if adapters else model


def kept_bytes(model: Any, *, half: bool) -> int:
    """Of one forward pass, weights and their copies left out."""
    weights = {part.untyped_storage().data_ptr() for part in (*model.parameters(), *model.buffers())}
    shapes = {tuple(weight.shape) for weight in model.parameters()}
    shapes |= {shape[::-1] for shape in shapes}
    held: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tuple(tensor.shape) not in shapes:
            held[storage.data_ptr()] = storage
        return tensor

    ids = torch.ones((BATCH, LENGTH), dtype=torch.long)
    mask = torch.ones_like(ids)
    mask[0, -3:] = 0
    keeping = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with keeping, torch.autocast("cpu", torch.bfloat16, enabled=half):
        model.train()(input_ids=ids, attention_mask=mask)
    return sum(storage.nbytes() for storage in held.values())


@pytest.mark.parametrize(
    ("half", "adapters", "exact"),
    [(half, adapters, False) for half in (False, True) for adapters in (False, True)] + [(True, True, True)],
)
@pytest.mark.parametrize("architecture", WIDTHS)
@pytest.mark.parametrize("changed", [{}, {"width": 288}, {"mlp_width": 544}])
def test_a_block_keeps_as_many_bytes_of_a_token_as_are_counted(architecture, half, adapters, exact, changed):
    widths = WIDTHS[architecture] | changed
    head_width = widths["width"] // widths["heads"] if architecture == "bert" else 32

    def shape(layers: int) -> Shape:
        return Shape(architecture=architecture, layers=layers, head_width=head_width, vocabulary=100, **widths)

    cost = Cost(shape(1), RANK if adapters else 0, TARGETS[architecture], half, exact=exact)
    made = (trunk(shape(n), held_half=cost.held_half, adapters=adapters) for n in (1, 3))
    one, three = (kept_bytes(model, half=half) for model in made)
    dropout = 2 * widths["width"] if architecture == "bert" else 0
    # Beside what is counted: a mask of every pair of tokens, a number a head and a token, the adapters' ranks.
    beside = LENGTH * 4 + widths["heads"] * 4 * 3 + 24 + RANK * 4 * 7 * adapters
    assert 0 <= (three - one) / 2 / (BATCH * LENGTH) - (cost.kept_bytes - dropout) <= beside
