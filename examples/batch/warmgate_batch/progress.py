"""How far a batch is."""

import sys
import time

from .tasks import Counts

WIDTH = 30  # of the bar
LINES = 10.0  # seconds between two lines, where there is no terminal


def bar(counts: Counts, begun: Counts, seconds: float) -> str:
    """Draws how far a batch is that has come from begun to counts in so many seconds."""
    every, ended = sum(counts), counts.solved + counts.failed
    full = WIDTH * ended // every if every else WIDTH
    text = f"[{'#' * full}{'.' * (WIDTH - full)}] {counts.solved} of {every} solved"
    if counts.failed:
        text += f", {counts.failed} failed"
    since = ended - begun.solved - begun.failed
    if counts.unsolved and since > 0:
        left = round(counts.unsolved * seconds / since)
        text += f", about {left // 60}:{left % 60:02} min left" if left < 6000 else f", about {left // 3600} h left"
    return text


class Progress:
    """Shows how far a batch is: as a bar that moves in a terminal, as lines elsewhere."""

    def __init__(self, tasks, out=None):
        self._tasks, self._out = tasks, out or sys.stderr
        self._begun, self._since = tasks.counts(), time.monotonic()
        self._shown = 0.0
        self._width = 0

    def show(self, ended: bool = False) -> None:
        """Shows it, if it is time to or all has ended."""
        now, terminal = time.monotonic(), self._out.isatty()
        if not ended and now - self._shown < (1 if terminal else LINES):
            return
        self._shown = now
        text = bar(self._tasks.counts(), self._begun, now - self._since)
        if not terminal:
            print(text, file=self._out, flush=True)
            return
        # What is left of a longer text is covered.
        print("\r" + text.ljust(self._width), end="\n" if ended else "", file=self._out, flush=True)
        self._width = len(text)
