"""``@compiled``: a loop over arrays as machine code, kept on disk from its first use on. Import it inside functions.

The code lies beside the model weights, because an installed package may not be writable. numba compiles a loop again
when its own file has changed, and not when another has that it calls, or whose classes and constants it takes; so all
of it lies in a folder that is named by what loops are made of. They are in files called ``*_kernels.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

import numba

from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.settings import settings

_IMPORTED = re.compile(r"^\s*from (\w+(?:\.\w+)*) import", re.MULTILINE)


def made_of(root: Path) -> str:
    """A digest of all loops below ``root/pipeline_tasks`` and of the modules there that they import."""
    loops = {path: path.read_text("utf-8") for path in sorted(root.glob("pipeline_tasks/**/*_kernels.py"))}
    names = {name for text in loops.values() for name in _IMPORTED.findall(text)}
    modules = [root.joinpath(*name.split(".")).with_suffix(".py") for name in sorted(names)]
    return short_id(*loops.values(), *(path.read_text("utf-8") for path in modules if path.is_file()))


numba.config.CACHE_DIR = str(settings().cache / "numba" / made_of(Path(__file__).parents[2]))  # type: ignore[attr-defined]
compiled = numba.njit(cache=True, nogil=True)

in_any_order = numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
"""Sums may be added up in whatever order is fast: other machines may give other last bits."""
