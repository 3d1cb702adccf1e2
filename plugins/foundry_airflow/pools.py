"""Makes the pools that steps wait in, where they are missing: the size that an operator gave one stays."""

import json
from pathlib import Path

from airflow.models.pool import Pool


def main() -> None:
    """Make those of ``pools.json``, which lies beside this file."""
    for name, pool in json.loads(Path(__file__).with_suffix(".json").read_text("utf-8")).items():
        if Pool.get_pool(name) is None:
            Pool.create_or_update_pool(name, **pool)


if __name__ == "__main__":
    main()
