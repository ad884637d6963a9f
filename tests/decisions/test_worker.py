"""One thread for the decision in progress."""

from __future__ import annotations

import threading

from opal.decisions.worker import DecisionWorker


def test_a_result_is_taken_once_and_announced_when_it_is_there() -> None:
    announced = threading.Event()
    worker: DecisionWorker[int] = DecisionWorker(announced.set)
    go = threading.Event()

    def job() -> int:
        go.wait(10)
        return 7

    worker.start(job)
    assert worker.busy
    assert not worker.idle
    assert worker.take() is None
    go.set()
    assert announced.wait(10)
    assert worker.wait(0)
    assert worker.idle
    assert worker.take() == 7
    assert worker.take() is None
    assert not worker.busy
    assert worker.stop(10)


def test_jobs_run_one_after_the_other_on_one_thread_of_their_own() -> None:
    worker: DecisionWorker[int | None] = DecisionWorker(lambda: None)
    threads = set()
    for _ in range(3):
        worker.start(lambda: threading.current_thread().ident)
        assert worker.wait(10)
        threads.add(worker.take())
    assert len(threads) == 1
    assert threads != {threading.current_thread().ident}
    assert worker.stop(10)


def test_stop_is_bounded_while_a_job_runs_and_at_once_without_one() -> None:
    never: DecisionWorker[None] = DecisionWorker(lambda: None)
    assert never.stop(10)
    go = threading.Event()
    busy: DecisionWorker[bool] = DecisionWorker(lambda: None)
    busy.start(lambda: go.wait(10))
    assert not busy.stop(0.01)
    go.set()
    assert busy.stop(10)
