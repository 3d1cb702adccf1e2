"""What two stores have spent, in one ledger. Neither says of what: what both counted is taken for the same."""

from __future__ import annotations

from pipeline_tasks.core.ids import canonical_json
from pipeline_tasks.core.paid.spending import state_of
from pipeline_tasks.core.store import Store


def merge_ledgers(key: str, one: bytes, other: bytes | None) -> bytes:
    """A source's ledger ``one`` and a target's ``other``: of each day and each run the larger amounts.

    Raises:
        InputError: nobody can say what one of them counted.
    """
    ours, both = state_of(one, f"{key} of the source"), state_of(other, f"{key} of the target")
    if other is None:
        return one
    for period in ("days", "runs"):
        for name, counts in ours.get(period, {}).items():
            held = both.setdefault(period, {}).setdefault(name, {})
            held |= {unit: max(amount, held.get(unit, amount)) for unit, amount in counts.items()}
    return canonical_json(both)


def add(target: Store, key: str, data: bytes) -> None:
    """Count in ``target`` what ``data``, a source's ledger, says, whoever spends there meanwhile.

    Raises:
        InputError: as :func:`merge_ledgers`.
    """
    with target.alone(key):
        while not target.swap(key, held := target.read(key), merge_ledgers(key, data, held)):
            pass
