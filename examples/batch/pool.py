"""A pool of worker processes that solve a batch of tasks with the models of a gateway's token_budget.

Together they have as many tasks in flight as the gateway advises. Any of them may be killed at any time: its tasks are
solved by others when their leases are over. See README.md.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import threading

from warmgate_batch.api import Misconfigured
from warmgate_batch.progress import Progress
from warmgate_batch.tasks import open_tasks
from warmgate_batch.worker import Settings, read_backends, work

MISCONFIGURED = 2  # how a worker ends that another one would do no better than


def end_with_parent() -> None:
    """Ends this process once the pool is gone, which may have been killed: the next has workers of its own."""
    multiprocessing.parent_process().join()
    os._exit(1)


def start_process(s: Settings) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        asyncio.run(work(s))
    except Misconfigured as e:
        print(f"error: {e}", file=sys.stderr, flush=True)
        sys.exit(MISCONFIGURED)


def run_pool(s: Settings) -> int:
    """Runs all processes until all tasks have ended. One that dies is replaced. Returns the status to exit with."""
    context = multiprocessing.get_context("spawn")
    tasks = open_tasks(s.tasks)
    progress = Progress(tasks)
    processes = []
    while tasks.left():
        if any(p.exitcode == MISCONFIGURED for p in processes):
            break
        processes = [p for p in processes if p.is_alive()]
        while len(processes) < s.workers:
            p = context.Process(target=start_process, args=(s,), daemon=True)
            p.start()
            print(f"worker {p.pid}", flush=True)
            processes.append(p)
        processes[0].join(0.2)
        progress.show()
    for p in processes:
        p.join()
    progress.show(ended=True)
    return MISCONFIGURED if tasks.left() else 0


def settings(arguments=None) -> Settings:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", required=True, help="URL of the admission API")
    parser.add_argument("--tasks", required=True, help="the tasks: an SQLite file, or postgresql://...")
    parser.add_argument("--backends", required=True, help="JSON file: where calls are sent")
    parser.add_argument("--lease-ttl", type=float, default=30.0, help="seconds, as configured in the gateway")
    parser.add_argument("--processes", type=int, default=3, help="worker processes")
    parser.add_argument("--most", type=int, default=200, help="tasks in flight at most, whatever is advised")
    parser.add_argument("--attempts", type=int, default=5, help="of a task, until it has failed")
    a = parser.parse_args(arguments)
    return Settings(
        a.api, os.environ["WARMGATE_TOKEN"], a.tasks, read_backends(a.backends), a.lease_ttl, a.processes, a.most,
        a.attempts,
    )


if __name__ == "__main__":
    sys.exit(run_pool(settings()))
