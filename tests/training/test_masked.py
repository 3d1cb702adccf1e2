"""What is masked, where the loss is taken, and that micro-batches do not change it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.training.adapt_backbone import AdaptParams, _open
from pipeline_tasks.training.data.tokens import Tokens
from pipeline_tasks.training.masked import Blanks, blank_token, masked_task
from pipeline_tasks.training.parallel.peers import ALONE
from tests import shapes

BLANKS = Blanks(41, 0.3)
TEXTS = [np.arange(5, 5 + n, dtype=np.int32) for n in (2, 3, 8, 12, 20)]


def tokens(*texts: np.ndarray) -> Tokens:
    lengths = np.array([len(ids) for ids in texts], np.int32)
    return Tokens(lengths, [(np.concatenate([np.zeros(0, np.int32), *texts]), np.concatenate([[0], lengths.cumsum()]))])


NONE = tokens()


def params(**chosen) -> AdaptParams:
    return AdaptParams(device="cpu", batch_size=5, max_passage_length=32, **{"micro_batch_tokens": 1024} | chosen)


@pytest.fixture(scope="module", params=shapes.DECODERS)
def opened(request, tmp_path_factory):
    return _open(shapes.make(request.param, tmp_path_factory.mktemp(request.param)), params(), ALONE)


def test_blanks_are_a_share_of_the_text_never_its_first_token_and_at_least_one():
    for ids in TEXTS:
        for key in range(20):
            masked, chosen = BLANKS.put(ids, key)
            assert len(chosen) == max(1, round(0.3 * (len(ids) - 1)))
            assert chosen.min() > 0
            assert (masked[chosen] == 41).all()
            assert (np.delete(masked, chosen) == np.delete(ids, chosen)).all()
    assert not np.array_equal(BLANKS.put(TEXTS[-1], 1)[1], BLANKS.put(TEXTS[-1], 2)[1])


def test_the_loss_is_that_of_the_formula(opened):
    """One text at a time and without padding: the masked token is read off the position before it."""
    encoder, head = opened
    losses = []
    for row, ids in enumerate(TEXTS):
        masked, chosen = BLANKS.put(ids, 0, 3, row)
        with torch.no_grad():
            logits = head(encoder.model(torch.tensor([masked.tolist()])).last_hidden_state)[0]
        losses += [-logits[i - 1].log_softmax(dim=0)[int(ids[i])].item() for i in chosen]
    encoder.model.zero_grad()
    found = masked_task(encoder, head, tokens(*TEXTS), NONE, "", BLANKS, params()).accumulate(np.arange(5), 3)
    assert found == pytest.approx(np.mean(losses), rel=1e-5)


def test_micro_batches_add_up(opened):
    encoder, head = opened
    found = {}
    for piece in (8, 4096):
        encoder.model.zero_grad()
        task = masked_task(encoder, head, tokens(*TEXTS), NONE, "", BLANKS, params(micro_batch_tokens=piece))
        loss = task.accumulate(np.arange(5), 0)
        found[piece] = loss, [w.grad.clone() for w in encoder.model.parameters() if w.grad is not None]
    assert found[8][0] == pytest.approx(found[4096][0], rel=1e-5)
    for small, large in zip(found[8][1], found[4096][1], strict=True):
        torch.testing.assert_close(small, large, rtol=1e-3, atol=1e-6)


def test_the_score_is_the_share_of_blanks_that_are_filled_right(opened):
    encoder, head = opened
    task = masked_task(encoder, head, tokens(*TEXTS), tokens(*TEXTS), "", BLANKS, params())
    assert 0 <= task.score(0) == task.score(7) <= 1
    assert masked_task(encoder, head, tokens(*TEXTS), NONE, "", BLANKS, params()).score(0) is None


def test_a_text_of_one_token_is_no_row(opened):
    encoder, head = opened
    one = np.array([7], np.int32)
    task = masked_task(encoder, head, tokens(one, TEXTS[3], one, TEXTS[4]), tokens(one), "", BLANKS, params())
    assert sorted(row for batch in task.schedule[: len(task.schedule) // 2] for row in batch) == [0, 1]
    assert task.n_tokens(np.array([1])) == 20
    assert task.score(0) is None
    whole = masked_task(encoder, head, tokens(*TEXTS[3:]), NONE, "", BLANKS, params())
    encoder.model.zero_grad()
    assert task.accumulate(np.array([1]), 3) == whole.accumulate(np.array([1]), 3)


def test_a_blank_is_one_token_that_the_tokenizer_knows(opened):
    tokenizer = opened[0].tokenizer
    assert blank_token(tokenizer, "_") == tokenizer.convert_tokens_to_ids("_")
    for text in ("ta tb", "neverseen", ""):
        with pytest.raises(InputError, match="mask_text="):
            blank_token(tokenizer, text)
