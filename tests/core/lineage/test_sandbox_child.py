"""What the kernel refuses the process that answers a visitor's statement."""

import subprocess
import sys

import pytest

from pipeline_tasks.core.confine import files
from pipeline_tasks.core.errors import EXIT_RETRY
from pipeline_tasks.core.lineage import sandbox
from pipeline_tasks.core.lineage.reader import Reader
from pipeline_tasks.core.lineage.sandbox import Answer, Limits, Sandbox, Task


@pytest.mark.parametrize("landlock", [True, False])
def test_the_kernel_lets_it_write_and_empty_nothing(tmp_path, landlock):
    if landlock and not files.version():
        pytest.skip("this kernel has no Landlock")
    kept, elsewhere = tmp_path / "objects" / "x", tmp_path / "y"
    kept.parent.mkdir()
    for path in (kept, elsewhere):
        path.write_text("kept")
    script = f"""
import os
from pathlib import Path
from pipeline_tasks.core.confine import files
from pipeline_tasks.core.errors import EXIT_RETRY
from pipeline_tasks.core.lineage import sandbox
from pipeline_tasks.core.lineage.sandbox_child import confine_to
if not {landlock}:
    files.version = lambda: 0
kept, elsewhere = Path({str(kept)!r}), Path({str(elsewhere)!r})
confine_to(kept.parent)
print(kept.read_text())
changes = (lambda: kept.open("w"), lambda: kept.open("r+"), lambda: os.truncate(kept, 0), kept.unlink,
    lambda: kept.rename(elsewhere), (kept.parent / "new").touch, (kept.parent / "new").mkdir)
for attempt in (*changes, elsewhere.read_text):
    try:
        print(attempt())
    except PermissionError:
        print("refused")
"""
    tried = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert tried.stdout.split() == ["kept", *["refused"] * 7, "refused" if landlock else "kept"]
    assert (kept.read_text(), list(kept.parent.iterdir())) == ("kept", [kept])


def test_a_copy_that_nobody_saw_changes_no_object(built):
    reader = Reader(built)
    place = next(built.root.rglob("*.parquet"))
    before = place.read_bytes()
    script = f"""
from pathlib import Path
from pipeline_tasks.core.confine import files
from pipeline_tasks.core.errors import EXIT_RETRY
from pipeline_tasks.core.lineage import sandbox
from pipeline_tasks.core.lineage.query import connect
from pipeline_tasks.core.lineage.sandbox_child import confine_to
files.version = lambda: 0
database, objects = Path({str(reader.database())!r}), Path({str(reader.objects)!r})
confine_to(database, objects)
with connect(database, objects, memory_mib=512, threads=2) as con:
    print(con.execute("SELECT count(*) FROM read_blob({str(place)!r})").fetchone()[0])
    con.execute("COPY (SELECT 1 WHERE false) TO {str(place)!r} (FORMAT csv, HEADER false)")
"""
    tried = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert tried.stdout.split() == ["1"] and "not permitted" in tried.stderr
    assert place.read_bytes() == before


def test_it_is_confined_before_duckdb_begins_threads_since_landlock_holds_none_that_is_older(built):
    reader = Reader(built)
    task = Task(database=reader.database(), objects=reader.objects, sql="SELECT 1", limits=Limits())
    script = """
import sys
from pipeline_tasks.core.lineage import sandbox_child
for name in ("confine_to", "connect"):
    def noted(*given, name=name, call=getattr(sandbox_child, name), **named):
        print(name, file=sys.stderr)
        return call(*given, **named)
    setattr(sandbox_child, name, noted)
sandbox_child.main()
"""
    command = [sys.executable, "-c", script]
    tried = subprocess.run(command, input=task.model_dump_json(), capture_output=True, text=True, check=True)
    rows = Answer.model_validate_json(tried.stdout).rows
    assert (tried.stderr.split(), rows) == (["confine_to", "connect"], [[1]])


def test_a_database_that_a_fold_replaced_before_it_was_open_is_opened_once_more(built, monkeypatch):
    if not files.version():
        pytest.skip("this kernel has no Landlock")
    reader, run, ended = Reader(built), subprocess.run, []
    script = """
from pipeline_tasks.core.lineage import sandbox_child
confine_to = sandbox_child.confine_to
sandbox_child.confine_to = lambda database, objects: confine_to(objects)  # as where the name has another file by now
sandbox_child.main()
"""

    def too_late_at_first(command, **given):
        found = run([sys.executable, "-c", script] if not ended else command, **given)
        ended.append(found.returncode)
        return found

    monkeypatch.setattr(sandbox.subprocess, "run", too_late_at_first)
    assert Sandbox(reader).ask("SELECT 1").rows == [[1]]
    assert ended == [EXIT_RETRY, 0]
