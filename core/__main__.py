"""The same job without a browser: ``python -m core run TABLE --text COLUMN --method NAME``."""

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from core import commands
from core.commands import BAD_INPUT, ROLES, STOPPED
from core.errors import BadInput


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
    known = parser.add_subparsers(required=True, metavar="COMMAND")
    from core.runs import default_folder

    home = default_folder()

    run = known.add_parser("run", help="cluster the texts of a table")
    run.set_defaults(command=commands.run)
    _add_job(run, home)
    _add_out(run)
    resume = known.add_parser("resume", help="go on with a run that was stopped, interrupted or failed")
    resume.set_defaults(command=commands.resume)
    _add_run(resume, home)
    _add_out(resume)
    delete = known.add_parser("delete", help="delete a run for good")
    delete.set_defaults(command=commands.delete)
    _add_run(delete, home)
    estimate = known.add_parser("estimate", help="say what a run would take, without running it")
    estimate.set_defaults(command=commands.estimate)
    _add_job(estimate, home)

    methods = known.add_parser("methods", help="list the methods with their knobs")
    methods.set_defaults(command=commands.methods)
    retrieve = known.add_parser("retrieve", help="rank candidates by meaning; print MAP and MRR")
    retrieve.add_argument("table", metavar="TABLE", type=Path, help="rows of query, candidate and relevant (1 or 0)")
    for column in ("query", "candidate", "relevant"):
        retrieve.add_argument(f"--{column}", default=column, metavar="COLUMN")
    retrieve.add_argument("--encoder", metavar="NAME", help="a Hugging Face id or a folder; default: the embedded one")
    retrieve.add_argument("--run", metavar="ID", help="the encoder that this run trained")
    retrieve.add_argument("--runs", type=Path, default=home, metavar="DIR")
    retrieve.set_defaults(command=commands.retrieve)
    runs = known.add_parser("runs", help="list the runs")
    runs.add_argument("--runs", type=Path, default=home, metavar="DIR")
    runs.set_defaults(command=commands.runs)
    return parser


def _add_run(command: argparse.ArgumentParser, home: Path) -> None:
    """Add the run that is meant, and where it is."""
    command.add_argument("id", metavar="RUN", help="as “python -m core runs” lists it")
    command.add_argument("--runs", type=Path, default=home, metavar="DIR")


def _add_out(command: argparse.ArgumentParser) -> None:
    """Add where the labelled table goes."""
    formats = "csv, tsv, xlsx, parquet or jsonl"
    command.add_argument("--out", type=Path, metavar="FILE", help=f"the labelled table: {formats}")
    command.add_argument(
        "--no-formula-guard", action="store_true", help="write every cell to --out exactly as it was read"
    )


def _add_job(job: argparse.ArgumentParser, home: Path) -> None:
    """Add everything that describes a run."""
    job.add_argument("table", metavar="TABLE", type=Path, help="a CSV, TSV, XLSX, Parquet or JSONL file")
    job.add_argument("--text", required=True, metavar="COLUMN", help="the column to read")
    for role in ROLES[1:]:
        job.add_argument(f"--{role}", metavar="COLUMN", help=f"the {role} column")
    job.add_argument("--drop-duplicates", action="store_true", help="leave out texts that occurred before")
    job.add_argument("--method", required=True, metavar="NAME", help="see “python -m core methods”")
    job.add_argument("--set", action="append", default=[], metavar="KNOB=VALUE", dest="knobs", help="may be repeated")
    job.add_argument("--preset", metavar="NAME", help="knobs as a preset sets them; --set changes single ones")
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


if __name__ == "__main__":
    sys.exit(main())
