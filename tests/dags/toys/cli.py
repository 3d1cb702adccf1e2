"""``foundry`` over the toy steps."""

from pipeline_tasks.cli.main import main
from pipeline_tasks.core import registry

registry.PACKAGE, registry.ROOMS = "toys", ("room",)

if __name__ == "__main__":
    main()
