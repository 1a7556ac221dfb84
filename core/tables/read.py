"""A file becomes a table, whatever kind of file it is."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import pandas as pd

from core.errors import BadInput
from core.tables.delimited import read_delimited
from core.tables.dialect import Dialect
from core.tables.typed import read_json_lines, read_parquet, read_workbook

KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".tab": "csv",
    ".xlsx": "xlsx",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


@dataclass(frozen=True)
class Table:
    """A table as it was read, with how it was read."""

    frame: pd.DataFrame
    kind: str
    dialect: Dialect | None = None
    header: bool = True
    sheet: str | None = None
    sheets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_table(data: bytes, name: str, **known: Any) -> Table:
    """Read a CSV, TSV, XLSX, Parquet or JSONL file; ``known`` corrects what would be found by itself.

    ``known`` takes encoding, separator, quote, line_end and header for delimited text, and sheet for XLSX.
    """
    kind = find_kind(data, name)
    known = {key: value for key, value in known.items() if value is not None}
    if not data or data.isspace():
        raise BadInput(f"The file “{name}” is empty.")
    if kind == "xlsx":
        frame, sheet, sheets, header, notes = read_workbook(data, known)
        table = Table(frame, kind, header=header, sheet=sheet, sheets=sheets, notes=tuple(notes))
    elif kind == "parquet":
        table = Table(read_parquet(data), kind)
    elif kind == "jsonl":
        table = Table(read_json_lines(data, known.get("encoding")), kind)
    else:
        frame, dialect, notes = read_delimited(data, known)
        table = Table(frame, kind, dialect, header=dialect.header, notes=tuple(notes))
    if not len(table.frame):
        raise BadInput(f"The file “{name}” has no rows below its header.")
    return table


def find_kind(data: bytes, name: str) -> str:
    """Tell the kind of file by its first bytes, then by its name."""
    suffix = PurePath(name).suffix.lower()
    if data[:4] == b"PAR1":
        return "parquet"
    if data[:4] == b"PK\x03\x04":
        return "xlsx"
    if data[:4] == b"\xd0\xcf\x11\xe0":
        raise BadInput("This is an old .xls workbook: save it as .xlsx or .csv and bring it again.")
    if data[:4] == b"%PDF":
        raise BadInput("This is a PDF, not a table: bring a CSV, TSV, XLSX, Parquet or JSONL file.")
    if suffix not in KINDS:
        raise BadInput(f"“{name}” is none of the files that can be read: CSV, TSV, XLSX, Parquet or JSONL.")
    if KINDS[suffix] in ("parquet", "xlsx") and data:
        raise BadInput(f"“{name}” is called {suffix} but is not such a file.")
    return KINDS[suffix]
