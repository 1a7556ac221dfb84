"""The one exception that is meant for people."""

from collections.abc import Callable

import numpy as np


class BadInput(Exception):
    """Something the person gave cannot be used; the message is one plain sentence that says what and why.

    Pages show it as it is, the command line prints it and ends with code 2. Anything else that is raised
    is a fault of ours and is shown with its traceback.
    """


class Diverged(Exception):
    """A training's loss or vectors became infinite or NaN."""


def is_out_of_memory(fault: BaseException) -> bool:
    """Say whether an error means that there was too little memory, on a GPU or a CPU. Needs no torch to ask."""
    return (
        isinstance(fault, MemoryError)
        or type(fault).__name__ == "OutOfMemoryError"
        or (isinstance(fault, RuntimeError) and "allocate memory" in str(fault))
    )


def in_halves(rows: np.ndarray, work: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Do work on rows at once or, where memory runs out, on one half after the other, and so on down to one row."""
    try:
        return work(rows)
    except (MemoryError, RuntimeError) as fault:
        if len(rows) < 2 or not is_out_of_memory(fault):
            raise
    middle = len(rows) // 2
    return np.concatenate([in_halves(rows[:middle], work), in_halves(rows[middle:], work)])
