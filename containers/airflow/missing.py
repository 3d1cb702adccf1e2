"""``missing.py WANTED THERE``: leaves in the second JSON object what only the first one has."""

import json
import sys
from pathlib import Path

wanted, there = (json.loads(Path(path).read_text("utf-8")) for path in sys.argv[1:3])
Path(sys.argv[2]).write_text(json.dumps({name: wanted[name] for name in wanted.keys() - there.keys()}), "utf-8")
