"""A labelled table becomes a file, safe to open in a spreadsheet unless told otherwise."""

import csv
import io
import re
from pathlib import Path

import pandas as pd

from core.errors import BadInput
from core.tables.names import unique_names

FORMATS = ("csv", "tsv", "xlsx", "parquet", "jsonl")
MIME = {
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "parquet": "application/vnd.apache.parquet",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "jsonl": "application/jsonl",
}
_FORMULA = "^[ \t\n\r\f\v\u00a0\u2000-\u200b\u3000\ufeff]*[=+\\-@＝＋－＠]|^[\t\r]"
_NUMBER = re.compile(r"\s*[+-]?(\d+([.,'\u00a0\u202f ]\d+)*[.,]?|[.,]\d+)([eE][+-]?\d+)?\s*%?\s*|[-+ ]+")  # or a dash
_XLSX_ROWS, _XLSX_CELL = 1_048_576, 32_767
_XLSX_ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def guard_formula(cell: str) -> str:
    """Put one apostrophe before a cell that a spreadsheet would run as a formula; a plain number stays."""
    if re.match(_FORMULA, cell) and not _NUMBER.fullmatch(cell):
        return "'" + cell
    return cell


def guard_table(table: pd.DataFrame) -> pd.DataFrame:
    """Guard every cell and every column name; the table given is not changed."""
    guarded = table.copy(deep=False)
    for name in guarded.columns:
        risky = guarded[name].str.contains(_FORMULA, regex=True).to_numpy(bool)
        if risky.any():
            cells = guarded[name].to_numpy(dtype=object, copy=True)
            cells[risky] = [guard_formula(cell) for cell in cells[risky]]
            guarded[name] = pd.array(cells, dtype="str")
    return guarded.set_axis(unique_names(guard_formula(name) for name in guarded.columns), axis=1)


def table_bytes(table: pd.DataFrame, file_format: str, *, guard: bool = True, bom: bool = False) -> bytes:
    """Write the table in one of ``FORMATS``; ``bom`` marks a CSV as UTF-8 for Excel.

    Parquet and JSONL are not opened by spreadsheets as formulas and are never guarded.
    """
    if guard and file_format in ("csv", "tsv", "xlsx"):
        table = guard_table(table)
    match file_format:
        case "csv" | "tsv":
            return _delimited(table, "," if file_format == "csv" else "\t").encode("utf-8-sig" if bom else "utf-8")
        case "xlsx":
            return _xlsx(table)
        case "parquet":
            buffer = io.BytesIO()
            table.to_parquet(buffer, index=False)
            return buffer.getvalue()
        case "jsonl":
            return table.to_json(orient="records", lines=True, force_ascii=False).encode()
    raise BadInput(f"“{file_format}” is none of the formats that can be written: {', '.join(FORMATS)}.")


def check_fits(table: pd.DataFrame, file_format: str) -> None:
    """Refuse, in words, a table that a workbook cannot hold; every other format holds anything."""
    if file_format != "xlsx":
        return
    if len(table) + 1 > _XLSX_ROWS:
        raise BadInput(f"An Excel sheet holds {_XLSX_ROWS - 1:,} rows and this table has {len(table):,}: take the CSV.")
    if any(int(table[name].str.len().max() or 0) > _XLSX_CELL for name in table.columns):
        raise BadInput(f"An Excel cell holds {_XLSX_CELL:,} characters and this table has longer texts: take the CSV.")


def format_of(path: Path) -> str:
    """Tell the format by the file's ending."""
    ending = path.suffix.lower().lstrip(".")
    if ending not in FORMATS:
        raise BadInput(f"“{path.name}” must end in one of: {', '.join('.' + name for name in FORMATS)}.")
    return ending


def _delimited(table: pd.DataFrame, separator: str) -> str:
    buffer = io.StringIO(newline="")
    # With \r\n as line end the writer also quotes cells that hold a carriage return alone.
    writer = csv.writer(buffer, delimiter=separator, lineterminator="\r\n")
    writer.writerow(table.columns)
    writer.writerows(zip(*(table[name].to_list() for name in table.columns), strict=True))
    return buffer.getvalue()


def _xlsx(table: pd.DataFrame) -> bytes:
    """Write every cell as text; a workbook has limits of its own, which are stated rather than hit."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    check_fits(table, "xlsx")
    book = Workbook(write_only=True)
    sheet = book.create_sheet("labelled")
    rows = zip(*(table[name].to_list() for name in table.columns), strict=True)
    for row in [tuple(table.columns), *rows]:
        cells = []
        for value in row:
            cell = WriteOnlyCell(sheet)
            cell.data_type = "s"
            cell._value = _XLSX_ILLEGAL.sub("�", value)
            cells.append(cell)
        sheet.append(cells)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()
