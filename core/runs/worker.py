"""Running runs: ``drive`` pulls one to its end, the Worker does so in a background thread, one after another."""

import atexit
import ctypes
import errno
import gc
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial

from filelock import FileLock
from threadpoolctl import threadpool_limits

from core.bench.forecast import wait_for_measuring
from core.errors import BadInput, is_out_of_memory
from core.events import Ended, Event, Queued, StageStarted
from core.maps.projector import Projector
from core.runs.config import RunConfig
from core.runs.log import Story
from core.runs.painter import Painter
from core.runs.pipeline import execute
from core.runs.store import Run, Store
from core.state import Choice

_MOST_TRIES = 3


def drive(
    run: Run, projector: Projector, should_stop: Callable[[], bool], tell: Callable[[Event], None] | None = None
) -> str:
    """Pull a claimed run to its end, recording every event; return how it ended. Never raises for the run's faults."""
    try:
        wait_for_measuring()
        with _limit_threads(run.config), closing(execute(run, projector)) as work:
            for event in work:
                if event is not None:
                    run.record(event)
                    if tell:
                        tell(event)
                if should_stop():
                    break
            else:
                return _end(run, Ended("finished"))
        return _end(run, Ended("stopped", "The run was stopped."))
    except KeyboardInterrupt:
        projector.close()
        return _end(run, Ended("stopped", "The run was stopped from the keyboard."))
    except Exception as fault:
        if should_stop():  # an interpreter on its way out refuses work in many ways; the person asked for the end
            return _end(run, Ended("stopped", "The run was stopped.", traceback.format_exc()))
        sentence = f"Something went wrong in the program: {type(fault).__name__}: {fault}".split("\n")[0]
        if is_out_of_memory(fault):
            sentence = "The machine has too little memory for this run."
        elif isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EDQUOT):
            sentence = "The disk is full: make room, then resume."
        elif isinstance(fault, BadInput):
            sentence = str(fault)
        return _end(run, Ended("failed", sentence, traceback.format_exc()))


def _end(run: Run, event: Ended) -> str:
    run.log.repair()  # on a full disk the line before may be there in part
    run.record(event)
    return event.status


@dataclass(frozen=True)
class _Waiting:
    """A run in the queue, with how it stood before and, where another moment was chosen, what was chosen before."""

    name: str
    lock: FileLock
    before: Ended
    chose: bool = False
    choice: Choice | None = None

    def withdraw(self, run: Run) -> None:
        """Let the run stand as it did: one that was to be made anew from another moment is finished still."""
        if self.chose:
            run.state().choose(self.choice)
        _end(run, self.before)


def _as_it_stood(story: Story) -> Ended:
    """Return how a run ended before it was queued again; one that never ended is stopped if it is withdrawn."""
    if story.phase in ("finished", "failed", "stopped"):
        return Ended(story.phase, story.message, story.traceback)
    return Ended("stopped", "The run was withdrawn from the queue.")


def _limit_threads(config: RunConfig) -> threadpool_limits:
    """Hold every thread pool to the run's share; torch keeps one of its own and is loaded only if needed."""
    if config.encoder:
        import torch

        torch.set_num_threads(config.threads)
    return threadpool_limits(config.threads)


def _give_memory_back() -> None:
    """Hand what a training has freed back to the system; glibc would keep it for a next one that may never come."""
    gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # other systems have no such call and do it on their own
        ctypes.CDLL(None).malloc_trim(0)


