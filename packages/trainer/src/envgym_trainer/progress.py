"""What a person sees of a run: a bar with rate and time left in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

PLAIN_INTERVAL_S = 10.0
"""Without a terminal, a count is shown this often."""

Advance = Callable[[str], None]
"""Called once per step, with what there is to say about it."""


class Progress:
    """Lines and bars on standard output."""

    def __init__(self, console: Console | None = None) -> None:
        """Write to a console; by default standard output."""
        self._console = console or Console(soft_wrap=True)

    def say(self, line: str) -> None:
        """Print one line, above the bar where there is one."""
        self._console.print(line, markup=False, highlight=False)

    @contextmanager
    def track(self, title: str, total: int, *, every_step: bool = False) -> Iterator[Advance]:
        """Follow a loop of ``total`` steps; the value is to be called once per step with a short text.

        Args:
            title: what the loop does.
            total: its number of steps; it may end earlier.
            every_step: whether the text of each step is kept as a line, as for steps that take seconds.
        """
        shown = self._bar if self._console.is_terminal else self._lines
        with shown(title, total, every_step) as advance:
            yield advance

    @contextmanager
    def _bar(self, title: str, total: int, every_step: bool) -> Iterator[Advance]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[text]}"),
            TextColumn("time left"),
            TimeRemainingColumn(),
        )
        with Bars(*columns, console=self._console, transient=every_step) as bars:
            task = bars.add_task(title, total=total, text="")
            clock = _Clock(total)

            def advance(text: str) -> None:
                clock.tick()
                if every_step:
                    self.say(text)
                bars.update(task, advance=1, text=clock.rate() if every_step else f"{text}  {clock.rate()}")

            yield advance

    @contextmanager
    def _lines(self, title: str, total: int, every_step: bool) -> Iterator[Advance]:
        clock = _Clock(total)
        last_shown = clock.started

        def advance(text: str) -> None:
            nonlocal last_shown
            clock.tick()
            if every_step:
                self.say(f"{text}  {clock.time_left()} left")
            elif clock.now - last_shown >= PLAIN_INTERVAL_S or clock.done == total:
                last_shown = clock.now
                self.say(f"{title} {clock.done}/{total}  {text}  {clock.rate()}  {clock.time_left()} left")

        yield advance


class _Clock:
    """Counts steps and says how fast they go."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.started = self.now = time.monotonic()

    def tick(self) -> None:
        """Count one step."""
        self.done += 1
        self.now = time.monotonic()

    def rate(self) -> str:
        """Steps per second, or seconds per step where that is the larger number."""
        seconds = (self.now - self.started) / self.done
        return f"{1 / seconds:.1f} steps/s" if seconds < 1 else f"{seconds:.1f} s/step"

    def time_left(self) -> str:
        """Minutes and seconds until the last step, at the pace so far."""
        seconds = round((self.now - self.started) / self.done * (self.total - self.done))
        return f"{seconds // 60}:{seconds % 60:02d}"
