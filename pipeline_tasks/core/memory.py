"""How much memory this process and its children may use, in a container or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pipeline_tasks.core.settings import settings

MIB = 1 << 20
_OF_A_QUESTION = 8
_LEAST_MIB, _MOST_MIB = 64, 2048
_V1 = "memory.limit_in_bytes"
_V2 = "memory.max"


def memory_limit(root: Path = Path("/")) -> int:
    """Bytes: the least of the machine's memory and the limits of all control groups around this process."""
    return min([*_machine(root), *_groups(root)], default=_MOST_MIB * _OF_A_QUESTION * MIB)


def question_mib() -> int:
    """MiB that DuckDB may use for one question: the setting, else an eighth of :func:`memory_limit`, 2 GiB at most.

    The page answers two of ours and two of its visitors' side by side, so that they come to half of its container.
    """
    share = memory_limit() // _OF_A_QUESTION // MIB
    return settings().sql_memory_mib or max(_LEAST_MIB, min(_MOST_MIB, share))


def _machine(root: Path) -> Iterator[int]:
    with suppress(OSError):
        found = re.search(r"^MemTotal:\s+(\d+) kB", (root / "proc/meminfo").read_text("ascii"), re.MULTILINE)
        if found:
            yield int(found[1]) * 1024


def _groups(root: Path) -> Iterator[int]:
    """Limits of the groups that the kernel names, and of those above; in a container its own is the top of the tree."""
    top, named = root / "sys/fs/cgroup", ""
    with suppress(OSError):
        named = (root / "proc/self/cgroup").read_text("utf-8")
    for line in named.splitlines():
        number, kinds, path = line.split(":", 2)
        if number == "0" or "memory" in kinds.split(","):
            tree, file = (top, _V2) if number == "0" else (top / "memory", _V1)
            folder = tree / path.strip("/")
            for each in (folder, *folder.parents):
                if not each.is_relative_to(tree):
                    break
                with suppress(OSError, ValueError):  # there is none, or it is "max"
                    yield int((each / file).read_text("ascii"))
