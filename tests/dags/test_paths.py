"""The paths that runs follow from a dataset to what it was made from."""

import re
from fnmatch import fnmatchcase

from foundry_airflow.paths import OF_PAIRS


def _behind(dataset, name):
    """Datasets, by pattern, that the steps which write ``dataset`` read as ``name`` or from datasets of that name."""
    from pipeline_tasks.core.registry import get_step, step_names

    for step in map(get_step, step_names()):
        if fnmatchcase(re.sub(r"{\w+}", "*", step.dataset), dataset):
            for key, read in step.reads.items():
                default = re.sub(r"{\w+}", "*", read.dataset or (read.schema.name if read.schema else ""))
                if fnmatchcase(key, name) or fnmatchcase(default, name):
                    yield default


def test_a_path_names_what_the_steps_on_its_way_read(bag):
    paths = {path for dag in bag.dags.values() for task in dag.tasks for path in getattr(task, "paths", {}).values()}
    followed = {path for path in paths if isinstance(path, str) and " > " in path}
    for path in followed.union(OF_PAIRS):
        start, *names = path.split(" > ")
        found = {start}
        for name in names:
            found = {source for dataset in found for source in _behind(dataset, name)}
        assert found, path
