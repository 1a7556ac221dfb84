"""What pictures cost a training: speed with and without them, and how soon a frame follows its snapshot.

``python -m tests.benchmarks.live`` trains on StackOverflow titles with and without a painter, in turns, in one process.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from core.corpus import Corpus
from core.methods import find_method
from core.painter import Painter
from core.runs.config import resolve
from core.runs.store import Run, Store
from core.steps.projector import Projector
from core.table import read_table
from core.worker import drive

KNOBS = {"clusters": 20, "steps": 60, "every": 15, "depth": "2"}
TEXTS, ROUNDS = 6_000, 2


def main() -> None:
    """Train in turns and print the ratio of speeds, the delay of frames, and how far unchanged points moved."""
    folder = os.environ.get("TOPICSCOPE_DATA")
    if not folder:
        sys.exit("Set TOPICSCOPE_DATA to the folder of benchmark data.")
    path = Path(folder) / "stackoverflow.csv"
    frame = read_table(path.read_bytes(), path.name).frame.iloc[:TEXTS].reset_index(drop=True)
    corpus = Corpus(frame, "text", "label")
    projector = Projector()
    with tempfile.TemporaryDirectory() as runs:
        store = Store(Path(runs))
        trained(store, corpus, projector, painted=False)  # encodes, prepares, compiles: not counted
        spent: dict[bool, list[float]] = {True: [], False: []}
        delays: list[float] = []
        moved: list[float] = []
        for _ in range(ROUNDS):
            for painted in (False, True):
                run = trained(store, corpus, projector, painted)
                spent[painted].append(run.story().seconds["train"])
                if painted:
                    delays += frame_delays(run)
                    frames = run.frames()
                    moved += [frames.moved(*name, "umap") for name in frames.names("umap")[1:]]
        projector.close()
    bare, drawn = np.mean(spent[False]), np.mean(spent[True])
    print(f"training without pictures {bare:.1f} s, with them {drawn:.1f} s: {drawn / bare - 1:+.1%}, {ROUNDS} rounds")
    print(
        f"a UMAP frame of 2,000 points follows its snapshot after {np.median(delays):.1f} s, at most {max(delays):.1f}"
    )
    print(f"points that stay in their cluster move by {np.mean(moved):.1%} of the map from frame to frame")


def trained(store: Store, corpus: Corpus, projector: Projector, painted: bool) -> Run:
    """Run once, with a painter beside it or without."""
    method = find_method("sccl").from_knobs(KNOBS)
    config = resolve(corpus, method, file="stackoverflow.csv", file_sha256="", reading={}, seed=0)
    run = store.create(config, corpus)
    painter = Painter(store.open(run.id), projector) if painted else None
    if drive(run, projector, lambda: False) != "finished":
        sys.exit(run.story().message)
    if painter:
        painter.finish()
        painter.wait()
    return run


def frame_delays(run: Run) -> list[float]:
    """Return the seconds between each snapshot of the training and its UMAP frame, where it was drawn while it ran."""
    records = run.log.read()[0]
    ended = max(record["time"] for record in records)
    found = []
    for record in records:
        if record["event"] == "Snapshot" and record["stage"] == "train":
            drawn = run.frames().drawn_at(record["stage"], record["step"], "umap")
            found += [drawn - record["time"]] if drawn is not None and drawn < ended else []
    return found


if __name__ == "__main__":
    main()