class Worker:
    """One background thread and a queue. Truth is on the disk; here are only a thread and flags.

    One run at a time: seeding is process-wide, so two seeded trainings in parallel would disturb each other.
    """

    def __init__(self, store: Store) -> None:
        """Start idle; the thread begins with the first run and ends when the queue is empty."""
        self.store = store
        self.projector = Projector()
        self._waiting: deque[_Waiting] = deque()
        self._drawn: Counter[tuple[str, int]] = Counter()  # how often a run's pictures were begun, by how many lacked
        self._current: str | None = None
        self._stop: set[str] = set()
        self._stop_after_stage: set[str] = set()
        self._guard = threading.RLock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._painter: Painter | None = None
        atexit.register(self.close)

    def start(self, name: str, keep: tuple[str, int] | None = None) -> None:
        """Queue a run by its id: new, to be resumed, or to ``keep`` another look (stage and step) as its result."""
        run = self.store.open(name)
        lock = run.claim()  # outside the guard: a run that has just ended needs the guard to let go of its lock
        try:
            with self._guard:
                if self._closed:
                    raise BadInput("The server is shutting down and takes no more runs.")
                before = _as_it_stood(run.story())
                choice = run.choose(*keep) if keep else None
                run.record(Queued())
                self._stop.discard(name)
                self._waiting.append(_Waiting(name, lock, before, keep is not None, choice))
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._work, name="topicscope-worker", daemon=True)
                    self._thread.start()
        except (BadInput, OSError):
            lock.release()
            raise

    def stop(self, name: str) -> None:
        """Ask a run to stop; one that still waits is taken out of the queue at once, and stands as it did before."""
        with self._guard:
            for entry in list(self._waiting):
                if entry.name == name:
                    self._waiting.remove(entry)
                    with suppress(BadInput, OSError):  # its folder may be gone
                        entry.withdraw(self.store.open(name))
                    entry.lock.release()
                    return
            if self._current == name:
                self._stop.add(name)

    def stop_after_stage(self, name: str) -> None:
        """Ask the run at work to stop when its current stage is done."""
        with self._guard:
            if self._current == name:
                self._stop_after_stage.add(name)

    def _notice(self, name: str, event: Event) -> None:
        """Turn the wish to stop after a stage into a stop when the next one begins."""
        if isinstance(event, StageStarted):
            with self._guard:
                if name in self._stop_after_stage:
                    self._stop.add(name)

    def is_stopping_after_stage(self, name: str) -> bool:
        """Say whether the run will stop when its current stage is done."""
        with self._guard:
            return name in self._stop_after_stage

    def queue(self) -> list[str]:
        """Name the run at work and those that wait, in their order."""
        with self._guard:
            return [*([self._current] if self._current else []), *(entry.name for entry in self._waiting)]

    def paint(self, name: str) -> bool:
        """Draw what is missing of a run's live map, if nothing else is going on; say whether it is being drawn."""
        with self._guard:
            if self._painter and self._painter.is_at_work():
                return self._painter.run.id == name
            try:
                run = self.store.open(name)
            except BadInput:
                return False
            tries = name, len(run.frames().missing())
            if not self.is_idle() or self._drawn[tries] >= _MOST_TRIES:  # what failed so often will fail again
                return False
            self._drawn[tries] += 1
            self._painter = Painter(run, self.projector)
            self._painter.finish()
            return True

    def owns(self, name: str) -> bool:
        """Say whether this worker has the run, so that a page can offer to stop it."""
        with self._guard:
            return self._current == name or any(entry.name == name for entry in self._waiting)

    def is_idle(self) -> bool:
        """Say whether nothing is at work or waiting, so that a measurement would be of the machine alone."""
        with self._guard:
            return self._current is None and not self._waiting and not self._closed

    def is_stopping(self, name: str) -> bool:
        """Say whether a stop was asked for, or the program is ending, and it has not come about yet."""
        with self._guard:
            # Between the main thread's end and close() libraries refuse work: that is a stop, not a failure of the run.
            return name in self._stop or not threading.main_thread().is_alive()

    def ahead_of(self, name: str) -> int:
        """Count the runs that come before this one."""
        with self._guard:
            names = [entry.name for entry in self._waiting]
            return (self._current is not None) + names.index(name) if name in names else 0

    def close(self) -> None:
        """Stop everything and wait: an interpreter that exits during training would abort."""
        with self._guard:
            self._closed = True
            for entry in list(self._waiting):
                self.stop(entry.name)
            if self._current:
                self._stop.add(self._current)
            thread = self._thread
        if thread:
            thread.join()
        if self._painter:
            self._painter.close()
        self.projector.close()

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._waiting:
                    self._thread = None
                    return
                entry = self._waiting.popleft()
                name = self._current = entry.name
            if self._painter:
                self._painter.close()  # what it has not drawn of the run before is drawn when somebody asks for it
            try:
                self._painter = Painter(self.store.open(name), self.projector)
                stopping, notice = partial(self.is_stopping, name), partial(self._notice, name)
                drive(self.store.open(name), self.projector, stopping, notice)
            except (BadInput, OSError):
                pass  # its folder is gone: nothing is left to tell, and the next one must not wait for it
            finally:
                if self._painter:
                    self._painter.finish()
                with self._guard:
                    self._current = None
                    self._stop.discard(name)
                    self._stop_after_stage.discard(name)
                entry.lock.release()
                _give_memory_back()
