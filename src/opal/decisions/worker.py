"""One thread for the decision in progress. The training thread hands it a job and picks up what comes of it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class DecisionWorker(Generic[T]):
    """Runs one job at a time; `on_done` is called on the worker's thread when its result can be taken.

    A job never raises: what goes wrong is part of its result.
    """

    def __init__(self, on_done: Callable[[], None]) -> None:
        self._on_done = on_done
        self._jobs: queue.SimpleQueue[Callable[[], T] | None] = queue.SimpleQueue()
        self._done = threading.Event()
        self._result: list[T] = []
        self._thread: threading.Thread | None = None
        self.busy = False

    @property
    def idle(self) -> bool:
        """Whether no job is running."""
        return not self.busy or self._done.is_set()

    def start(self, job: Callable[[], T]) -> None:
        """Begin a job; the one before must have been taken."""
        assert not self.busy
        self.busy = True
        self._done.clear()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="opal-decisions", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def take(self) -> T | None:
        """The result if it is there; only the training thread asks."""
        if not self.busy or not self._done.is_set():
            return None
        self.busy = False
        return self._result.pop()

    def wait(self, seconds: float) -> bool:
        """Wait for the result; whether it is there."""
        return self._done.wait(seconds)

    def stop(self, seconds: float) -> bool:
        """Let the thread end after its job; whether it ended within `seconds`."""
        if self._thread is None:
            return True
        self._jobs.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            self._result.append(job())
            self._done.set()
            self._on_done()
