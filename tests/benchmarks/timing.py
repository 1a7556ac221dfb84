"""What benchmarks share: taking the time, draining work, the machine's own peak."""

import time
from collections.abc import Callable

import torch

from core.work import T, Work


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return a result and the seconds it took."""
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def drained(work: Work[T]) -> T:
    """Run a generator to its end and return its result."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def matmul_peak() -> float:
    """Measure a plain large matrix product, in floating-point operations a second."""
    left, right = torch.randn(2_048, 2_048), torch.randn(2_048, 2_048)
    best = min(timed(lambda: left @ right)[1] for _ in range(10))
    return 2 * 2_048**3 / best
