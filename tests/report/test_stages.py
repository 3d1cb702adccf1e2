"""Stage by stage: a training is told as one line, also where it went through a mean."""

from __future__ import annotations

from pipeline_tasks.core.store import LocalStore
from pipeline_tasks.datasets import EVALUATIONS
from pipeline_tasks.report.evaluations import read
from pipeline_tasks.report.sections.stages import chain, stage_section
from pipeline_tasks.report.subject import lineage
from tests.report.made import rows_of, trained
from tests.stores import put


def test_a_mean_comes_after_the_best_of_its_members(tmp_path):
    store = LocalStore(tmp_path)
    start = {"backbone": {"name": "all-minilm-l6-v2"}}
    members = [trained(store, "pretrain", start | {"seed": seed}) for seed in range(3)]
    mean = trained(store, "average", models=members)
    tuned = trained(store, "finetune", init=[mean])
    gains = dict(zip((*members, mean, tuned), (0.1, 0.2, 0.15, 0.3, 0.25), strict=True))
    systems = {ref.removeprefix("model/"): (gain, ref) for ref, gain in gains.items()}
    ref = put(store, EVALUATIONS, rows_of({"22m/untrained": (0.0, "")} | systems, 8), dataset="eval/judged")
    with lineage(store) as ask:
        scores = read(ask, str(ref))
        section = stage_section(ask, scores, scores.called(tuned))
        assert list(chain(ask, tuned)) == [*sorted(members), mean, tuned]
    of = [scores.called(ref) for ref in (members[1], mean, tuned)]
    assert [row[0] for row in section.table.rows] == ["22m/untrained", *of]
    assert [row[2].split()[0] for row in section.table.rows[1:]] == ["+0.200", "+0.100", "-0.050"]
