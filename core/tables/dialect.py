"""How a delimited text file is written: encoding, separator, quote character, line ends, header row."""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from core.errors import BadInput
from core.tables.encoding import check_encoding, find_encoding
from core.tables.header import has_header, title_rows

SEPARATORS = (",", ";", "\t", "|")
ONE_COLUMN = ""  # as a separator: the file has none, every line is one cell
LINE_ENDS = ("\n", "\r\n", "\r")
SAMPLE_BYTES = 512 * 1024
_QUOTINGS = (('"', ""), ('"', "\\"), ("'", ""), ("'", "\\"), ("", ""))
_LEAST_AGREEMENT = 0.6  # below this share of equally wide rows a file is one column of prose, not a table
csv.field_size_limit(2**31 - 1)  # a cell may be as long as the file: the default of 128 KB breaks real articles


@dataclass(frozen=True)
class Dialect:
    """What was found in a delimited file, or what the person says it is."""

    encoding: str
    separator: str
    quote: str
    escape: str
    line_end: str
    header: bool = True
    skip: int = 0

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Split lines into cells; a quote character of "" means that quotes are ordinary characters."""
        if self.escape:
            # Only an escaped quote is undone: every other backslash is part of somebody's text.
            escaped, doubled = re.compile(rf"(?<!\\)\\{self.quote}"), self.quote * 2
            lines = (escaped.sub(doubled, line) for line in lines)
        return csv.reader(
            iter(lines),
            delimiter=self.separator or "\x1f",
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
        )


def find_dialect(data: bytes, **known: object) -> Dialect:
    """Find how a file is written, keeping whatever is already known (as corrected by the person)."""
    encoding = check_encoding(str(known["encoding"])) if known.get("encoding") else find_encoding(data)
    text, cut = _sample(data, encoding)
    line_end = str(known.get("line_end") or find_line_end(text))
    announced = re.match(r"\ufeff?sep=(.)\r?\n", text)  # Excel's own way of saying it
    if announced:
        text = text[announced.end() :]
        known = {"separator": announced[1], **known}
    separator, quote, escape = _find_separator_and_quote(text, cut, known)
    if quote == '"' and known.get("quote") is None and _quotes_are_stray(data, encoding, separator):
        quote = escape = ""
    dialect = Dialect(encoding, separator, quote, escape, line_end)
    rows = _rows(text, dialect, cut)
    titles = title_rows(rows)
    header = known.get("header")
    header = has_header(rows[titles:]) if header is None else bool(header)
    return replace(dialect, header=header, skip=bool(announced) + (titles if header else 0))


def _quotes_are_stray(data: bytes, encoding: str, separator: str) -> bool:
    """Say whether cells open with a quote that hardly ever closes: inches and speech, not quoting."""
    if b'"' not in data:
        return False
    plain = {"utf-16": "utf-16-le", "utf-8-sig": "utf-8", "utf-32": "utf-32-le"}.get(encoding, encoding)
    borders = [mark for mark in (separator, "\n", "\r") if mark]
    opened = sum(data.count((mark + '"').encode(plain)) for mark in borders)
    closed = sum(data.count(('"' + mark).encode(plain)) for mark in borders if mark != "\n")
    closed += data.count('"\n'.encode(plain))
    return opened > 0 and closed < 0.5 * opened


def find_line_end(text: str) -> str:
    """Name the line end that most lines have."""
    windows = text.count("\r\n")
    counts = {"\n": text.count("\n") - windows, "\r\n": windows, "\r": text.count("\r") - windows}
    return max(LINE_ENDS, key=lambda end: counts[end])


def _sample(data: bytes, encoding: str) -> tuple[str, bool]:
    """Decode the beginning of the file; also say whether it was cut short."""
    cut = len(data) > SAMPLE_BYTES
    try:
        return codecs.getincrementaldecoder(encoding)("replace").decode(data[:SAMPLE_BYTES], final=not cut), cut
    except UnicodeError as fault:
        raise BadInput(f"The file cannot be read as {encoding}: {fault}.") from None


def _find_separator_and_quote(text: str, cut: bool, known: dict[str, object]) -> tuple[str, str, str]:
    """Try every separator with every way of quoting and keep the one whose rows are equally wide."""
    given = known.get("separator")
    separators = SEPARATORS if given is None else (str(given),)
    quotings = [item for item in _QUOTINGS if known.get("quote") in (None, item[0])]
    best, best_score = (ONE_COLUMN, "", ""), -1.0
    for separator in separators:
        trials = [
            _trial(text, cut, separator, quote, escape)
            for quote, escape in quotings
            if not escape or _escapes(text, quote, separator)
        ]
        chosen = trials[0]
        for trial in trials[1:]:
            # Other quotings must earn it: they win only where the usual one breaks rows or swallows lines.
            unneeded = trial.quote == "" and trial.agreement >= chosen.agreement and chosen.swallows
            escaped = bool(trial.escape) and trial.quote == chosen.quote and trial.agreement >= chosen.agreement
            if trial.agreement > chosen.agreement + 0.002 or (unneeded and not trial.quoted) or escaped:
                chosen = trial
        if chosen.score > best_score:
            best, best_score = (separator, chosen.quote, chosen.escape), chosen.score
    if given is not None and given != ONE_COLUMN or best_score >= _LEAST_AGREEMENT:
        return best
    return ONE_COLUMN, str(known["quote"]) if known.get("quote") is not None else _one_column_quote(text), ""


def _escapes(text: str, quote: str, separator: str) -> bool:
    """Say whether quotes inside cells are written with a backslash, and never doubled."""
    border = re.escape(separator) + r"\r\n"
    escaped = re.search(rf"[^{border}]\\{quote}[^{border}]", text)
    doubled = re.search(rf"[^{border}{quote}\\]{quote}{quote}[^{border}{quote}]", text)
    return bool(escaped) and not doubled


def _one_column_quote(text: str) -> str:
    """Quotes around whole cells are quoting; quotes at the start of a sentence are part of it."""
    lines = re.split(r"\r\n|\n|\r", text)
    opened = sum(line.startswith('"') for line in lines)
    closed = sum(len(line) > 1 and line.rstrip().endswith('"') for line in lines)
    return '"' if 0.9 * opened <= closed else ""


@dataclass(frozen=True)
class _Trial:
    """How well one separator and quote character fit the sample."""

    quote: str
    escape: str
    agreement: float
    score: float
    swallows: bool
    quoted: bool


def _trial(text: str, cut: bool, separator: str, quote: str, escape: str) -> _Trial:
    rows = [row for row in _rows(text, Dialect("", separator, quote, escape, ""), cut) if row]
    widths = Counter(map(len, rows))
    width, count = widths.most_common(1)[0] if widths else (1, 0)
    agreement = count / max(len(rows), 1)
    cells = [cell for row in rows[:200] for cell in row]
    swallows = any("\n" in cell or "\r" in cell for row in rows for cell in row)
    quoted = any(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells)
    if width == 1:
        return _Trial(quote, escape, agreement, 0.0, swallows, quoted)
    prose = separator == "," and text.count(", ") > 0.9 * text.count(",")
    first = len(rows[min(title_rows(rows), len(rows) - 1)] if not prose else rows[0])
    fit = 1.0 if first == width else 0.5 if first == 1 else 0.9
    strangers = [other for other in SEPARATORS if other not in (separator, ",")]
    clean = sum(not any(other in cell for other in strangers) for cell in cells) / max(len(cells), 1)
    return _Trial(quote, escape, agreement, agreement * fit * (0.7 if prose else 1) + 0.02 * clean, swallows, quoted)


def _rows(text: str, dialect: Dialect, cut: bool) -> list[list[str]]:
    try:
        rows = list(dialect.reader(iter(io.StringIO(text, newline=""))))
    except csv.Error:
        return []
    rows = [row for row in rows if row]
    return rows[:-1] if cut and len(rows) > 1 else rows
