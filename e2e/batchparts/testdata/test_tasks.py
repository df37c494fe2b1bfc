"""The tasks, in SQLite, and in PostgreSQL at the URL of POSTGRESQL."""

import os
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from warmgate_batch.tasks import Counts, open_tasks

POSTGRESQL = os.environ.get("POSTGRESQL")


class SQLite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.where = os.path.join(folder.name, "tasks.db")

    def open(self, *prompts):
        tasks = open_tasks(self.where)
        tasks.add((prompt, 7) for prompt in prompts)
        return tasks

    def test_claim_runs_out(self):
        """Who had a claim that ran out neither renews it nor saves an answer."""
        tasks = self.open("some words")
        first = tasks.claim(0, 5)
        time.sleep(0.01)
        second = tasks.claim(60, 5)
        self.assertEqual((first.estimated_tokens, first.attempt, second.attempt), (9, 1, 2))
        self.assertIsNone(tasks.claim(60, 5))
        for done in (tasks.renew(first, 60), tasks.solve(first, "late"), tasks.give_back(first),
                     tasks.fail(first, "late", 0, 1)):
            self.assertFalse(done)
        self.assertTrue(tasks.renew(second, 60))
        self.assertEqual(tasks.counts(), Counts(1, 0, 0))
        self.assertTrue(tasks.solve(second, "done", 8))
        self.assertFalse(tasks.renew(second, 60))
        self.assertEqual((tasks.counts(), tasks.left()), (Counts(0, 1, 0), 0))

    def test_renewed(self):
        """A claim that is renewed does not run out."""
        tasks = self.open("a")
        task = tasks.claim(0, 5)
        self.assertTrue(tasks.renew(task, 60))
        self.assertIsNone(tasks.claim(60, 5))

    def test_attempts(self):
        """A task fails with its last attempt. Attempts that were none do not count; between two there is a pause."""
        tasks = self.open("a")
        task = tasks.claim(60, 2)
        self.assertTrue(tasks.give_back(task))
        task = tasks.claim(60, 2)
        self.assertEqual((task.attempt, task.claim), (1, 2))
        self.assertTrue(tasks.fail(task, "400", 60, 2))
        self.assertIsNone(tasks.claim(60, 2))
        self.assertTrue(tasks.renew(task, 0))  # the pause is over
        time.sleep(0.01)
        task = tasks.claim(60, 2)
        self.assertTrue(tasks.fail(task, "400", 0, 2))
        self.assertIsNone(tasks.claim(60, 2))
        self.assertEqual((tasks.counts(), tasks.left()), (Counts(0, 0, 1), 0))
        self.assertEqual((tasks.retry(), tasks.claim(60, 2).attempt), (1, 1))

    def test_deaths(self):
        """A task whose workers die ends as well, and stands in no other's way."""
        tasks = self.open("a", "b")
        for _ in range(3):
            self.assertEqual(tasks.claim(0, 3).prompt, "a")
            time.sleep(0.01)
        self.assertEqual(tasks.claim(60, 3).prompt, "b")
        self.assertEqual(tasks.counts(), Counts(1, 0, 1))

    def test_together(self):
        """Of all that claim at a time, each gets a task of its own; tables are made once."""
        with ThreadPoolExecutor(8) as pool:
            opened = list(pool.map(lambda _: open_tasks(self.where), range(8)))
            self.assertEqual(len({tasks.batch for tasks in opened}), 1)
            opened[0].add(("a", 1) for _ in range(40))
            claimed = pool.map(lambda tasks: [tasks.claim(60, 5).id for _ in range(5)], opened)
            self.assertEqual(len({one for ids in claimed for one in ids}), 40)


@unittest.skipUnless(POSTGRESQL, "POSTGRESQL names no database")
class PostgreSQL(SQLite):
    def setUp(self):
        import psycopg2

        self.where = POSTGRESQL
        self.db = psycopg2.connect(POSTGRESQL)
        self.db.autocommit = True
        self.addCleanup(self.db.close)
        self.db.cursor().execute("DROP TABLE IF EXISTS tasks; DROP TABLE IF EXISTS batch")

    def test_connection_lost(self):
        """A connection that the server has closed is made again."""
        tasks = self.open("a")
        self.db.cursor().execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = 'warmgate-batch'"
        )
        self.assertEqual(tasks.left(), 1)


if __name__ == "__main__":
    unittest.main()
