"""The tasks of a batch in a SQLite file, which stands for the database that they are in.

A worker claims a task for as long as its lease lasts, and renews the claim with the lease. The claim of a worker that
was killed runs out, and another worker takes the task.
"""

import sqlite3
import time
from contextlib import closing
from typing import NamedTuple, Optional

SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
    id INTEGER PRIMARY KEY,
    prompt TEXT NOT NULL,
    max_tokens INTEGER NOT NULL,        -- that the answer may have
    answer TEXT,                        -- NULL until the task is solved
    claims INTEGER NOT NULL DEFAULT 0,  -- how often it was claimed
    claimed_until REAL NOT NULL DEFAULT 0  -- seconds since 1970
)
"""

BYTES_PER_TOKEN = 4


class Task(NamedTuple):
    id: int
    prompt: str
    max_tokens: int
    claim: int  # the number of this claim: an earlier one is void

    @property
    def estimated_tokens(self) -> int:
        """The tokens that the task may use at most: what models with quotas count."""
        return max(1, len(self.prompt.encode()) // BYTES_PER_TOKEN + self.max_tokens)


class Tasks:
    """The tasks. Every process opens the file for itself."""

    def __init__(self, path: str):
        self.path = path
        with closing(self._open()) as db, db:
            db.execute("PRAGMA journal_mode = WAL")  # kept in the file: processes do not wait for each other's reads
            db.execute(SCHEMA)

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=30)
        db.execute("PRAGMA synchronous = NORMAL")
        return db

    def add(self, prompts) -> None:
        """Adds tasks: pairs of a prompt and the most tokens that its answer may have."""
        with closing(self._open()) as db, db:
            db.executemany("INSERT INTO tasks (prompt, max_tokens) VALUES (?, ?)", prompts)

    def claim(self, seconds: float) -> Optional[Task]:
        """Claims a task that nobody works on for so many seconds; None if there is none now."""
        now = time.time()
        with closing(self._open()) as db:
            db.isolation_level = None
            db.execute("BEGIN IMMEDIATE")  # one claim at a time, over all processes
            row = db.execute(
                "SELECT id, prompt, max_tokens, claims + 1 FROM tasks WHERE answer IS NULL AND claimed_until < ? "
                "ORDER BY id LIMIT 1",
                (now,),
            ).fetchone()
            if row is not None:
                db.execute(
                    "UPDATE tasks SET claims = ?, claimed_until = ? WHERE id = ?", (row[3], now + seconds, row[0])
                )
            db.execute("COMMIT")
        return Task(*row) if row else None

    def renew(self, task: Task, seconds: float) -> bool:
        """Keeps a claim for so many seconds from now. False: somebody else has the task."""
        return self._change("claimed_until = ?", time.time() + seconds, task)

    def solve(self, task: Task, answer: str) -> bool:
        """Saves the answer to a claimed task. False: somebody else has the task."""
        return self._change("answer = ?", answer, task)

    def _change(self, what: str, value, task: Task) -> bool:
        with closing(self._open()) as db, db:
            done = db.execute(
                f"UPDATE tasks SET {what} WHERE id = ? AND claims = ? AND answer IS NULL",
                (value, task.id, task.claim),
            )
            return done.rowcount == 1

    def left(self) -> int:
        """How many tasks are not solved."""
        with closing(self._open()) as db:
            return db.execute("SELECT count(*) FROM tasks WHERE answer IS NULL").fetchone()[0]
