"""Says which layers hold on this machine, one a line, and ends."""

import sys

from pipeline_tasks.core.confine import confine, leave_network

held = [*leave_network(), *confine([])]
sys.stdout.write("\n".join(held))
