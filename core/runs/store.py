"""The store: every run is a folder, and the folder is the database."""

import re
import secrets
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
from filelock import FileLock, Timeout

from core.errors import BadInput
from core.events import Checkpoint, Event, Snapshot
from core.files import load_json, save_file, save_json, save_tensors
from core.methods import find_method
from core.runs.checkpoints import Checkpoints
from core.runs.config import RunConfig
from core.runs.curation import Ledger
from core.runs.frames import Frames, snapshot_file
from core.runs.log import Log, Story
from core.runs.results import Results
from core.stages import CLUSTER, REPRESENT
from core.state import Choice
from core.tables.corpus import Corpus

_RUN_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[a-z0-9_]{1,40}-[0-9a-f]{6}")


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
        if run is None or not run.folder.is_dir():
            raise BadInput("There is no such run here.")
        if reason := run.unreadable():
            raise BadInput(f"The run {name} cannot be read. {reason}")
        return run

    def runs(self) -> list["Run"]:
        """List the runs that can be read, newest first."""
        return [run for run in self._folders() if not run.unreadable()]

    def unreadable(self) -> dict[str, str]:
        """Name the runs that cannot be read, newest first, each with the reason: they are shown, never hidden."""
        return {run.id: reason for run in self._folders() if (reason := run.unreadable())}

    def _folders(self) -> list["Run"]:
        if not self.folder.is_dir():
            return []
        names = sorted((path.name for path in self.folder.iterdir() if _RUN_ID.fullmatch(path.name)), reverse=True)
        return [Run(self.folder / name) for name in names]

    def delete(self, name: str) -> None:
        """Delete a run that nobody works on, first out of sight and then for good, so that a kill leaves no half."""
        folder = self.folder / name
        if not _RUN_ID.fullmatch(name) or not folder.is_dir():
            raise BadInput("There is no such run here.")
        run = Run(folder)
        if not run.unreadable():
            run.claim(patience=0.5).release()  # one that is being worked on is refused
        gone = self.folder / f".deleted-{name}-{secrets.token_hex(3)}"
        folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


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

    def settled_config(self) -> RunConfig:
        """Return the configuration with what was decided on the way in place of what was left open."""
        config = self.config
        return replace(config, knobs=config.knobs | self.story().resolved)

    def unreadable(self) -> str:
        """Say why the configuration cannot be read, or nothing if it can."""
        try:
            find_method(self.config.method)
        except BadInput as refusal:
            return str(refusal)
        except OSError:
            return "Its config.json is missing or closed."
        except (ValueError, TypeError):
            return "Its config.json is damaged."
        return ""

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
            self.state().save(event)
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

    def state(self) -> Checkpoints:
        """Return where the run stands, to go on from."""
        return Checkpoints(self.folder / "checkpoints")

    def looks(self) -> list[tuple[str, int]]:
        """Name the looks whose weights are there, in the order in which they were taken."""
        state = self.state()
        return [look for look in self.snapshots() if state.has_look(*look)]

    def choose(self, stage: str, step: int) -> Choice | None:
        """Make the weights of one look the result when the run goes on, for which it must be claimed.

        What follows from other weights is forgotten, and stages after that look have nothing left to do. Returns the
        choice that stood before, to which ``Checkpoints.choose`` can go back.
        """
        if (stage, step) not in self.looks():
            raise BadInput(f"There is no checkpoint of {stage} at step {step}.")
        state, road = self.state(), list(self.story().road)
        before = state.choice
        state.choose(Choice(stage, step, tuple(road[road.index(stage) + 1 :])))
        for name in (REPRESENT, CLUSTER):
            state.forget(name)
        return before

    # What was found ---------------------------------------------------------------------------------------------

    @property
    def results(self) -> Results:
        """What the run has found."""
        return Results(self.folder)

    def ledger(self) -> Ledger:
        """Return what a person has corrected in the result."""
        return Ledger(self.folder, self.results.fingerprint())

    def clusters(self) -> int:
        """Say how many clusters there are: those found once it has finished, until then those asked for."""
        if self.story().phase == "finished" and (self.folder / "topics.json").exists():
            return sum(topic.size > 0 for topic in self.results.topics())
        return int(self.config.knobs.get("clusters", 0))
