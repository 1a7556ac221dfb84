"""Delimited text becomes columns of text: streamed, ragged rows and odd line ends included."""

import io
from collections.abc import Iterator
from itertools import chain, islice, zip_longest
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from core.errors import BadInput
from core.tables.dialect import Dialect, find_dialect
from core.tables.encoding import is_utf8
from core.tables.names import unique_names

pa.set_memory_pool(pa.system_memory_pool())  # Arrow's own keeps half as much again for later use

_CHUNK_ROWS = 20_000
_LONE_RETURN = "\ufdd0"  # stands for a carriage return inside a cell; Unicode promises it is never text


def read_delimited(data: bytes, known: dict[str, Any]) -> tuple[pd.DataFrame, Dialect, list[str]]:
    """Read a CSV or its like; also return how it is written and what was odd about it."""
    dialect = find_dialect(data, **known)
    try:
        lines = _Lines(data, dialect)
        rows = dialect.reader(lines)
        titles = ["".join(row).strip() for row in islice(rows, dialect.skip)]
        frame, notes = frame_from_rows(rows, dialect.header)
    except UnicodeError as fault:
        raise BadInput(f"The file cannot be read as {dialect.encoding}: {fault}.") from fault
    if any(titles):
        notes.append(
            f"{len(titles):,} lines above the table were passed over: {' / '.join(filter(None, titles))[:200]}"
        )
    if lines.returns:
        frame.columns = [name.replace(_LONE_RETURN, "\r") for name in frame.columns]
        cells = [name for name in frame.columns if frame[name].str.contains(_LONE_RETURN, regex=False).any()]
        frame[cells] = frame[cells].apply(lambda column: column.str.replace(_LONE_RETURN, "\r", regex=False))
    if lines.damaged:
        notes.append(f"{lines.damaged:,} bytes are not valid {dialect.encoding} and show as �.")
    return frame, dialect, notes


class _Lines:
    """The lines of a file, decoded piece by piece, with the oddities counted that would break cells."""

    def __init__(self, data: bytes, dialect: Dialect) -> None:
        """Remember the bytes; nothing is decoded before iteration."""
        self.data, self.dialect = data, dialect
        self.damaged = 0
        self.returns = False

    def __iter__(self) -> Iterator[str]:
        """Yield lines with their ends; where lines end in a newline, a carriage return alone is just a character."""
        alone = self.dialect.line_end != "\r"
        stream = io.TextIOWrapper(
            io.BytesIO(self.data), self.dialect.encoding, errors="replace", newline="\n" if alone else ""
        )
        return iter(stream) if self._is_plain() else self._watched(stream, alone)

    def _is_plain(self) -> bool:
        """Say whether there is nothing to watch for, which lets the lines pass three times as fast."""
        if self.dialect.encoding not in ("utf-8", "utf-8-sig") or b"\xef\xbf\xbd" in self.data:
            return False
        return self.data.count(b"\r") == self.data.count(b"\r\n") and is_utf8(self.data)

    def _watched(self, stream: io.TextIOWrapper, alone: bool) -> Iterator[str]:
        for line in stream:
            if "\ufffd" in line:
                self.damaged += line.count("\ufffd")
            if alone and "\r" in line:
                if line.endswith("\r\r\n"):
                    line = line.rstrip("\r\n") + "\r\n"
                body = line[:-2] if line.endswith("\r\n") else line
                if "\r" in body:
                    self.returns = True
                    line = body.replace("\r", _LONE_RETURN) + line[len(body) :]
            yield line


def frame_from_rows(rows: Iterator[list[str]], header: bool) -> tuple[pd.DataFrame, list[str]]:
    """Collect rows of any width into columns of text, in chunks so that memory stays near the file's size.

    A blank line is an empty cell in a file of one column (unless only blank lines follow) and nothing in a wider one.
    """
    first = next((row for row in rows if any(cell.strip() for cell in row)), [])
    width = len(first)
    rows = rows if header else chain([first], rows)
    blank = short = long = 0
    chunks: list[list[pa.Array]] = []
    while piece := list(islice(rows, _CHUNK_ROWS)):
        lines = len(piece)
        piece = [row or [""] for row in piece] if width == 1 else [row for row in piece if row]
        blank += lines - len(piece)
        widths = np.fromiter(map(len, piece), np.int64, len(piece))
        short += int((widths < width).sum())
        long += int((widths > width).sum())
        chunks.append([pa.array(column, pa.large_string()) for column in zip_longest(*piece, fillvalue="")])
    names = first if header else [""] * width
    rows_read = sum(len(chunk[0]) for chunk in chunks if chunk)
    if header and rows_read and long == rows_read and _has_row_names(chunks, width):
        names, long = ["", *names], 0  # as R writes tables: the first column has no name
    frame = _assemble(names, chunks)
    if width == 1:
        frame = frame.iloc[: int(np.flatnonzero((frame != "").any(axis=1)).max(initial=-1)) + 1]
    return frame, _raggedness(blank, short, long)


def _has_row_names(chunks: list[list[pa.Array]], width: int) -> bool:
    """Say whether rows that are all one longer than the header are so because their first cell has no name."""
    same = all(len(chunk) == width + 1 for chunk in chunks if chunk)
    return same and any(cell.as_py() for chunk in chunks[:1] for cell in chunk[-1][:1_000])


def _raggedness(blank: int, short: int, long: int) -> list[str]:
    notes = []
    if blank:
        notes.append(f"{blank:,} blank lines were passed over.")
    if short:
        notes.append(f"{short:,} rows have fewer cells than the first; the missing ones are empty.")
    if long:
        notes.append(f"{long:,} rows have more cells than the first; the extra ones are in columns of their own.")
    return notes


def _assemble(names: list[str], chunks: list[list[pa.Array]]) -> pd.DataFrame:
    """Join chunks of possibly different width, the missing cells empty."""
    width = max([len(names), *map(len, chunks)])
    columns = []
    for position in range(width):
        pieces = [
            chunk[position] if position < len(chunk) else pa.array([""] * len(chunk[0]), pa.large_string())
            for chunk in chunks
            if chunk
        ]
        columns.append(pa.chunked_array(pieces, pa.large_string()))
    return pa.table(columns, names=unique_names(names + [""] * (width - len(names)))).to_pandas()
