"""Vectors become points on a map, or a space of few dimensions, by UMAP, t-SNE or PCA.

Run as ``python -m core.maps.project`` this is the child process that the Projector talks to: each line on its
standard input names a folder with ``request.json`` and ``vectors.npy``; it answers with ``points.npy`` or
``error.txt`` in that folder, and ends at once when the input closes.
"""

import os
import queue
import sys
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from core.encoder.vectors import nearest
from core.files import load_json, save_array, save_bytes

LAYOUTS = ("umap", "tsne")
_EXACT_ROWS = 20_000
_ROUNDS_FROM_START, _GENTLE = 60, 0.3
FEWEST_FOR_LAYOUT = 8  # below this neither UMAP nor t-SNE means anything: principal components are shown instead


def project(
    vectors: np.ndarray, layout: str, dims: int, seed: int, neighbours: int = 15, start: np.ndarray | None = None
) -> np.ndarray:
    """Lay vectors out in ``dims`` dimensions; equal input and seed give equal points.

    With ``start``, where the points were before, only a few gentle rounds follow: for one frame after another.
    """
    vectors = np.asarray(vectors, np.float32)
    if len(vectors) < FEWEST_FOR_LAYOUT:
        return principal_components(vectors, dims)
    if layout == "tsne":
        return _tsne(vectors, dims, seed, start)
    return _umap(vectors, dims, seed, neighbours, start)


def principal_components(vectors: np.ndarray, dims: int) -> np.ndarray:
    """Project on the directions of greatest variance, with a fixed sign; missing directions are zero."""
    centred = np.asarray(vectors, np.float64) - np.mean(vectors, axis=0)
    left, scale, right = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(right[np.arange(len(right)), np.abs(right).argmax(1)])
    points = np.zeros((len(vectors), dims), np.float32)
    width = min(dims, len(scale))
    points[:, :width] = (left * scale * signs)[:, :width]
    return points


def _umap(vectors: np.ndarray, dims: int, seed: int, neighbours: int, start: np.ndarray | None) -> np.ndarray:
    from umap import UMAP

    rows = len(vectors)
    neighbours = min(neighbours, rows - 1)
    known: tuple[np.ndarray | None, np.ndarray | None, None] = (None, None, None)
    if rows <= _EXACT_ROWS:
        # Exact neighbours by matrix products take a second; UMAP's approximate search alone compiles for half a minute.
        near, squared = nearest(vectors, vectors, neighbours)
        known = (near.astype(np.int32), np.sqrt(squared).astype(np.float32), None)
    # The spectral start needs more rows than eigenvectors; a small table starts at random instead.
    begin: Any = "spectral" if rows > dims + 2 else "random"
    gently: dict[str, Any] = {}
    if start is not None:
        begin, gently = start, {"n_epochs": _ROUNDS_FROM_START, "learning_rate": _GENTLE}
    model = UMAP(
        n_components=dims,
        n_neighbors=neighbours,
        random_state=seed,
        n_jobs=1,
        init=begin,
        precomputed_knn=known,
        **gently,
    )
    return np.asarray(model.fit_transform(vectors), np.float32)


def _tsne(vectors: np.ndarray, dims: int, seed: int, start: np.ndarray | None) -> np.ndarray:
    from openTSNE import TSNE

    reduced = principal_components(vectors, min(50, vectors.shape[1], len(vectors) - 1))
    model = TSNE(
        n_components=dims,
        perplexity=min(30.0, (len(vectors) - 1) / 3),
        theta=0.8,  # a third faster than 0.5 and no worse to look at
        random_state=seed,
        n_jobs=1,
        neighbors="exact" if len(vectors) <= _EXACT_ROWS else "auto",
        initialization="pca" if start is None else np.asarray(start, np.float64),
        **({} if start is None else {"early_exaggeration_iter": 0, "n_iter": 2 * _ROUNDS_FROM_START}),
    )
    return np.asarray(model.fit(reduced), np.float32)


def _keep_compiled() -> None:
    """Let numba keep what it compiles for UMAP between processes: 7 seconds the first time, a tenth ever after."""
    import numba

    compile_function = numba.njit

    def njit(*arguments: Any, **options: Any) -> Any:
        return compile_function(*arguments, **{"cache": True, **options})

    numba.njit = njit


def _answer(folder: Path) -> None:
    try:
        request = load_json(folder / "request.json")
        vectors = np.load(folder / "vectors.npy", allow_pickle=False)
        start = folder / "start.npy"
        begin = np.load(start, allow_pickle=False) if start.exists() else None
        save_array(folder / "points.npy", project(vectors, start=begin, **request))
    except Exception:
        save_bytes(folder / "error.txt", traceback.format_exc().encode())


def _serve() -> None:
    """Answer requests one after another; a second thread watches for the parent's end."""
    requests: queue.Queue[Path] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            requests.put(Path(line.rstrip("\n")))
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    warnings.filterwarnings("ignore")
    _keep_compiled()
    # Importing and compiling take seconds: do it now, while the first texts are still being encoded.
    project(np.random.default_rng(0).normal(size=(64, 8)), "umap", 2, 0)
    while True:
        _answer(requests.get())


if __name__ == "__main__":
    _serve()
