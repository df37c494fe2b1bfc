"""The tasks of a batch in a table, which stands for the one that yours are in: in an SQLite file, or in PostgreSQL.

A worker claims a task for as long as its lease lasts, and renews the claim with the lease. The claim of a worker that
was killed runs out, and another worker takes the task. Each claim is one of the attempts that a task has, unless it is
given back: so a task that kills its workers ends as well.
"""

import sqlite3
import uuid
from contextlib import closing, contextmanager
from typing import NamedTuple, Optional

TABLES = """
CREATE TABLE IF NOT EXISTS batch (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tasks (
    id {number} PRIMARY KEY,
    prompt TEXT NOT NULL,
    max_tokens INTEGER NOT NULL,               -- that the answer may have
    status TEXT NOT NULL DEFAULT 'unsolved',   -- or solved, failed
    answer TEXT,                               -- of a solved one
    tokens INTEGER,                            -- that it has used, if the model says so
    error TEXT,                                -- what has gone wrong last
    attempts INTEGER NOT NULL DEFAULT 0,
    claim INTEGER NOT NULL DEFAULT 0,          -- the number of the latest
    free_at DOUBLE PRECISION NOT NULL DEFAULT 0  -- seconds since 1970: when the next one may claim it
);
CREATE INDEX IF NOT EXISTS unsolved_tasks ON tasks (id) WHERE status = 'unsolved'
"""

BYTES_PER_TOKEN = 4


class Task(NamedTuple):
    id: int
    prompt: str
    max_tokens: int
    attempt: int  # the number of this one, from 1
    claim: int  # the number of this claim: an earlier one is void

    @property
    def estimated_tokens(self) -> int:
        """The tokens that the task may use at most: what models with quotas count."""
        return max(1, len(self.prompt.encode()) // BYTES_PER_TOKEN + self.max_tokens)


class Counts(NamedTuple):
    """How many tasks there are."""

    unsolved: int
    solved: int
    failed: int


class Tasks:
    """The tasks. Every process opens them for itself."""

    NUMBER = "INTEGER"
    NOW = "((julianday('now') - 2440587.5) * 86400.0)"  # the time of the database: workers' clocks may differ
    SKIP = ""  # what others are about to claim
    EXISTS = "SELECT max(name) FROM sqlite_master WHERE name = 'unsolved_tasks'"
    ALONE = "PRAGMA synchronous"  # a transaction that changes something has the file for itself

    def __init__(self, path: str):
        self._path = path
        with self._transaction(changes=False) as run:
            exist = run(self.EXISTS).fetchone()[0] is not None
        if not exist:
            self._create()
        with self._transaction(changes=False) as run:
            self.batch = run("SELECT id FROM batch").fetchone()[0]

    def _create(self):
        with self._transaction() as run:
            run(self.ALONE)
            for statement in TABLES.format(number=self.NUMBER).split(";\n"):
                run(statement)
            run("INSERT INTO batch SELECT ? WHERE NOT EXISTS (SELECT 1 FROM batch)", uuid.uuid4().hex)

    @contextmanager
    def _transaction(self, changes=True):
        """Yields a function that runs a statement, with a ? for each value."""
        with closing(sqlite3.connect(self._path, timeout=30, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("BEGIN IMMEDIATE" if changes else "BEGIN")
            with db:
                yield lambda statement, *values: db.execute(statement, values)

    def add(self, prompts) -> None:
        """Adds tasks: pairs of a prompt and the most tokens that its answer may have."""
        with self._transaction() as run:
            for prompt in prompts:
                run("INSERT INTO tasks (prompt, max_tokens) VALUES (?, ?)", *prompt)

    def claim(self, seconds: float, attempts: int) -> Optional[Task]:
        """Claims a task that nobody works on for so many seconds; None if there is none now. A task whose attempts are
        used up, because workers died with it, has failed."""
        with self._transaction() as run:
            while True:
                row = run(
                    "SELECT id, prompt, max_tokens, attempts + 1, claim + 1 FROM tasks WHERE status = 'unsolved' "
                    f"AND free_at < {self.NOW} ORDER BY id LIMIT 1{self.SKIP}"
                ).fetchone()
                if row is None:
                    return None
                task = Task(*row)
                if task.attempt <= attempts:
                    break
                run("UPDATE tasks SET status = 'failed', error = 'its worker was lost' WHERE id = ?", task.id)
            run(
                f"UPDATE tasks SET attempts = ?, claim = ?, free_at = {self.NOW} + ? WHERE id = ?",
                task.attempt, task.claim, seconds, task.id,
            )
            return task

    def renew(self, task: Task, seconds: float) -> bool:
        """Keeps a claim for so many seconds from now. False: somebody else has the task."""
        return self._change(task, f"free_at = {self.NOW} + ?", seconds)

    def solve(self, task: Task, answer: str, tokens: Optional[int] = None) -> bool:
        """Saves the answer to a claimed task. False: somebody else has the task."""
        return self._change(task, "status = 'solved', error = NULL, answer = ?, tokens = ?", answer, tokens)

    def give_back(self, task: Task) -> bool:
        """Ends a claim that was no attempt."""
        return self._change(task, "attempts = attempts - 1, free_at = 0")

    def fail(self, task: Task, error: str, seconds: float, attempts: int) -> bool:
        """Ends an attempt that has failed: the next one may be in so many seconds. After the last one the task has
        failed."""
        status = "unsolved" if task.attempt < attempts else "failed"
        return self._change(task, f"status = ?, error = ?, free_at = {self.NOW} + ?", status, error, seconds)

    def _change(self, task: Task, what: str, *values) -> bool:
        with self._transaction() as run:
            done = run(
                f"UPDATE tasks SET {what} WHERE id = ? AND claim = ? AND status = 'unsolved'",
                *values, task.id, task.claim,
            )
            return done.rowcount == 1

    def retry(self) -> int:
        """Has failed tasks tried again, and returns how many."""
        with self._transaction() as run:
            again = run("UPDATE tasks SET status = 'unsolved', attempts = 0, free_at = 0 WHERE status = 'failed'")
            return again.rowcount

    def left(self) -> int:
        """How many tasks are neither solved nor failed."""
        with self._transaction(changes=False) as run:
            return run("SELECT count(*) FROM tasks WHERE status = 'unsolved'").fetchone()[0]

    def counts(self) -> Counts:
        with self._transaction(changes=False) as run:
            found = dict(run("SELECT status, count(*) FROM tasks GROUP BY status").fetchall())
        return Counts(*(found.get(status, 0) for status in Counts._fields))


def open_tasks(where: str) -> Tasks:
    """Opens the tasks in an SQLite file, or in a database by its URL (postgresql://...)."""
    if where.startswith(("postgresql://", "postgres://")):
        from .postgresql import PostgreSQL

        return PostgreSQL(where)
    return Tasks(where)
