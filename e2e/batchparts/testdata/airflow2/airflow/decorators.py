from stand_in import dag, dags, task  # noqa: F401
