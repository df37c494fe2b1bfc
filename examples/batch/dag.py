"""The same as an Airflow DAG: mapped workers, as many as the gateway advises when the DAG runs.

Copy this folder into Airflow's folder of DAGs, and set the variables that settings_of reads. For Airflow 2.10 and 3. A
run that ends early loses nothing: the next one solves what is left.
"""

import asyncio
import os
import sys
from datetime import datetime, timedelta, timezone

try:
    from airflow.sdk import dag, task
except ImportError:  # before Airflow 3
    from airflow.decorators import dag, task

# Airflow imports from its folder of DAGs, not from folders below it. What the tasks need is imported when they run, so
# that Airflow reads this file fast.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))

TASKS_OF_WORKER = 8  # in flight, at most
SECONDS = 25 * 60  # after which a worker begins no more tasks
TIMEOUT = timedelta(minutes=30)  # of a worker
AGAIN = {"retries": 2, "retry_delay": timedelta(seconds=30)}


def settings_of(environment):
    """Reads the settings from the environment of the workers."""
    from warmgate_batch.worker import Settings, read_backends

    return Settings(
        api=environment["WARMGATE_API"],
        token=environment["WARMGATE_TOKEN"],
        tasks=environment["BATCH_TASKS"],
        backends=read_backends(environment["WARMGATE_BACKENDS"]),
        lease_ttl=float(environment.get("WARMGATE_LEASE_TTL", "30")),
        attempts=int(environment.get("BATCH_ATTEMPTS", "5")),
        seconds=SECONDS,
    )


async def advised(s) -> int:
    import httpx

    from warmgate_batch.api import Warmgate

    async with httpx.AsyncClient(timeout=10) as client:
        return await Warmgate(s.api, s.token, s.lease_ttl, client).parallelism(s.most)


def plan_workers() -> list:
    """Returns the arguments of each worker to map: none if there is nothing to solve."""
    from warmgate_batch.tasks import open_tasks

    s = settings_of(os.environ)
    if not open_tasks(s.tasks).left():
        return []
    workers = max(1, -(-asyncio.run(advised(s)) // TASKS_OF_WORKER))
    return [{"number": number, "workers": workers} for number in range(workers)]


def solve_tasks(number: int, workers: int) -> dict:
    """Solves tasks until none is left, as one of so many workers. Returns how many tasks of each status there are."""
    from warmgate_batch.tasks import open_tasks
    from warmgate_batch.worker import work

    s = settings_of(os.environ)
    s.workers = workers
    print(f"worker {number} of {workers}, process {os.getpid()}", flush=True)
    asyncio.run(work(s, show=True))
    return open_tasks(s.tasks).counts()._asdict()


@dag(
    dag_id="warmgate_batch",
    schedule="*/5 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    max_active_runs=1,
)
def warmgate_batch():
    plan = task(plan_workers, **AGAIN)()
    task(solve_tasks, execution_timeout=TIMEOUT, **AGAIN).expand_kwargs(plan)


warmgate_batch()
