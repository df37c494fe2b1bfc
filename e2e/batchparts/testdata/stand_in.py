"""What the DAG uses of Airflow, with what Airflow refuses: the DAGs that are made are in dags."""

import inspect
from datetime import datetime

dags = {}
current = None


class Task:
    def __init__(self, function, task_id=None, retries=0, retry_delay=None, execution_timeout=None):
        inspect.signature(function)  # Airflow looks for the names of its arguments
        self.function, self.task_id = function, task_id or function.__name__
        self.upstream, self.mapped = [], False

    def _placed(self, *given):
        current["tasks"][self.task_id] = self
        self.upstream = [one.task_id for one in given if isinstance(one, Task)]
        return self

    def __call__(self, *args, **kwargs):
        inspect.signature(self.function).bind(*args, **kwargs)
        return self._placed(*args, *kwargs.values())

    def expand_kwargs(self, arguments):
        self.mapped = True
        return self._placed(arguments)


def task(function, **options):
    return Task(function, **options)


def dag(dag_id, schedule, start_date, catchup, max_active_runs):
    if not isinstance(start_date, datetime) or start_date.tzinfo is None:
        raise TypeError("start_date: want a datetime with a time zone")

    def decorated(function):
        def make():
            global current
            current = {"schedule": schedule, "tasks": {}}
            dags[dag_id] = current
            function()

        return make

    return decorated
