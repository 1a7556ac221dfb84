"""What the commands of the command line do."""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from core.errors import BadInput

ROLES = ("text", "label", "time", "id")
BAD_INPUT, FAILED, STOPPED = 2, 1, 130
_CHARACTERS = {"tab": "\t", "\\t": "\t", "none": "", "\\n": "\n", "\\r": "\r", "\\r\\n": "\r\n"}


def run(options: argparse.Namespace) -> int:
    """Check everything, then run; nothing is written before all of it is known to be sound."""
    from core.maps.projector import Projector
    from core.runs.pipeline import prepare
    from core.runs.store import Store
    from core.tables.export import check_fits, format_of

    out_format = _check_out(options.out, options.table, format_of) if options.out else ""
    corpus, config = _job(options)
    check_fits(corpus.table, out_format)
    store = Store(options.runs)
    prepare(config, corpus, store.cache, Projector())
    try:
        made = store.create(config, corpus)
    except OSError as fault:
        raise BadInput(f"The folder for runs, “{options.runs}”, cannot be written to: {fault.strerror}.") from fault
    return _drive(made, options, out_format)


def resume(options: argparse.Namespace) -> int:
    """Go on with a run that was stopped, interrupted or failed."""
    from core.runs.store import Store
    from core.tables.export import check_fits, format_of

    found = Store(options.runs).open(options.id)
    out_format = _check_out(options.out, found.folder / "corpus.parquet", format_of) if options.out else ""
    check_fits(found.corpus().table, out_format)
    if found.status() == "finished":
        raise BadInput(f"The run {found.id} has finished already.")
    return _drive(found, options, out_format)


def delete(options: argparse.Namespace) -> int:
    """Delete a run for good."""
    from core.runs.store import Store

    Store(options.runs).delete(options.id)
    print(f"The run {options.id} is deleted.")
    return 0


def _drive(run: Any, options: argparse.Namespace, out_format: str) -> int:
    """Pull a run to its end, write the labelled table and print the summary."""
    from core.files import save_bytes
    from core.maps.projector import Projector
    from core.runs.labelling import Labelling
    from core.runs.worker import drive
    from core.tables.export import table_bytes

    bar, projector = _Bar(), Projector()
    lock = run.claim()
    try:
        status = drive(run, projector, lambda: False, bar.tell)
    finally:
        bar.end()
        projector.close()
        lock.release()
    story = run.story()
    if status != "finished":
        print(story.message, f"(run {run.id})", file=sys.stderr)
        return STOPPED if status == "stopped" else FAILED
    labelling = Labelling.of(run)
    if options.out:
        save_bytes(options.out, table_bytes(labelling.table(), out_format, guard=not options.no_formula_guard))
    metrics = {name: value for name, value in run.results.metrics().items() if name != "silhouette_sample"}
    summary = {
        "run": run.id,
        "method": run.config.method,
        "rows": len(labelling.corpus.table),
        "used": len(labelling.corpus.used),
        "clusters": labelling.filled,
        "metrics": metrics,
        "seconds": story.seconds,
    }
    print(json.dumps(summary))
    return 0


