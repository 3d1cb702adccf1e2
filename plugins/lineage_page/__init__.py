"""The lineage page: what was made of what, from PDF to model, inside Airflow and behind its login.

``app`` puts it together, ``access`` decides who may, ``routes`` is the API, ``static`` the page. What they show is
found by :mod:`pipeline_tasks.core.lineage`, which knows nothing of Airflow.
"""
