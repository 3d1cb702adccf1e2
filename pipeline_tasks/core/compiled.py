"""``@compiled``: a loop over arrays as machine code, kept on disk from its first use on. Import it inside functions.

The code lies beside the model weights, because an installed package may not be writable.
"""

from __future__ import annotations

import numba

from pipeline_tasks.core.settings import settings

numba.config.CACHE_DIR = str(settings().cache / "numba")  # type: ignore[attr-defined]
compiled = numba.njit(cache=True, nogil=True)

in_any_order = numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
"""Sums may be added up in whatever order is fast: other machines may give other last bits."""