def _knobs(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise BadInput(f"--set takes KNOB=VALUE, as in --set clusters=20; you gave “{pair}”.")
    return dict(pair.split("=", 1) for pair in pairs)


def _preset(kind: Any, name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    if name not in kind.presets:
        there = ", ".join(f"“{preset}”" for preset in kind.presets) or "none"
        raise BadInput(f"{kind.name} has no preset “{name}”; there are: {there}.")
    return dict(kind.presets[name])


def _check_out(path: Path, table: Path, format_of: Any) -> str:
    """Make sure that the result can be written before the work begins."""
    found = str(format_of(path))
    if path.exists() and table.exists() and path.samefile(table):
        raise BadInput(f"“{path}” is the table itself: choose another file for the result.")
    try:
        if path.is_dir():
            raise IsADirectoryError
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError:
        raise BadInput(f"“{path}” cannot be written: its folder is missing or closed, or it is a folder.") from None
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as fault:
        raise BadInput(f"The table “{path}” cannot be read: {fault.strerror}.") from fault


def _reading(options: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(options, name) for name in ("encoding", "separator", "quote", "line_end", "header", "sheet")}
    given = {name: _CHARACTERS.get(value, value) for name, value in given.items() if value is not None}
    for name in ("separator", "quote"):
        if len(given.get(name, "")) > 1:
            raise BadInput(f"The {name} must be one character; you gave “{given[name]}”.")
    if "header" in given:
        given["header"] = given["header"] == "true"
    return given


def _column(columns: Any, asked: str | None) -> str | None:
    """Find a column by its name, forgiving spaces around it and the case where that is unambiguous."""
    if asked is None or asked in columns:
        return asked
    alike = [name for name in columns if name.strip().casefold() == asked.strip().casefold()]
    return alike[0] if len(alike) == 1 else asked


def _job(options: argparse.Namespace) -> tuple[Any, Any]:
    """Read the table and settle the configuration."""
    from core.encoder.encoder import EMBEDDED
    from core.methods import find_method
    from core.runs.config import TOKEN_LIMIT, resolve
    from core.tables import read_table
    from core.tables.corpus import Corpus

    kind = find_method(options.method)
    method = kind.from_knobs(_preset(kind, options.preset) | _knobs(options.knobs))
    data, reading = _bytes(options.table), _reading(options)
    table = read_table(data, options.table.name, **reading)
    text, label, moment, key = (_column(table.frame.columns, getattr(options, role)) for role in ROLES)
    corpus = Corpus(table.frame, text or "", label, moment, key, options.drop_duplicates)
    config = resolve(
        corpus,
        method,
        file=str(options.table),
        file_sha256=hashlib.sha256(data).hexdigest(),
        reading=reading,
        encoder=options.encoder or EMBEDDED,
        seed=options.seed,
        threads=options.threads,
        token_limit=TOKEN_LIMIT if options.token_limit is None else options.token_limit,
        precision=options.precision,
    )
    return corpus, config


def estimate(options: argparse.Namespace) -> int:
    """Measure a few batches and print what each stage would take."""
    from core.bench.forecast import measured_forecast
    from core.maps.projector import Projector
    from core.runs.pipeline import prepare, road
    from core.runs.store import Store

    corpus, config = _job(options)
    bench, method = prepare(config, corpus, Store(options.runs).cache, Projector())
    stages = road(method, measured_forecast(bench, config.threads))
    for reason in config.reasons.values():
        print(reason)
    for stage in stages:
        print(f"{stage.name:<16} {stage.seconds:>8,.0f} s   {stage.memory / 1e9:>6.1f} GB")
    total, most = sum(stage.seconds for stage in stages), max(stage.memory for stage in stages)
    print(f"{'in all':<16} {total:>8,.0f} s   {most / 1e9:>6.1f} GB at most")
    return 0


def retrieve(options: argparse.Namespace) -> int:
    """Rank the candidates of every query and print how well that went."""
    from core.encoder.encoder import find_device, load_encoder
    from core.encoder.source import EMBEDDED, check_encoder, read_shape
    from core.runs.config import TOKEN_LIMIT
    from core.runs.retrieval import Lists, measure_retrieval
    from core.runs.store import Store
    from core.runs.trained import trained_encoder
    from core.tables import read_table

    if options.run and options.encoder:
        raise BadInput("Give either --run or --encoder, not both.")
    frame = read_table(_bytes(options.table), options.table.name).frame
    lists = Lists.read(frame, options.query, options.candidate, options.relevant)
    if options.run:
        run = Store(options.runs).open(options.run)
        encoder, pooling = trained_encoder(run), str(run.config.knobs.get("pooling", "mean"))
    else:
        name = check_encoder(options.encoder or EMBEDDED)
        encoder, pooling = load_encoder(name, find_device(), TOKEN_LIMIT, "float32"), read_shape(name).pooling or "mean"
    found = measure_retrieval(lists, encoder, pooling)
    if not found["queries"]:
        raise BadInput("No query has a relevant candidate, so there is nothing to measure.")
    print(json.dumps(found))
    return 0


def methods(options: argparse.Namespace) -> int:
    """List the methods with their knobs and presets."""
    from core.methods import METHODS

    for method in METHODS.values():
        print(f"{method.name}: {(method.__doc__ or '').split(chr(10))[0]}")
        for knob in method.knobs():
            bounds = f" ({'|'.join(knob.choices)})" if knob.choices else ""
            bounds = f" ({knob.low:g} to {knob.high:g})" if knob.low is not None else bounds
            print(f"    {knob.name}={str(knob.default).lower()}{bounds}: {knob.help}")
        if method.presets:
            print(f"    presets: {', '.join(method.presets)}")
    return 0


def runs(options: argparse.Namespace) -> int:
    """List the runs, also those that cannot be read."""
    from core.runs.store import Store

    store = Store(options.runs)
    for run in store.runs():
        print(f"{run.id}  {run.status():<11}  {run.clusters():>4} clusters  {Path(run.config.file).name}")
    for name, reason in store.unreadable().items():
        print(f"{name}  unreadable   {reason}")
    return 0


class _Bar:
    """A progress bar on standard error; one line per stage where that is no terminal."""

    def __init__(self) -> None:
        self.live, self.stage = sys.stderr.isatty(), ""

    def tell(self, event: Any) -> None:
        """Show what happens."""
        from core.events import Note, Progress, StageStarted

        if isinstance(event, StageStarted):
            self.end()
            self.stage = event.stage
            print(f"{event.stage} …", file=sys.stderr, end="" if self.live else "\n", flush=True)
        elif isinstance(event, Progress) and self.live:
            filled = round(30 * event.done / max(event.total, 1))
            line = f"\r{event.stage:<12} [{'#' * filled}{'.' * (30 - filled)}] {event.done:,} of {event.total:,} "
            print(line, file=sys.stderr, end="", flush=True)
        elif isinstance(event, Note):
            print(("\n" if self.live else "") + event.text, file=sys.stderr)

    def end(self) -> None:
        """Finish the line of the current stage."""
        if self.live and self.stage:
            print(file=sys.stderr)
            self.stage = ""
