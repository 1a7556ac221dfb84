"""The store: every run is a folder, and the folder is the database."""

import json
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet
from filelock import FileLock, Timeout

from core.clusters.clustering import Clustering
from core.errors import BadInput
from core.events import KEPT, Checkpoint, Event, Snapshot, State, look_at
from core.files import load_json, save_array, save_file, save_json, save_tensors, slug
from core.runs.config import RunConfig
from core.runs.frames import Frames, snapshot_file
from core.runs.log import Log, Story
from core.tables.corpus import Corpus
from core.topics.describe import Topic

_RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z0-9_]{1,40}-[0-9a-f]{6}")
_ARRAYS = ("vectors", "soft", "labels", "centres")


def _open_checkpoint(path: Path) -> Checkpoint:
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        about = file.metadata()
        arrays = {name: file.get_tensor(name) for name in file.keys()}
        return Checkpoint(about["stage"], arrays, json.loads(about["values"]))


class Store:
    """The folder that holds all runs and the cache they share."""

    def __init__(self, folder: Path) -> None:
        """Point to a folder; it is made when the first run is."""
        self.folder = folder

    @property
    def cache(self) -> Path:
        """Where vectors are kept between runs. May be deleted at any time."""
        return self.folder / ".cache"

    def create(self, config: RunConfig, corpus: Corpus) -> "Run":
        """Make the run's folder aside and rename it into place, so that no half-made run is ever seen."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{config.method}-{secrets.token_hex(3)}"
        aside = Path(tempfile.mkdtemp(dir=self.folder, prefix=".new-"))
        try:
            save_json(aside / "config.json", config.to_json())
            save_file(aside / "corpus.parquet", lambda file: corpus.table.to_parquet(file, index=False))
            aside.chmod(0o755)
            aside.rename(self.folder / name)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return Run(self.folder / name)

    def open(self, name: str) -> "Run":
        """Open a run by its id; anything that is not the id of a run here is refused before it touches a path."""
        run = Run(self.folder / name) if _RUN_ID.fullmatch(name) else None
        if run is None or not run.is_readable():
            raise BadInput("There is no such run here.")
        return run

    def runs(self) -> list["Run"]:
        """List the runs, newest first."""
        if not self.folder.is_dir():
            return []
        names = sorted((path.name for path in self.folder.iterdir() if _RUN_ID.fullmatch(path.name)), reverse=True)
        return [run for run in (Run(self.folder / name) for name in names) if run.is_readable()]


class Run:
    """One run: its configuration, its table, its log and its results."""

    def __init__(self, folder: Path) -> None:
        """Point to a run's folder."""
        self.folder = folder
        self.id = folder.name
        self.log = Log(folder / "events.jsonl")
        self._clustered: pd.DataFrame | None = None
        self._story, self._read_to = Story(), 0

    @property
    def config(self) -> RunConfig:
        """What was asked for."""
        return RunConfig.from_json(load_json(self.folder / "config.json"))

    def is_readable(self) -> bool:
        """Say whether the configuration can be read; a folder damaged by other hands is passed over."""
        try:
            return bool(self.config)
        except (OSError, ValueError, TypeError, BadInput):
            return False

    @property
    def cache(self) -> Path:
        """The cache of the store this run is in."""
        return self.folder.parent / ".cache"

    def corpus(self) -> Corpus:
        """Return the table with the roles its columns have in this run."""
        config = self.config
        table = pyarrow.parquet.read_table(self.folder / "corpus.parquet").to_pandas()
        left_out = self.folder / "left_out.json"
        unread = tuple(load_json(left_out)) if left_out.exists() else ()
        return Corpus(table, config.text, config.label, config.time, config.id, config.drop_duplicates, unread)

    def corpus_columns(self) -> list[str]:
        """Name the table's columns without reading it."""
        return list(pyarrow.parquet.read_schema(self.folder / "corpus.parquet").names)

    def clustered_rows(self) -> pd.DataFrame:
        """Return the rows that are used, in the order of the clustering; read once."""
        if self._clustered is None:
            corpus = self.corpus()
            self._clustered = corpus.table.iloc[corpus.used].reset_index(drop=True)
        return self._clustered

    def leave_out(self, rows: np.ndarray) -> Corpus:
        """Leave out rows of which the encoder's tokenizer leaves nothing."""
        save_json(self.folder / "left_out.json", rows.tolist())
        return self.corpus()

    # What happens -----------------------------------------------------------------------------------------------

    def story(self) -> Story:
        """Fold the log, reading only what was added since the last time."""
        records, self._read_to = self.log.read(self._read_to)
        for record in records:
            self._story.add(record)
        return self._story

    def status(self) -> str:
        """Say new, queued, running, finished, stopped, failed, or interrupted: at work by its log, owned by nobody."""
        phase = self.story().phase
        if phase in ("new", "queued", "running") and not self.is_claimed():
            phase = self.story().phase  # it may have ended between the two looks
            return "interrupted" if phase in ("new", "queued", "running") else phase
        return phase

    def claim(self, patience: float = 5.0) -> FileLock:
        """Take the lock that says who works on this run; it falls free when the process ends, however it ends."""
        if not self._is_there():
            raise BadInput("The folder of this run is gone.")
        lock = FileLock(self.folder / "lock", thread_local=False)
        try:
            lock.acquire(timeout=patience, poll_interval=0.02)
        except Timeout:
            raise BadInput("This run is already being worked on by another process.") from None
        self.log.repair()
        return lock

    def _is_there(self) -> bool:
        """Say whether the folder is still there: asking for its lock would make one anew, for a run without a name."""
        return (self.folder / "config.json").exists()

    def is_claimed(self) -> bool:
        """Say whether a live process works on this run."""
        if not self._is_there():
            return False
        lock = FileLock(self.folder / "lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        lock.release()
        return False

    def record(self, event: Event) -> None:
        """Keep what an event carries and write it into the log."""
        if isinstance(event, Checkpoint):
            about = {"stage": event.stage, "values": json.dumps(dict(event.values))}
            save_tensors(self._checkpoint_file(event.stage), event.arrays, about)
        elif isinstance(event, Snapshot):
            arrays = {"rows": event.rows, "vectors": event.vectors.astype(np.float16), "labels": event.labels}
            about = {"stage": event.stage, "step": str(event.step)}
            save_tensors(snapshot_file(self.folder, event.stage, event.step), arrays, about)
        self.log.append(event)

    def snapshots(self) -> list[tuple[str, int]]:
        """Name the snapshots there are, by stage and step, in the order in which they were taken."""
        return list(self.story().snapshots)

    def frames(self) -> Frames:
        """Return the frames of the live map."""
        return Frames(self.folder, self.snapshots())

    def snapshot(self, stage: str, step: int) -> Snapshot:
        """Open one of them."""
        from safetensors.numpy import load_file

        arrays = load_file(snapshot_file(self.folder, stage, step))
        return Snapshot(stage, step, arrays["rows"], arrays["vectors"].astype(np.float32), arrays["labels"])

    def state(self) -> State:
        """Return the last checkpoint of each stage that left one, to go on from; of single looks only the kept one."""
        found = {}
        for path in sorted((self.folder / "checkpoints").glob("*.safetensors")):
            if not path.name.startswith(slug("look at ")):
                checkpoint = _open_checkpoint(path)
                found[checkpoint.stage] = checkpoint
        if (kept := found.get(KEPT)) is not None:
            name = look_at(kept.values["stage"], int(kept.values["step"]))
            found[name] = _open_checkpoint(self._checkpoint_file(name))
        return found

    def keep(self, stage: str, step: int) -> Checkpoint | None:
        """Make the weights of one look the result when the run goes on, for which it must be claimed.

        What follows from other weights is forgotten, and stages after that look have nothing left to do. Returns the
        choice that stood before, with which ``keep_instead`` takes this one back.
        """
        if (stage, step) not in self.snapshots() or look_at(stage, step) not in self._checkpoints():
            raise BadInput(f"There is no checkpoint of {stage} at step {step}.")
        path = self._checkpoint_file(KEPT)
        before = _open_checkpoint(path) if path.exists() else None
        road = list(self.story().road)
        later = road[road.index(stage) + 1 :]
        self.record(Checkpoint(KEPT, {}, {"stage": stage, "step": step, "later": later}))
        for name in ("represent", "cluster"):
            self._checkpoint_file(name).unlink(missing_ok=True)
        return before

    def keep_instead(self, choice: Checkpoint | None) -> None:
        """Put an earlier choice of a look in place of the last one, or none."""
        if choice is not None:
            self.record(choice)
        else:
            self._checkpoint_file(KEPT).unlink(missing_ok=True)

    def checkpoints(self) -> list[tuple[str, int]]:
        """Name the looks whose weights are there, in the order in which they were taken."""
        there = self._checkpoints()
        return [name for name in self.snapshots() if look_at(*name) in there]

    def _checkpoints(self) -> set[str]:
        files = {path.stem for path in (self.folder / "checkpoints").glob("*.safetensors")}
        return {look_at(*name) for name in self.snapshots() if slug(look_at(*name)) in files}

    def _checkpoint_file(self, stage: str) -> Path:
        return self.folder / "checkpoints" / f"{slug(stage)}.safetensors"

    # Results ----------------------------------------------------------------------------------------------------

    def made_at(self) -> int:
        """Say when the results were made, in nanoseconds: a run of which another moment is kept makes them again."""
        return (self.folder / "metrics.json").stat().st_mtime_ns  # written last

    def save_clustering(self, clustering: Clustering) -> None:
        """Keep the clustering, one array per file."""
        for name in _ARRAYS:
            if (array := getattr(clustering, name)) is not None:
                save_array(self.folder / "clustering" / f"{name}.npy", array)
        for name, array in clustering.beside.items():
            save_array(self.folder / "clustering" / f"beside-{name}.npy", array)

    def clustering(self) -> Clustering:
        """Open the clustering; arrays stay on the disk until they are used."""
        arrays = {name: self._array(f"clustering/{name}") for name in _ARRAYS if name != "centres"}
        centres = self.folder / "clustering" / "centres.npy"
        kept = self._array("clustering/centres") if centres.exists() else None
        beside = sorted((self.folder / "clustering").glob("beside-*.npy"))
        heads = {path.stem.removeprefix("beside-"): self._array(f"clustering/{path.stem}") for path in beside}
        return Clustering(arrays["vectors"], arrays["soft"], arrays["labels"], kept, heads)

    def save_map(self, sample: np.ndarray, layouts: Mapping[str, np.ndarray]) -> None:
        """Keep the sample's row positions and, for each layout, the points of all used rows."""
        save_array(self.folder / "map" / "sample.npy", sample)
        for name, points in layouts.items():
            save_array(self.folder / "map" / f"{name}.npy", points)

    def map(self, layout: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the sample's positions among the used rows, and the points of all used rows."""
        return self._array("map/sample"), self._array(f"map/{layout}")

    def _array(self, name: str) -> np.ndarray:
        return np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    def save_topics(self, topics: list[Topic]) -> None:
        """Keep names, sizes, words and typical rows."""
        save_json(self.folder / "topics.json", [asdict(topic) for topic in topics])

    def topics(self) -> list[Topic]:
        """Return the clusters in words, in the order of their labels."""
        return [
            Topic(item["name"], item["size"], tuple(item["words"]), tuple(item["weights"]), tuple(item["typical"]))
            for item in load_json(self.folder / "topics.json")
        ]

    def save_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Keep the figures."""
        save_json(self.folder / "metrics.json", metrics)

    def metrics(self) -> dict[str, Any]:
        """Return the figures."""
        return load_json(self.folder / "metrics.json")

    def labelled(self) -> pd.DataFrame:
        """Return every original row and column with the clusters beside them."""
        clustering = self.clustering()
        names = [topic.name for topic in self.topics()]
        _, points = self.map("umap")
        return self.corpus().labelled(clustering.labels, names, clustering.probability, points)
