"""The house rules of the design, held for every file and every step."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from graphlib import TopologicalSorter
from itertools import permutations
from pathlib import Path

import pytest

from pipeline_tasks import datasets
from pipeline_tasks.core.registry import ROOMS, get_step, step_names
from pipeline_tasks.core.schema import RowSchema
from pipeline_tasks.core.step import Step
from pipeline_tasks.models.registry import models

ROOT = Path(__file__).parents[2]
PACKAGE = "pipeline_tasks"
LONGEST = 300
HEAVY = ("torch", "transformers", "faiss", "pymupdf", "fitz", "onnxruntime", "sentence_transformers", "numba")

BASE = {"core", "datasets", "domains", "models"}
MAY_IMPORT = {
    "core": set(),
    "columns": {"core"},
    "training_rows": {"core", "columns"},
    "datasets": {"core", "columns", "training_rows"},
    "domains": {"core"},
    "models": {"core"},
    "texts": {"core"},
    "encoders": {"core", "models"},
    "retrieval": BASE | {"encoders", "texts"},
    "corpus": BASE | {"texts"},
    "synthesis": BASE | {"texts"},
    "curation": BASE | {"encoders", "retrieval", "synthesis", "texts"},
    "training": BASE | {"encoders", "texts"},
    "evaluation": BASE | {"encoders", "retrieval"},
    "report": BASE | {"evaluation", "texts"},
    "ask": BASE | {"retrieval", "evaluation", "texts", "web"},
    "web": set(),
}
OUTSIDE = {"cli", "demo"}


@cache
def files() -> list[Path]:
    """Every Python file of the project, tracked or about to be."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sorted(path for name in listing.stdout.split() if (path := ROOT / name).is_file())


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def below(*folders: str) -> list[Path]:
    return [path for path in files() if named(path).split("/")[0] in folders]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports(path: Path) -> Iterator[str]:
    """Dotted names imported anywhere in ``path``, inside functions too; of ``from a import b`` it is ``a.b``."""
    package = ".".join(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(module, package) if node.level else module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room(dotted: str) -> str:
    """``corpus`` of ``pipeline_tasks.corpus.crawl``; of the package itself nothing."""
    top, _, rest = dotted.partition(".")
    name = rest.split(".")[0]
    is_room = (ROOT / PACKAGE / name).is_dir() or (ROOT / PACKAGE / f"{name}.py").is_file()
    return name if top == PACKAGE and name and is_room else ""


def steps() -> list[Step]:
    return [get_step(name) for name in step_names()]


def test_no_file_is_longer_than_a_reader_can_hold():
    lengths = {named(path): len(path.read_text("utf-8").splitlines()) for path in files()}
    assert len(lengths) > 100
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


def test_every_room_has_a_place_in_the_direction():
    rooms = {room(".".join(path.relative_to(ROOT).with_suffix("").parts)) for path in below(PACKAGE)} - {"__init__"}
    assert rooms == set(MAY_IMPORT) | OUTSIDE
    assert set(ROOMS) <= set(MAY_IMPORT)


@pytest.mark.parametrize("name", MAY_IMPORT)
def test_data_flows_one_way(name):
    allowed = MAY_IMPORT[name] | {name, ""}
    mine = [path for path in below(PACKAGE) if path.relative_to(ROOT).with_suffix("").parts[1] == name]
    assert mine
    wrong = [f"{named(p)} imports {d}" for p in mine for d in imports(p) if room(d) not in allowed]
    assert wrong == []


def for_types_alone(path: Path) -> set[str]:
    """What ``path`` imports below ``if TYPE_CHECKING``."""
    blocks = [n for n in tree(path).body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    found = [n for block in blocks for n in block.body if isinstance(n, ast.ImportFrom)]
    return {f"{node.module}.{alias.name}" for node in found for alias in node.names}


def test_no_module_imports_one_that_imports_it_even_inside_functions():
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in below(PACKAGE)}
    needs = {}
    for name, path in modules.items():
        found = set(imports(path)) - for_types_alone(path)
        needs[name] = {d if d in modules else d.rpartition(".")[0] for d in found} & modules.keys() - {name}
    assert len(list(TopologicalSorter(needs).static_order())) == len(modules) > 100


def test_only_dags_and_plugins_import_airflow():
    using = {named(path).split("/")[0] for path in files() if any(re.match(r"airflow\b", d) for d in imports(path))}
    assert using - {"tests"} == {"dags", "plugins"}


PUBLIC = ("airflow.sdk", "airflow.plugins_manager", "airflow.triggers.base", "airflow.listeners", "airflow.providers")


def test_one_file_uses_what_airflow_keeps_to_itself():
    """Airflow promises its public interface alone to later minors."""
    using = {
        named(path)
        for path in below("plugins", "dags")
        for d in imports(path)
        if d.split(".")[0] == "airflow" and not d.startswith(PUBLIC)
    }
    assert using == {"plugins/foundry_airflow/internals.py"}


def test_only_minors_of_airflow_that_were_tested_are_allowed():
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["airflow"]
    (airflow,) = [need for need in needs if re.match(r"apache-airflow[>=<]", need)]
    assert re.fullmatch(r"apache-airflow>=3\.\d+\.\d+,<3\.\d+", airflow), "a minor may change its internals"


def test_the_library_imports_neither_plugins_nor_dags_nor_tests():
    wrong = [
        f"{named(p)} imports {d}"
        for p in below(PACKAGE)
        for d in imports(p)
        if d.split(".")[0] in ("foundry_airflow", "plugins", "dags", "tests")
    ]
    assert wrong == []


def environment_reads(path: Path) -> list[int]:
    """Lines that read a variable; setting one, or copying all for a child process, is no read."""
    harmless: set[ast.AST] = set()
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            harmless |= {node.left, node.right}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            if isinstance(function, ast.Attribute) and function.attr in ("setdefault", "update"):
                harmless.add(function.value)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            harmless.add(node.value)
        elif isinstance(node, ast.ImportFrom) and node.module == "os":
            found += [node.lineno for alias in node.names if alias.name in ("environ", "getenv")]
        reads = isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.environ", "os.getenv")
        if reads and node not in harmless:
            found.append(node.lineno)
    return found


def test_only_settings_read_the_environment():
    reads = {named(path) for path in below(PACKAGE) if environment_reads(path)}
    assert reads == {"pipeline_tasks/core/settings.py"}


def test_the_library_prints_nothing():
    calls = [
        f"{named(path)}:{node.lineno}"
        for path in below(PACKAGE)
        if path.relative_to(ROOT).parts[1] not in OUTSIDE
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert calls == []


@pytest.mark.parametrize("name", step_names())
def test_a_step_has_one_name_and_says_what_it_does(name):
    step = get_step(name)
    assert step.name == step.body.__name__ == step.body.__module__.rpartition(".")[2] == name
    assert step.body.__module__ == step_names()[name]
    assert inspect.getdoc(step.body), f"{name} has no docstring"
    assert inspect.getdoc(step.params), f"the parameters of {name} have no docstring"
    assert step.dataset and step.version
    listed = {schema.name for schema in datasets.ALL}
    assert step.writes is None or step.writes.name in listed
    assert all(read.schema is None or read.schema.name in listed for read in step.reads.values())
    assert set(step.keeps) <= set(step.reads)
    assert all(step.reads[kept].schema == step.writes for kept in step.keeps)
    if step.kind != "reduce":
        assert step.writes and not step.grows and not (step.keeps and step.kind == "map")
        assert step.reads or step.kind == "partitioned", "a map step has parts of something"


def pattern(template: str) -> str:
    return re.sub(r"{\w+}", "*", template)


NARROWER = {
    ("rank_passages", "rank_bm25"),
    ("rank_passages", "fuse_rankings"),
    ("mine_negatives", "score_triplets"),
    ("mine_negatives", "unify"),
    ("mine_negatives", "read_classes"),
    ("mine_negatives", "read_triplets"),
    ("mine_negatives", "decontaminate_triplets"),
    ("read_classes", "decontaminate_triplets"),
    ("read_triplets", "decontaminate_triplets"),
    ("read_passages", "pool_passages"),
    ("judge_queries", "sample_queries"),
    ("evaluate_retriever", "evaluate_instructions"),
}
"""A step's pattern, and a step with one of its names: ``rankings/bm25``, ``mtt/<alpha>-kd``, ``judged/<set>-dev``,
``eval/<set>-instructions``, ``mtt/own/<name>/checked``."""
OF_FILES = {("read_classes", "read_triplets"), ("read_triplets", "read_classes")}
"""Steps that make one kind of dataset of whatever set of files its user names: ``mtt/own/<name>``."""


def test_every_dataset_is_written_by_one_step():
    writers = {step.name: pattern(step.dataset) for step in steps()}
    clashes = [(one, two) for one, two in permutations(writers, 2) if fnmatchcase(writers[two], writers[one])]
    assert set(clashes) == NARROWER | OF_FILES
    assert not {"bm25", "rrf"} & {model.name for model in models()}, "no model may take the name of another ranker"


def test_what_a_step_reads_by_default_is_written_by_another_in_the_same_rows():
    written = {step.name: (pattern(step.dataset), step.writes) for step in steps()}
    for step in steps():
        for name, read in step.reads.items():
            default = pattern(read.dataset or (read.schema.name if read.schema else ""))
            if default == "*":
                continue  # a parameter names it
            names = {name for name, (output, _) in written.items() if fnmatchcase(default, output)} - {step.name}
            wider = {one for one, narrow in NARROWER if narrow in names}
            alike = {one for one, other in OF_FILES if one > other and other in names}
            writes = [schema and schema.name for _, schema in (written[name] for name in names - wider - alike)]
            expected = read.schema and read.schema.name
            assert writes == [expected] or (read.optional and not writes), f"{step.name} {name}={default}"


def test_every_schema_is_listed_and_every_column_explained():
    schemas = [value for value in vars(datasets).values() if isinstance(value, RowSchema)]
    assert {s.name for s in schemas} == {s.name for s in datasets.ALL}
    assert [(s.name, c.name) for s in schemas for c in s.columns if len(c.doc.strip()) < 5] == []
    for schema in schemas:
        assert len({column.name for column in schema.columns}) == len(schema.columns)
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", column.name) for column in schema.columns)


def test_finding_every_step_and_saying_what_it_would_take_imports_nothing_heavy():
    code = (
        "import sys; from pipeline_tasks.core.registry import get_step, step_names\n"
        "from pipeline_tasks.synthesis import estimate; from pipeline_tasks.training.dry_run import forecast\n"
        "assert [get_step(name) for name in step_names()]\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
