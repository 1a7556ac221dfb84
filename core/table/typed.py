"""Files whose cells have types (XLSX, Parquet, JSONL) become columns of text."""

import io
import json
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from core.errors import BadInput
from core.table.delimited import frame_from_rows
from core.table.dialect import find_encoding, has_header
from core.table.names import unique_names

_LARGEST_UNPACKED = 4 << 30  # an .xlsx is a zip: one that unpacks to more than this is refused


def read_workbook(data: bytes, known: dict[str, Any]) -> tuple[pd.DataFrame, str, tuple[str, ...], bool]:
    """Read one sheet of a workbook; also return its name, all sheets' names, and whether there was a header."""
    from openpyxl import load_workbook

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(item.file_size for item in archive.infolist()) > _LARGEST_UNPACKED:
                raise BadInput("This workbook unpacks to more than 4 GB; save it as CSV and bring that.")
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    except BadInput:
        raise
    except Exception as fault:
        raise BadInput("This file is a zip archive but not an Excel workbook that can be read.") from fault
    sheets = tuple(book.sheetnames)
    sheet = known.get("sheet")
    if sheet is not None and sheet not in sheets:
        raise BadInput(f"There is no sheet “{sheet}”; the workbook has {', '.join(sheets)}.")
    for name in [sheet] if sheet else sheets:
        rows = [[cell_text(value) for value in row] for row in book[name].iter_rows(values_only=True)]
        rows = [row for row in rows if any(row)]
        if rows:
            width = 1 + max(position for row in rows for position, cell in enumerate(row) if cell)
            header = known.get("header", has_header(rows[:200]))
            frame, _ = frame_from_rows((row[:width] + [""] * (width - len(row)) for row in rows), header)
            return frame, name, sheets, header
    raise BadInput("The workbook has no filled sheet.")


def read_parquet(data: bytes) -> pd.DataFrame:
    """Read a Parquet file."""
    try:
        table = pyarrow.parquet.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError) as fault:
        raise BadInput("This Parquet file is damaged and cannot be read.") from fault
    columns = [_as_text(column) for column in table.columns]
    return pa.table(columns, names=unique_names(map(str, table.column_names))).to_pandas()


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column.cast(pa.large_string()).fill_null("")
    if pa.types.is_integer(column.type):
        return column.cast(pa.large_string()).fill_null("")
    return pa.chunked_array([pa.array([cell_text(value) for value in column.to_pylist()], pa.large_string())])


def read_json_lines(data: bytes, encoding: str | None) -> pd.DataFrame:
    """Read one object per line (or one list of objects), numbers kept as they are written."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding or find_encoding(data), errors="replace")
    columns: dict[str, list[str]] = {}
    count = 0
    for count, record in enumerate(_objects(text), start=1):
        for key, value in record.items():
            if key not in columns:
                columns[key] = [""] * (count - 1)
            columns[key].append(cell_text(value))
        for cells in columns.values():
            if len(cells) < count:
                cells.append("")
    if not count:
        raise BadInput("The file holds no JSON objects.")
    arrays = [pa.array(cells, pa.large_string()) for cells in columns.values()]
    return pa.table(arrays, names=unique_names(columns)).to_pandas()


def _objects(lines: io.TextIOWrapper) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.lstrip("\ufeff \t").startswith("["):
            yield from _checked(_parse_json(line + lines.read(), "the list"), "the list")
            return
        if line.strip():
            yield from _checked([_parse_json(line.strip("\ufeff\r\n "), f"line {number}")], f"line {number}")


def _parse_json(text: str, place: str) -> Any:
    try:
        return json.loads(text.lstrip("\ufeff"), parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        raise BadInput(f"In this JSON file {place} is not valid JSON.") from None


def _checked(records: Any, place: str) -> Iterator[dict[str, Any]]:
    for record in records if isinstance(records, list) else [records]:
        if not isinstance(record, dict):
            raise BadInput(f"In this JSON file {place} is not an object with named fields.")
        yield record


def cell_text(value: Any) -> str:
    """Write a typed cell as a person would see it: 5, not 5.0; dates as ISO; nothing as an empty cell."""
    match value:
        case None:
            return ""
        case str():
            return value.encode("utf-8", "replace").decode() if not value.isascii() else value
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            whole = value.is_integer() and abs(value) < 1e15
            return "" if value != value else str(int(value)) if whole else repr(value)
        case datetime():
            return value.date().isoformat() if value.time() == time() and not value.tzinfo else value.isoformat(" ")
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.decode("utf-8", "replace")
        case dict() | list():
            return json.dumps(value, ensure_ascii=False, default=cell_text)
    return str(value)
