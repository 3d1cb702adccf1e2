"""Who asks the lineage waits without a slot, and reads the database that is there when it has one."""

from __future__ import annotations

import threading

import pytest
import toy

from pipeline_tasks.core.lineage import DATABASE, fold, unfold
from pipeline_tasks.core.lineage.graph import versions
from pipeline_tasks.core.lineage.reader import Reader


def test_rows_are_brought_before_a_slot_is_taken_however_old_they_are_then(built, monkeypatch):
    lineage = Reader(built, fresh_s=0, at_once=1, patience_s=0.1)
    brought = []
    slow = lambda store, con: brought.append(lineage.ask("SELECT 1 AS n", rows=False))  # noqa: E731
    monkeypatch.setattr("pipeline_tasks.core.lineage.reader.bring_shown", slow)
    assert lineage.ask("SELECT 2 AS n") == [{"n": 2}] and brought == [[{"n": 1}]]


@pytest.mark.parametrize("replaced", [True, False])
def test_who_waited_for_a_slot_reads_the_database_that_is_there_by_then(store, monkeypatch, replaced):
    lineage, looked, read = Reader(store, fresh_s=600, at_once=1, patience_s=30), threading.Event(), []
    before, database = len(versions(lineage)), Reader.database
    noted = lambda self, **options: (database(self, **options), looked.set())[0]  # noqa: E731
    with lineage.asking(rows=False):
        monkeypatch.setattr(Reader, "database", noted)
        waits = threading.Thread(target=lambda: read.extend(versions(lineage)))
        waits.start()
        assert looked.wait(30)
        toy.corpus(store, "a", "z")
        if replaced:
            fold(store)
        else:
            unfold(store)
    waits.join()
    assert len(read) > before and (store.root / DATABASE).is_file()
