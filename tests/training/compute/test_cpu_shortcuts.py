from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import psutil
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.training import contrastive
from pipeline_tasks.training.compute import cpu_shortcuts as shortcuts
from pipeline_tasks.training.compute.cpu_shortcuts import cpu_shortcuts
from pipeline_tasks.training.compute.half_attention import keep_mask
from pipeline_tasks.training.params import TrainParams


@pytest.fixture
def model(tiny_bert):
    return load(tiny_bert).model


def attended(attend, mask, tensors, dropout=0.1):
    """What ``attend`` gives for a mask, and its gradients."""
    torch.manual_seed(7)
    found = attend(*tensors, mask, dropout)
    return found, *torch.autograd.grad((found * found).sum(), tensors)


def torchs(query, key, value, mask, dropout):
    found = scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout, scale=0.2)
    return found.transpose(1, 2)


def ours(query, key, value, mask, dropout):
    def refused(*_, **__):
        raise AssertionError("the usual kernel was asked")

    return shortcuts._attention(refused, None, query, key, value, mask, dropout=dropout, scaling=0.2)[0]


@pytest.mark.parametrize(("texts", "tokens"), [(3, 5), (2, 64), (1, 1)])
def test_attention_and_its_gradients_are_those_of_torch_to_the_bit(texts, tokens):
    tensors = [torch.randn(texts, 4, tokens, 8, requires_grad=True) for _ in range(3)]
    mask = torch.ones(texts, 1, 1, tokens, dtype=torch.bool)
    mask[0, ..., tokens // 2 + 1 :] = False
    mask = mask.expand(texts, 1, tokens, tokens)
    for one, other in zip(attended(torchs, mask, tensors), attended(ours, mask, tensors), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("heads", [4, 2])
def test_attention_in_bfloat16_is_closer_to_the_exact_one_than_torchs(heads):
    query, key, value = (torch.randn(3, n, 40, 8).bfloat16().double() for n in (4, heads, heads))
    mask = torch.ones(40, 40, dtype=torch.bool).tril().expand(3, 1, 40, 40).clone()
    mask[0, ..., 30:] = False

    def grouped(query, key, value, mask, dropout):
        return torchs(query, *(each.repeat_interleave(4 // heads, 1) for each in (key, value)), mask, dropout)

    def found(attend, kind):
        tensors = [each.to(kind).requires_grad_() for each in (query, key, value)]
        with torch.autocast("cpu", torch.bfloat16, enabled=kind != torch.float64):
            attended = attend(*tensors, mask, 0.0)
        assert attended.dtype == kind
        return [attended.detach(), *torch.autograd.grad((attended.double() ** 2).sum(), tensors)]

    exact = found(grouped, torch.float64)
    theirs, own = (found(attend, torch.bfloat16) for attend in (grouped, ours))
    for wanted, torchs_own, one in zip(exact, theirs, own, strict=True):
        off, of_torch = (float((each.double() - wanted).norm() / wanted.norm()) for each in (one, torchs_own))
        assert off < 0.003 and off < 1.1 * of_torch


@pytest.mark.parametrize("heads", [4, 2])
def test_attention_with_dropout_in_bfloat16_is_what_is_kept_of_the_weights(heads):
    query, key, value = (torch.randn(3, n, 40, 8).bfloat16().double().requires_grad_() for n in (4, heads, heads))
    mask = torch.ones(40, 40, dtype=torch.bool).tril().expand(3, 1, 40, 40).clone()
    mask[0, ..., 30:] = False
    torch.manual_seed(7)
    left = keep_mask(torch.Size((3 * heads, 4 // heads * 40, 40)), 0.8).view(3, 4, 40, 40)
    assert abs(float(left.double().mean()) - 0.8) < 0.01
    known, seen = (each.repeat_interleave(4 // heads, 1) for each in (key, value))
    weights = torch.softmax((query @ known.transpose(-2, -1) * 0.2).masked_fill(~mask, float("-inf")), -1)
    exact = (weights * left / 0.8 @ seen).transpose(1, 2)
    wanted = [exact.detach(), *torch.autograd.grad((exact**2).sum(), (query, key, value))]

    tensors = [each.detach().bfloat16().requires_grad_() for each in (query, key, value)]
    torch.manual_seed(7)
    with torch.autocast("cpu", torch.bfloat16):
        own = ours(*tensors, mask, 0.2)
    assert own.dtype == torch.bfloat16
    for one, found in zip(wanted, [own, *torch.autograd.grad((own.double() ** 2).sum(), tensors)], strict=True):
        assert float((found.detach().double() - one).norm() / one.norm()) < 0.004


def test_hidden_states_in_bfloat16_are_dropped_as_often_as_asked_and_otherwise_as_torch_does():
    layer, states = torch.nn.Dropout(0.25), torch.ones(400, 300, dtype=torch.bfloat16, requires_grad=True)

    def dropped(seed=7):
        torch.manual_seed(seed)
        return shortcuts._dropped_out(layer, states)

    plain = dropped()
    torch.manual_seed(7)
    assert torch.equal(plain, layer(states))
    with torch.autocast("cpu", torch.bfloat16):
        found = dropped()
        assert set(found.detach().float().unique().tolist()) == {0.0, float(torch.tensor(1 / 0.75).bfloat16())}
        assert abs(float((found > 0).double().mean()) - 0.75) < 0.01
        assert torch.equal(torch.autograd.grad(found.sum(), states)[0], found)
        assert torch.equal(found, dropped()) and not torch.equal(found, dropped(8))
        layer.eval()
        assert torch.equal(dropped(), states)


def test_memory_stays_for_the_next_operation_until_the_end_where_the_system_lets_it(monkeypatch):
    def resident_mib():
        return psutil.Process().memory_info().rss / 2**20

    before = resident_mib()
    with shortcuts._memory_kept():
        torch.ones(50 * 2**20)
        assert resident_mib() > before + 150
    assert resident_mib() < before + 50
    monkeypatch.setattr(shortcuts.ctypes, "CDLL", lambda name: SimpleNamespace())
    with shortcuts._memory_kept():
        pass  # a C library without such settings has nothing to be told


def test_the_usual_kernel_does_what_torch_would_do_in_another_way(monkeypatch):
    asked = []

    def usual(*_, dropout, **__):
        asked.append(dropout)

    def attend(mask, dropout=0.1, kind=torch.float32, heads=4, **further):
        query, key = torch.ones(2, 4, 3, 8, dtype=kind), torch.ones(2, heads, 3, 8, dtype=kind)
        shortcuts._attention(usual, None, query, key, key, mask, dropout=dropout, **further)

    full, empty = torch.ones(2, 1, 3, 3, dtype=torch.bool), torch.ones(2, 1, 3, 3, dtype=torch.bool)
    empty[1] = False
    attend(full, position_ids=torch.arange(3), is_causal=None)
    assert asked == []
    attend(full, dropout=0.0)
    attend(None)
    attend(empty)
    attend(full.float())
    attend(full, kind=torch.bfloat16)
    attend(full, heads=2)
    attend(full, is_causal=True)
    with torch.autocast("cpu", torch.bfloat16):
        attend(full)
        attend(full, dropout=0.0)
        attend(None, dropout=0.0)
        attend(empty, dropout=0.0)
        monkeypatch.setattr(shortcuts, "SHORT", 2)
        attend(full, dropout=0.0)
    assert asked == [0.0, *[0.1] * 6, *[0.0] * 3]


@pytest.mark.parametrize("padding", [None, 2])
def test_gradients_of_token_embeddings_are_added_up_as_torch_adds_them_up(padding):
    plain, short = (torch.nn.Embedding(50, 6, padding_idx=padding) for _ in range(2))
    short.load_state_dict(plain.state_dict())
    pieces = [torch.randint(0, 9, (3, 7)) for _ in range(4)]
    for ids in pieces:
        towards = torch.randn(3, 7, 6)
        (plain(ids) * towards).sum().backward()
        (shortcuts._embedded(short, ids) * towards).sum().backward()
    assert torch.equal(plain.weight.grad, short.weight.grad)
    assert not short.weight.grad[9:].any() and (padding is None or not short.weight.grad[padding].any())


def test_all_is_as_it_was_after_the_block(model):
    tokens, usual = model.get_input_embeddings(), ALL_ATTENTION_FUNCTIONS["sdpa"]
    with pytest.raises(KeyError), cpu_shortcuts(model):
        assert "forward" in vars(tokens) and ALL_ATTENTION_FUNCTIONS["sdpa"] is not usual
        raise KeyError
    assert "forward" not in vars(tokens) and ALL_ATTENTION_FUNCTIONS["sdpa"] is usual


def test_a_training_with_them_ends_in_the_same_weights(tiny_bert, rows, dev, tmp_path, monkeypatch):
    lengths = {"max_query_length": 16, "max_passage_length": 32, "micro_batch_tokens": 40}
    params = TrainParams(size="22m", device="cpu", batch_size=8, epochs=2, learning_rate=1e-3, **lengths)
    taken = []
    usual = shortcuts._attention
    monkeypatch.setattr(shortcuts, "_attention", lambda *a, **k: taken.append(k["dropout"]) or usual(*a, **k))
    short = contrastive.train(rows, dev, tiny_bert, params, tmp_path / "short")
    assert 0.1 in taken
    monkeypatch.setattr(contrastive, "cpu_shortcuts", lambda model: nullcontext())
    plain = contrastive.train(rows, dev, tiny_bert, params, tmp_path / "plain")
    assert short.losses == plain.losses
    weights = plain.encoder.model.state_dict()
    assert all(torch.equal(found, weights[name]) for name, found in short.encoder.model.state_dict().items())
