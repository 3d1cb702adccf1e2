"""A package of toy steps with the shape of ``pipeline_tasks``."""
