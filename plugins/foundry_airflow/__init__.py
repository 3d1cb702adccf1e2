"""How steps become Airflow tasks; with ``dags/`` the only code that imports Airflow."""
