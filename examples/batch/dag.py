"""The same as an Airflow DAG: mapped workers, as many as the gateway advises when the DAG runs.

Copy this folder to where Airflow looks for DAGs, and set the variables that settings_of reads. A run that ends early
loses nothing: the next one solves what is left.
"""

import asyncio
import json
import os

from pool import Settings, work
from tasks import Tasks
from warmgate import Warmgate

TASKS_OF_WORKER = 8  # in flight, at most


def settings_of(environment) -> Settings:
    """Reads the settings from the environment of the workers."""
    with open(environment["WARMGATE_BACKENDS"], encoding="utf-8") as f:
        backends = json.load(f)
    return Settings(
        api=environment["WARMGATE_API"],
        token=environment["WARMGATE_TOKEN"],
        tasks=environment["BATCH_TASKS"],
        backends=backends,
        lease_ttl=float(environment.get("WARMGATE_LEASE_TTL", "30")),
    )


async def _advised(s: Settings) -> int:
    import httpx

    async with httpx.AsyncClient(timeout=10) as client:
        return await Warmgate(s.api, s.token, s.lease_ttl, client).parallelism(s.most)


def plan_workers() -> list:
    """Returns the numbers of the workers to map: none if there is nothing to solve."""
    s = settings_of(os.environ)
    if not Tasks(s.tasks).left():
        return []
    return list(range(max(1, -(-asyncio.run(_advised(s)) // TASKS_OF_WORKER))))


def solve_tasks(number: int, workers: int) -> int:
    """Solves tasks until none is left, as one of so many workers. Returns how many are left."""
    s = settings_of(os.environ)
    s.processes = workers
    asyncio.run(work(s))
    return Tasks(s.tasks).left()


try:
    from airflow.decorators import dag, task
except ImportError:  # the functions above are all that there is to test
    dag = None

if dag is not None:

    @dag(dag_id="warmgate_batch", schedule="*/5 * * * *", catchup=False, max_active_runs=1)
    def warmgate_batch():
        plan = task(plan_workers)()
        count = task(len, task_id="count")(plan)
        task(solve_tasks).partial(workers=count).expand(number=plan)

    warmgate_batch()
