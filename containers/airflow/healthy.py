"""``healthy.py COMPONENT``: exit code 0 where Airflow's own monitor calls the component healthy."""

import json
import sys
import urllib.request

MONITOR = "http://api-server:8080/api/v2/monitor/health"

with urllib.request.urlopen(MONITOR, timeout=5) as answer:  # noqa: S310
    sys.exit(json.load(answer)[sys.argv[1]]["status"] != "healthy")
