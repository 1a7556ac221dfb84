"""Files whose cells have types (XLSX, Parquet, JSONL) become columns of text."""

import io
import json
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from core.errors import BadInput
from core.tables.delimited import frame_from_rows
from core.tables.encoding import check_encoding, find_encoding
from core.tables.header import has_header, title_rows
from core.tables.names import unique_names

_LARGEST_UNPACKED = 4 << 30  # an .xlsx is a zip: one that unpacks to more than this is refused


def read_workbook(data: bytes, known: dict[str, Any]) -> tuple[pd.DataFrame, str, tuple[str, ...], bool, list[str]]:
    """Read one sheet; also return its name, all sheets' names, whether there was a header, and what was odd."""
    from openpyxl import load_workbook

    sheet = known.get("sheet")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(item.file_size for item in archive.infolist()) > _LARGEST_UNPACKED:
                raise BadInput("This workbook unpacks to more than 4 GB; save it as CSV and bring that.")
        book = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheets = tuple(page.title for page in book.worksheets)
        if sheet is not None and sheet not in sheets:
            raise BadInput(f"There is no sheet “{sheet}”; the workbook has {', '.join(sheets)}.")
        for name in [sheet] if sheet else sheets:
            page = book[name]
            page.reset_dimensions()  # some programs write a size that is wrong
            rows = [[cell_text(value) for value in row] for row in page.iter_rows(values_only=True)]
            while rows and not any(rows[-1]):
                rows.pop()
            if rows:
                frame, header, notes = _frame_of_sheet(rows, known.get("header"))
                return frame, name, sheets, header, notes
    except BadInput:
        raise
    except Exception as fault:
        raise BadInput("This file is no Excel workbook that can be read; save it as CSV and bring that.") from fault
    raise BadInput("The workbook has no filled sheet.")


def _frame_of_sheet(rows: list[list[str]], header: bool | None) -> tuple[pd.DataFrame, bool, list[str]]:
    """Cut a sheet to its filled width, pass titles over and find the header."""
    width = 1 + max(position for row in rows for position, cell in enumerate(row) if cell)
    rows = [row[:width] + [""] * (width - len(row)) if any(row) else [] for row in rows]
    begin = next(position for position, row in enumerate(rows) if row)
    filled = [row for row in rows[begin : begin + 500] if row]
    titles = title_rows(filled)
    header = has_header(filled[titles:]) if header is None else header
    rows = rows[begin:]
    passed = filled[:titles] if header else []
    for row in passed:
        rows.remove(row)
    frame, notes = frame_from_rows(iter(rows), header)
    if passed:
        notes.append(
            f"{len(passed):,} lines above the table were passed over: {' / '.join(map(''.join, passed))[:200]}"
        )
    return frame, header, notes


def read_parquet(data: bytes) -> pd.DataFrame:
    """Read a Parquet file."""
    try:
        table = pyarrow.parquet.ParquetFile(io.BytesIO(data)).read()
        table.validate(full=True)
        columns = [_as_text(column) for column in table.columns]
    except (pa.ArrowException, OSError, ValueError, OverflowError) as fault:
        raise BadInput("This Parquet file is damaged, or holds what cannot be read as text.") from fault
    return pa.table(columns, names=unique_names(map(str, table.column_names))).to_pandas()


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    simple = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_floating)
    if any(test(column.type) for test in simple):
        return column.cast(pa.large_string()).fill_null("")
    return pa.chunked_array([pa.array([cell_text(value) for value in column.to_pylist()], pa.large_string())])


class _Decimal(float):
    """A number that remembers how it was written."""

    text: str

    def __new__(cls, text: str) -> "_Decimal":
        """Keep the text beside the value."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def read_json_lines(data: bytes, encoding: str | None) -> pd.DataFrame:
    """Read one object per line (or one list of objects), numbers kept as they are written."""
    encoding = check_encoding(encoding) if encoding else find_encoding(data)
    text = io.TextIOWrapper(io.BytesIO(data.lstrip()), encoding, errors="replace")
    columns: dict[str, list[str]] = {}
    count = 0
    try:
        for count, record in enumerate(_objects(text), start=1):
            for key, value in record.items():
                key = cell_text(key)
                if key not in columns:
                    columns[key] = [""] * (count - 1)
                columns[key].append(_json_text(value))
            for cells in columns.values():
                if len(cells) < count:
                    cells.append("")
    except UnicodeError as fault:
        raise BadInput(f"The file cannot be read as {encoding}.") from fault
    if not count or not columns:
        raise BadInput("The file holds no JSON objects with named fields.")
    arrays = [pa.array(cells, pa.large_string()) for cells in columns.values()]
    return pa.table(arrays, names=unique_names(columns)).to_pandas()


def _json_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.text if isinstance(value, _Decimal) else cell_text(value)


def _objects(lines: io.TextIOWrapper) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.lstrip("\ufeff \t").startswith("["):
            yield from _checked(_parse_json(line + lines.read(), "the list"), "the list")
            return
        if line.strip():
            yield from _checked([_parse_json(line.strip("\ufeff\r\n "), f"line {number}")], f"line {number}")


def _parse_json(text: str, place: str) -> Any:
    try:
        return json.loads(text.lstrip("\ufeff"), parse_float=_Decimal)
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
            return cell_text(json.dumps(value, ensure_ascii=False, default=cell_text))
    return str(value)
