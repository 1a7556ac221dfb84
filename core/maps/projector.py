"""The projector: UMAP and t-SNE in one long-lived child process that can be killed.

numba's threading layer is not thread-safe and its neighbour search holds the interpreter lock, so a projection in
the server would freeze every page. The child is started with plain pipes, not multiprocessing: under Streamlit the
main module is app.py, which a spawned child would run again.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

from core.files import save_array, save_json

_PAUSE = 0.05
_ROOT = Path(__file__).resolve().parents[2]


class Projector:
    """Asks the child for points; several threads may ask, one is answered at a time."""

    def __init__(self) -> None:
        """Nothing is started before it is needed."""
        self._child: subprocess.Popen[str] | None = None
        self._turn = threading.Lock()

    def start(self) -> None:
        """Start the child if it is not running, so that it warms up while other work goes on."""
        if self._child is None or self._child.poll() is not None:
            environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", NUMBA_NUM_THREADS="1")
            self._child = subprocess.Popen(
                [sys.executable, "-m", "core.maps.project"],
                cwd=_ROOT,
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def project(
        self, vectors: np.ndarray, start: np.ndarray | None = None, **request: Any
    ) -> Generator[None, None, np.ndarray]:
        """Yield while the child works and return the points; closing the generator kills the child.

        With ``start`` the points begin there and only move where they must: much faster, for one frame after another.
        """
        while not self._turn.acquire(timeout=_PAUSE):
            yield
        folder = Path(tempfile.mkdtemp(prefix="topicscope-"))
        try:
            save_array(folder / "vectors.npy", vectors)
            if start is not None:
                save_array(folder / "start.npy", start)
            save_json(folder / "request.json", request)
            self.start()
            child = self._child
            assert child is not None and child.stdin is not None
            child.stdin.write(f"{folder}\n")
            child.stdin.flush()
            while not (folder / "points.npy").exists():
                if (folder / "error.txt").exists():
                    raise RuntimeError("The projection failed:\n" + (folder / "error.txt").read_text())
                if child.poll() is not None:
                    raise RuntimeError(f"The projecting process ended with code {child.returncode}.")
                yield
                time.sleep(_PAUSE)
            return np.load(folder / "points.npy", allow_pickle=False)
        except BaseException:
            self.close()
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            self._turn.release()

    def close(self) -> None:
        """Kill the child, whatever it is doing."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            if self._child.stdin:
                self._child.stdin.close()
            self._child = None
