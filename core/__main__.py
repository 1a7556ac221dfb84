"""The same job without a browser: ``python -m core run TABLE --text COLUMN --method NAME``."""

import argparse
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from core.errors import BadInput

ROLES = ("text", "label", "time", "id")
BAD_INPUT, FAILED, STOPPED = 2, 1, 130
_CHARACTERS = {"tab": "\t", "\\t": "\t", "none": "", "\\n": "\n", "\\r": "\r", "\\r\\n": "\r\n"}


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one plain sentence."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage."""
        raise BadInput(f"{message[:1].upper()}{message[1:].rstrip('.')}; “python -m core --help” tells more.")


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit code."""
    try:
        options = _parser().parse_args(arguments)
        return options.command(options)
    except BadInput as refusal:
        print(refusal, file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("Stopped from the keyboard.", file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m core", description="Topicscope without a browser.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    from core.runs import default_folder

    home = default_folder()

    run = commands.add_parser("run", help="cluster the texts of a table")
    run.set_defaults(command=_run)
    _add_job(run, home)
    run.add_argument("--out", type=Path, metavar="FILE", help="the labelled table: csv, tsv, xlsx, parquet or jsonl")
    run.add_argument("--no-formula-guard", action="store_true", help="write every cell to --out exactly as it was read")
    estimate = commands.add_parser("estimate", help="say what a run would take, without running it")
    estimate.set_defaults(command=_estimate)
    _add_job(estimate, home)

    methods = commands.add_parser("methods", help="list the methods with their knobs")
    methods.set_defaults(command=_methods)
    retrieve = commands.add_parser("retrieve", help="rank candidates by meaning; print MAP and MRR")
    retrieve.add_argument("table", metavar="TABLE", type=Path, help="rows of query, candidate and relevant (1 or 0)")
    for column in ("query", "candidate", "relevant"):
        retrieve.add_argument(f"--{column}", default=column, metavar="COLUMN")
    retrieve.add_argument("--encoder", metavar="NAME", help="a Hugging Face id or a folder; default: the embedded one")
    retrieve.add_argument("--run", metavar="ID", help="the encoder that this run trained")
    retrieve.add_argument("--runs", type=Path, default=home, metavar="DIR")
    retrieve.set_defaults(command=_retrieve)
    runs = commands.add_parser("runs", help="list the runs")
    runs.add_argument("--runs", type=Path, default=home, metavar="DIR")
    runs.set_defaults(command=_runs)
    return parser


def _add_job(job: argparse.ArgumentParser, home: Path) -> None:
    """Add everything that describes a run."""
    job.add_argument("table", metavar="TABLE", type=Path, help="a CSV, TSV, XLSX, Parquet or JSONL file")
    job.add_argument("--text", required=True, metavar="COLUMN", help="the column to read")
    for role in ROLES[1:]:
        job.add_argument(f"--{role}", metavar="COLUMN", help=f"the {role} column")
    job.add_argument("--drop-duplicates", action="store_true", help="leave out texts that occurred before")
    job.add_argument("--method", required=True, metavar="NAME", help="see “python -m core methods”")
    job.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", dest="knobs", help="may be repeated")
    job.add_argument("--encoder", metavar="NAME", help="a Hugging Face id or a folder; default: the embedded one")
    job.add_argument("--seed", type=int, default=0, metavar="N")
    job.add_argument("--token-limit", type=int, metavar="N", help="how many tokens of a text are read; default: 256")
    job.add_argument("--precision", metavar="NAME", help="float32, bfloat16 or float16; default: by device")
    job.add_argument("--threads", type=int, metavar="N", help="default: all cores but one")
    job.add_argument("--runs", type=Path, default=home, metavar="DIR", help="where runs are kept; default: %(default)s")
    reading = job.add_argument_group("how the file is read, where the app finds it wrongly")
    reading.add_argument("--encoding", metavar="NAME")
    reading.add_argument("--separator", metavar="CHARACTER", help=", ; | tab, or none for one column")
    reading.add_argument("--quote", metavar="CHARACTER", help="\" ' or none")
    reading.add_argument("--line-end", choices=("\\n", "\\r\\n", "\\r"))
    reading.add_argument("--header", choices=("true", "false"), help="whether the first row names the columns")
    reading.add_argument("--sheet", metavar="NAME", help="which sheet of a workbook")


def _run(options: argparse.Namespace) -> int:
    """Check everything, then run; nothing is written before all of it is known to be sound."""
    from core.files import save_bytes
    from core.maps.projector import Projector
    from core.runs.pipeline import prepare
    from core.runs.store import Store
    from core.runs.worker import drive
    from core.tables.export import check_fits, format_of, table_bytes

    out_format = _check_out(options.out, options.table, format_of) if options.out else ""
    corpus, config = _job(options)
    check_fits(corpus.table, out_format)
    store, projector = Store(options.runs), Projector()
    prepare(config, corpus, store.cache, projector)

    try:
        run = store.create(config, corpus)
    except OSError as fault:
        raise BadInput(f"The folder for runs, “{options.runs}”, cannot be written to: {fault.strerror}.") from fault
    bar = _Bar()
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
    if options.out:
        labelled = run.labelled()
        save_bytes(options.out, table_bytes(labelled, out_format, guard=not options.no_formula_guard))
    metrics = {name: value for name, value in run.metrics().items() if name != "silhouette_sample"}
    summary = {
        "run": run.id,
        "method": config.method,
        "rows": len(corpus.table),
        "used": len(corpus.used),
        "clusters": sum(topic.size > 0 for topic in run.topics()),
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

    method = find_method(options.method).from_knobs(_knobs(options.knobs))
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


def _estimate(options: argparse.Namespace) -> int:
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


def _retrieve(options: argparse.Namespace) -> int:
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


def _methods(options: argparse.Namespace) -> int:
    from core.methods import METHODS

    for method in METHODS.values():
        print(f"{method.name}: {(method.__doc__ or '').split(chr(10))[0]}")
        for knob in method.knobs():
            bounds = f" ({'|'.join(knob.choices)})" if knob.choices else ""
            bounds = f" ({knob.low:g} to {knob.high:g})" if knob.low is not None else bounds
            print(f"    {knob.name}={str(knob.default).lower()}{bounds}: {knob.help}")
    return 0


def _runs(options: argparse.Namespace) -> int:
    from core.runs.store import Store

    for run in Store(options.runs).runs():
        config = run.config
        print(f"{run.id}  {run.status():<11}  {config.knobs['clusters']:>4} clusters  {Path(config.file).name}")
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


if __name__ == "__main__":
    sys.exit(main())
