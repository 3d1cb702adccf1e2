"""What is told where no row of somebody's files became anything."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter

import pyarrow.compute as pc

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.run import Run
from pipeline_tasks.synthesis.files.pair_files import PairFiles

_SHOWN = 300
"""Characters of a line, or of names of columns: a file without a header has its first row for names."""


def nothing_in(source: str, run: Run, what: str, names: Mapping[str, str], **remedies: str) -> InputError:
    """Why no row of the files became anything: there is none, or what most of them are refused for.

    Args:
        source: where the files are.
        run: has the rejects.
        what: a row should have become.
        names: field -> the column that it was read from.
        remedies: reason of a reject -> what to do; a line that is no row, or has no such field, is known here.
    """
    rejects = run.rejects_table()
    if not rejects.num_rows:
        return InputError(f"source={source!r} has no row: its files are empty")
    reason = max(rejects["reason"].value_counts().to_pylist(), key=itemgetter("counts"))["values"]
    first = rejects.filter(pc.field("reason") == reason).slice(0, 1).to_pylist()[0]
    remedy = remedies.get(reason, "mend them")
    if reason == "bad_line":
        remedy = "JSONL has an object a line, CSV and TSV have as many fields in each line as in the first"
    elif reason not in remedies and reason.removeprefix("no_") in names:
        asked = ", ".join(f"{field}={name}" for field, name in names.items())
        remedy = (
            f"columns are read as {asked}, and there are {PairFiles(source).columns()[:_SHOWN]}: name others in "
            "columns; the first line of CSV and TSV names them, with commas or tabs between"
        )
    place = (first["detail"] or first["row_id"])[:_SHOWN].rstrip(": ")
    return InputError(f"no row of {source!r} is {what}; most are refused as {reason}, {place!r} for one: {remedy}")
