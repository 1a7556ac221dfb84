"""What watching costs a training: pictures, how soon a frame follows its snapshot, and five tabs in a browser.

``python -m tests.benchmarks.live`` trains on StackOverflow titles with and without a painter, in turns, in one process;
then a server trains them with and without five tabs open on the run, which need a core of their own to be drawn.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from core.maps.projector import Projector
from core.methods import find_method
from core.runs.config import RunConfig, resolve
from core.runs.painter import Painter
from core.runs.store import Run, Store
from core.runs.worker import drive
from core.tables import read_table
from core.tables.corpus import Corpus
from tests.browser.chromium import ARGUMENTS, find_chromium
from tests.browser.conftest import start_server

OFTEN = {"clusters": 20, "steps": 40, "every": 10, "batch": 128, "depth": "2"}  # more pictures than by default
USUAL = {"clusters": 20, "steps": 60, "depth": "2"}  # as often and as deep as by default for twenty thousand texts
TEXTS, ROUNDS = 3_000, 2


def main() -> None:
    """Measure what pictures cost, then what five tabs cost, or the one that is named."""
    folder = os.environ.get("TOPICSCOPE_DATA")
    if not folder:
        sys.exit("Set TOPICSCOPE_DATA to the folder of benchmark data.")
    path = Path(folder) / "stackoverflow.csv"
    frame = read_table(path.read_bytes(), path.name).frame.iloc[:TEXTS].reset_index(drop=True)
    parts = {"pictures": cost_of_pictures, "tabs": cost_of_tabs}
    with tempfile.TemporaryDirectory() as runs:
        for name in sys.argv[1:] or parts:
            parts[name](Store(Path(runs)), Corpus(frame, "text", "label"))


def cost_of_pictures(store: Store, corpus: Corpus) -> None:
    """Train in turns and print the ratio of speeds, the delay of frames, and how far unchanged points moved."""
    projector = Projector()
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
    after = f"after {np.median(delays):.1f} s, at most {max(delays):.1f}"
    print(f"a UMAP frame of 2,000 points follows its snapshot {after}")
    print(f"points that stay in their cluster move by {np.mean(moved):.1%} of the map from frame to frame", flush=True)


def cost_of_tabs(store: Store, corpus: Corpus) -> None:
    """Train in a server with no tab and with five, and print the ratio."""
    in_server(store, corpus, tabs=0, steps=4)  # encodes, prepares: not counted
    spent: dict[int, list[float]] = {0: [], 5: []}
    for _ in range(ROUNDS):
        for tabs in spent:
            spent[tabs].append(in_server(store, corpus, tabs))
    alone, beside = np.mean(spent[0]), np.mean(spent[5])
    print(f"a step in a server: nobody watches {alone:.2f} s, five tabs {beside:.2f} s: {beside / alone - 1:+.1%}")
    print("by round: " + ", ".join(f"{a:.2f} and {b:.2f}" for a, b in zip(spent[0], spent[5], strict=True)))


def configured(corpus: Corpus, knobs: dict[str, Any]) -> RunConfig:
    """Return what is run every time."""
    method = find_method("sccl").from_knobs(knobs)
    return resolve(corpus, method, file="stackoverflow.csv", file_sha256="", reading={}, seed=0)


def trained(store: Store, corpus: Corpus, projector: Projector, painted: bool) -> Run:
    """Run once, with a painter beside it or without."""
    run = store.create(configured(corpus, OFTEN), corpus)
    painter = Painter(store.open(run.id), projector) if painted else None
    if drive(run, projector, lambda: False) != "finished":
        sys.exit(run.story().message)
    if painter:
        painter.finish()
        painter.wait()
    return run


def in_server(store: Store, corpus: Corpus, tabs: int, steps: int = int(USUAL["steps"])) -> float:
    """Let tabs of a real browser watch a run in a real server; return the seconds of a step once all is drawn.

    The first half of the training is not counted: in it a browser reads its programs, which costs the two cores of a
    small machine more than all that follows.
    """
    from playwright.sync_api import sync_playwright

    run = store.create(configured(corpus, USUAL | {"steps": steps}), corpus)
    server = start_server(store.folder)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=ARGUMENTS)
            first = browser.new_page()
            first.goto(f"{server.url}/train?run={run.id}")
            first.get_by_role("button", name="Begin").first.click(timeout=120_000)
            first.wait_for_timeout(2_000)
            first.goto("about:blank")
            for _ in range(tabs):
                browser.new_page().goto(f"{server.url}/train?run={run.id}", wait_until="commit", timeout=120_000)
            while run.status() in ("new", "queued", "running"):
                first.wait_for_timeout(500)
            browser.close()
    finally:
        server.process.terminate()
        server.process.wait(60)
    if run.status() != "finished":
        sys.exit(run.story().message)
    done = {
        record["done"]: record["time"]
        for record in run.log.read()[0]
        if record["event"] == "Progress" and record["stage"] == "train" and record["done"] < steps
    }
    first_counted, last = min(step for step in done if step > steps // 2), max(done)
    return (done[last] - done[first_counted]) / max(last - first_counted, 1)


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
