"""The DAG, as each version of Airflow reads it: from a folder of its own below the one for DAGs."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.environ["EXAMPLE"]

# Reads a file as Airflow does. Nothing but the folder of DAGs is in the path, and the standard library.
READ = """
import importlib.util, sys
sys.path[:0] = sys.argv[2:]
spec = importlib.util.spec_from_file_location("unusual_prefix_dag", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from stand_in import dags
for name, dag in dags.items():
    for one in dag["tasks"].values():
        print(name, dag["schedule"], one.task_id, one.upstream, one.mapped)
print([m for m in ("httpx", "psycopg2", "warmgate_batch") if m in sys.modules])
import warmgate_batch.worker
"""


class DAG(unittest.TestCase):
    def test_loads(self):
        for airflow in ("airflow2", "airflow3"):
            with self.subTest(airflow), tempfile.TemporaryDirectory() as dags:
                shutil.copytree(EXAMPLE, os.path.join(dags, "batch"))
                done = subprocess.run(
                    [sys.executable, "-c", READ, os.path.join(dags, "batch", "dag.py"), dags,
                     os.path.join(HERE, airflow), HERE],
                    cwd="/", capture_output=True, text=True, check=False,
                )
                self.assertEqual(done.stderr, "")
                self.assertEqual(done.stdout.splitlines(), [
                    "warmgate_batch */5 * * * * plan_workers [] False",
                    "warmgate_batch */5 * * * * solve_tasks ['plan_workers'] True",
                    "[]",
                ])


if __name__ == "__main__":
    unittest.main()
