"""Training learns, gives the same bytes every time, and survives SIGKILL without leaving a trace in them."""

import hashlib
import random
from pathlib import Path
from signal import SIGKILL

import pytest
import torch

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.datasets import TUPLES
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.training.contrastive import TrainResult, train
from pipeline_tasks.training.curves import curve
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.follow_instructions import rows_of
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.objectives import objective
from pipeline_tasks.training.params import TrainParams
from tests.forked import forked
from tests.training.made import planted

SMALL = TrainParams(
    epochs=3,
    batch_size=8,
    learning_rate=3e-3,
    temperature=0.1,
    max_query_length=16,
    max_passage_length=32,
    evals_per_epoch=1,
    checkpoint_every_steps=2,
    device="cpu",
)


def with_(**changes) -> TrainParams:
    return SMALL.model_copy(update=changes)


def weights_digest(result: TrainResult) -> str:
    digest = hashlib.sha256()
    for name, weights in sorted(result.encoder.model.state_dict().items()):
        digest.update(name.encode() + weights.numpy().tobytes())
    return digest.hexdigest()


def file_digest(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.parametrize("in_batch", [True, False])
def test_learns_to_match_topics(tiny_bert, many_rows, dev, tmp_path, in_batch: bool) -> None:
    result = train(many_rows, dev, tiny_bert, with_(epochs=10, in_batch=in_batch), tmp_path)
    (first_step, untrained), *_ = result.scores
    assert first_step == 0
    assert result.best_score > untrained + 0.2
    assert sum(result.losses[-9:]) < sum(result.losses[:9]) / 2


def test_best_is_the_last_of_the_highest_scores(tiny_bert, rows, dev, tmp_path) -> None:
    result = train(rows, dev, tiny_bert, with_(epochs=6), tmp_path)
    scores = dict(result.scores)
    best = max(scores.values())
    assert result.best_score == best
    assert result.best_step == max(step for step, score in scores.items() if score == best)
    assert list(scores) == [3 * epoch for epoch in range(7)]


def test_a_run_that_hurts_gives_back_the_weights_it_came_with(tiny_bert, rows, dev, tmp_path) -> None:
    trained = train(rows, dev, tiny_bert, with_(epochs=10, in_batch=True), tmp_path / "good")
    export(trained.encoder, tmp_path / "start", card={}, layout=Layout("mean", 32))
    (given,) = rows.blocks()
    positives = given["positive"].to_pylist()
    wrong = Examples.of(given["query"], positives[1:] + positives[:1], given["negatives"])
    result = train(wrong, dev, tmp_path / "start", with_(learning_rate=3e-2), tmp_path / "harm")
    assert max(score for _, score in result.scores[1:]) < result.best_score == result.scores[0][1]
    assert result.best_step == 0
    assert weights_digest(result) == weights_digest(trained)


def test_the_start_is_asked_as_it_wants_to_be_asked(tiny_bert, rows, dev, tmp_path) -> None:
    (given,) = dev.blocks()
    first, *others = given["positive"].to_pylist()
    nothing_to_find = Examples.of(given["query"].to_pylist(), [*others, first])
    result = train(rows, nothing_to_find, tiny_bert, SMALL, tmp_path, dev_of_start=dev)
    assert result.best_step == 0
    assert result.best_score > max(score for _, score in result.scores[1:])


def test_of_equal_scores_the_later_checkpoint_wins(tiny_bert, rows, tmp_path) -> None:
    saturated = Examples.of(["ta"], ["ta wb"])
    result = train(rows, saturated, tiny_bert, SMALL, tmp_path)
    assert {score for _, score in result.scores} == {1.0}
    assert result.best_step == result.steps == 9


def test_without_development_data_the_last_weights_count(tiny_bert, rows, tmp_path) -> None:
    result = train(rows, Examples.of(), tiny_bert, SMALL, tmp_path)
    assert (result.best_step, result.best_score, result.scores) == (9, None, ())


def test_same_seed_same_bytes_other_seed_other_bytes(tiny_bert, rows, dev, tmp_path) -> None:
    torch.manual_seed(1)
    first = train(rows, dev, tiny_bert, SMALL, tmp_path / "a")
    torch.manual_seed(2)
    again = train(rows, dev, tiny_bert, SMALL, tmp_path / "b")
    other = train(rows, dev, tiny_bert, with_(seed=1), tmp_path / "c")
    assert weights_digest(first) == weights_digest(again)
    assert first.losses == again.losses
    assert weights_digest(first) != weights_digest(other)


def test_recomputed_activations_change_no_byte(tiny_bert, rows, dev, tmp_path) -> None:
    kept = train(rows, dev, tiny_bert, with_(in_batch=True), tmp_path / "a")
    again = train(rows, dev, tiny_bert, with_(in_batch=True, recompute=True), tmp_path / "b")
    assert weights_digest(kept) == weights_digest(again)
    assert kept.losses == again.losses


def test_caller_finds_its_torch_settings_unchanged(tiny_bert, rows, tmp_path) -> None:
    before = torch.get_rng_state(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    train(rows, Examples.of(), tiny_bert, SMALL, tmp_path)
    after = torch.get_rng_state(), torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_progress_tells_tokens_a_second_and_memory(tiny_bert, rows, tmp_path) -> None:
    told: list[dict[str, float]] = []
    train(rows, Examples.of(), tiny_bert, with_(epochs=1), tmp_path, lambda step, steps, facts: told.append(facts))
    assert [sorted(facts) for facts in told] == [["learning_rate", "loss", "peak_gib", "tokens_per_s"]] * 3
    assert all(facts["tokens_per_s"] > 0 and 0.05 < facts["peak_gib"] < 100 for facts in told)


@pytest.mark.parametrize("stop", [1, 2, 3, 4, 6, 8, 9])
def test_stopped_at_any_step_epoch_edges_included_it_ends_the_same(tiny_bert, rows, dev, tmp_path, stop: int) -> None:
    whole = train(rows, dev, tiny_bert, SMALL, tmp_path / "whole")

    def interrupt(step: int, steps: int, facts: dict[str, float]) -> None:
        if step == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(rows, dev, tiny_bert, SMALL, tmp_path / "stopped", interrupt)
    done: list[int] = []
    resumed = train(rows, dev, tiny_bert, SMALL, tmp_path / "stopped", lambda step, *_: done.append(step))
    assert done == list(range(resumed.resumed_at + 1, 10))
    assert resumed.resumed_at == max(step for step in (0, 2, 3, 4, 6, 8, 9) if step <= stop)
    assert resumed.losses == whole.losses
    assert resumed.scores == whole.scores
    assert weights_digest(resumed) == weights_digest(whole)


@pytest.mark.parametrize(
    ("kind", "changed", "most"),
    [
        ("rows", {"epochs": 8}, 6),
        ("lists", {"epochs": 3, "objective": objective("list_net")}, 3),
        ("tuples", {"epochs": 1, "in_batch": True, "objective": objective("instruction_contrast")}, 4),
    ],
)
def test_killed_at_random_moments_it_ends_in_the_same_bytes(request, tiny_bert, dev, tmp_path, kind, changed, most):
    from tests.training import killable

    context, rows = forked(), request.getfixturevalue(kind)
    config = with_(checkpoint_every_steps=1, **changed)
    undisturbed = train(rows, dev, tiny_bert, config, tmp_path / "whole")
    export(undisturbed.encoder, tmp_path / "expected", card={"name": "killed"}, layout=Layout("mean", 32))
    curve.save(undisturbed, config, tmp_path / "expected")
    moments = random.Random(0)
    kills = 0
    while True:
        hear, tell = context.Pipe(duplex=False)
        arguments = (tell, rows, dev, tiny_bert, config, tmp_path / "killed", tmp_path / "out")
        process = context.Process(target=killable.run, args=arguments)
        process.start()
        tell.close()
        patience = moments.randint(1, most)
        try:
            for _ in range(patience):
                hear.recv()
        except EOFError:
            process.join()
            assert process.exitcode == 0
            break
        process.kill()
        process.join()
        kills += process.exitcode != 0
    assert kills >= most - 1
    assert file_digest(tmp_path / "out") == file_digest(tmp_path / "expected")
    assert (tmp_path / "out" / curve.FILE).read_bytes() == (tmp_path / "expected" / curve.FILE).read_bytes()


def test_killed_at_an_epoch_s_last_step_at_the_next_one_s_first_and_at_its_end(tiny_bert, rows, dev, tmp_path) -> None:
    from tests.training import killable

    context, whole = forked(), train(rows, dev, tiny_bert, SMALL, tmp_path / "whole")
    for last, saved in ((3, 3), (4, 4), (5, 4), (9, 9)):
        work, (hear, tell) = tmp_path / f"{last}", context.Pipe(duplex=False)
        arguments = (tell, rows, dev, tiny_bert, SMALL, work, tmp_path / "out", last)
        process = context.Process(target=killable.run, args=arguments)
        process.start()
        process.join()
        assert (process.exitcode, [hear.recv() for _ in range(last)][-1]) == (-SIGKILL, last)
        assert not (tmp_path / "out").exists()
        resumed = train(rows, dev, tiny_bert, SMALL, work)
        assert (resumed.resumed_at, resumed.losses, resumed.scores) == (saved, whole.losses, whole.scores)
        assert weights_digest(resumed) == weights_digest(whole)


def test_work_folder_of_another_run_is_refused(tiny_bert, rows, tmp_path) -> None:
    train(rows, Examples.of(), tiny_bert, SMALL, tmp_path)
    with pytest.raises(InputError, match="belongs to another run"):
        train(rows, Examples.of(), tiny_bert, with_(learning_rate=1e-3), tmp_path)
    again = train(rows, Examples.of(), tiny_bert, with_(checkpoint_every_steps=7), tmp_path)
    assert again.resumed_at == again.steps


def test_a_diverging_run_says_so(tiny_bert, rows, tmp_path) -> None:
    with pytest.raises(InputError, match=r"at step 1 is nan: lower learning_rate \(1e\+38\).* 8 training rows: \d+, "):
        train(rows, Examples.of(), tiny_bert, with_(learning_rate=1e38, warmup_ratio=0.0), tmp_path)


def test_a_model_that_diverged_in_its_last_step_is_not_the_best(tiny_bert, rows, dev, tmp_path) -> None:
    one_step = with_(learning_rate=1e38, warmup_ratio=0.0, epochs=1, batch_size=1_000)
    with pytest.raises(InputError, match=r"development score after step 1 is nan: the weights have diverged; lower"):
        train(rows, dev, tiny_bert, one_step, tmp_path)


def test_bad_calls_are_refused(tiny_bert, rows, tmp_path) -> None:
    with pytest.raises(InputError, match="no training rows"):
        train(Examples.of(), Examples.of(), tiny_bert, SMALL, tmp_path)
    (given,) = rows.blocks()
    without = Examples.of(given["query"], given["positive"])
    with pytest.raises(InputError, match="no row has a negative"):
        train(without, Examples.of(), tiny_bert, SMALL, tmp_path)
    for changed in ({"in_batch": True}, {"objective": objective("same_tower")}):
        with pytest.raises(InputError, match="batch_size=1, and no row has a negative: .* Raise batch_size"):
            train(without, Examples.of(), tiny_bert, with_(batch_size=1, **changed), tmp_path)
    with pytest.raises(InputError, match="do not fit a backbone of 64 positions"):
        train(rows, Examples.of(), tiny_bert, with_(max_passage_length=65), tmp_path)


def test_a_row_alone_is_learned_from_where_it_brings_other_instructions(tiny_bert, tmp_path) -> None:
    few = TUPLES.table([planted(topic, "train") for topic in range(2)])
    rows = Examples(lambda: rows_of(few, Layout("mean", 24), n_negatives=0))
    alone = with_(batch_size=1, epochs=1, in_batch=True, objective=objective("instruction_contrast"))
    assert max(train(rows, Examples.of(), tiny_bert, alone, tmp_path).losses) > 0
