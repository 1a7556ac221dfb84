"""How a delimited text file is written: encoding, separator, quote character, line ends, header row."""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from core.errors import BadInput

ENCODINGS = (
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "cp1252",
    "latin-1",
    "mac-roman",
    "cp1250",
    "cp1251",
    "shift_jis",
    "gb18030",
    "big5",
    "euc-kr",
)
SEPARATORS = (",", ";", "\t", "|")
ONE_COLUMN = ""  # as a separator: the file has none, every line is one cell
LINE_ENDS = ("\n", "\r\n", "\r")
SAMPLE_BYTES = 512 * 1024
_QUOTINGS = (('"', ""), ("'", ""), ("", ""), ('"', "\\"))
_LEAST_AGREEMENT = 0.6  # below this share of equally wide rows a file is one column of prose, not a table
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HEADER_WORDS = frozenset(
    "text texts message messages comment comments review reviews title body content description answer question label "
    "labels category class topic theme id date time created name rating score user lang language url v1 v2".split()
)

csv.field_size_limit(2**31 - 1)  # a cell may be as long as the file: the default of 128 KB breaks real articles


@dataclass(frozen=True)
class Dialect:
    """What was found in a delimited file, or what the person says it is."""

    encoding: str
    separator: str
    quote: str
    escape: str
    line_end: str
    header: bool

    def reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Split lines into cells; a quote character of "" means that quotes are ordinary characters."""
        return csv.reader(
            lines,
            delimiter=self.separator or "\x1f",
            quotechar=self.quote or None,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            escapechar=self.escape or None,
        )


def find_dialect(data: bytes, **known: object) -> Dialect:
    """Find how a file is written, keeping whatever is already known (as corrected by the person)."""
    encoding = str(known.get("encoding") or find_encoding(data))
    text, cut = _sample(data, encoding)
    line_end = str(known.get("line_end") or find_line_end(text))
    separator, quote, escape = _find_separator_and_quote(text, cut, known)
    dialect = Dialect(encoding, separator, quote, escape, line_end, header=True)
    header = known.get("header")
    if header is None:
        header = has_header(_rows(text, dialect, cut))
    return Dialect(encoding, separator, quote, escape, line_end, bool(header))


def find_encoding(data: bytes) -> str:
    """Name the encoding: a byte-order mark, zero bytes, valid UTF-8, and only then the Western code pages."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return name
    head = data[:4096]
    if len(head) >= 4 and head.count(0):
        even, odd = head[::2].count(0), head[1::2].count(0)
        if odd > len(head) * 0.2 and odd > 4 * even and not _is_binary(head.decode("utf-16-le", "replace")):
            return "utf-16-le"
        if even > len(head) * 0.2 and even > 4 * odd and not _is_binary(head.decode("utf-16-be", "replace")):
            return "utf-16-be"
    if _is_binary(head.decode("latin-1")):
        raise BadInput("This file is not a table of text: it holds binary data.")
    if _is_utf8(data):
        return "utf-8"
    good, bad = _utf8_counts(data)
    if bad * 4 <= good:  # a cut or glued file: a few broken characters among many sound ones
        return "utf-8"
    if any(byte in data for byte in (b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d")):
        return "latin-1"  # cp1252 has no character there
    has_c1 = any(bytes([byte]) in data for byte in range(0x80, 0xA0))
    return "cp1252" if has_c1 else "latin-1"


def _is_binary(text: str) -> bool:
    """Say whether there are more control characters than text ever has."""
    return len(re.findall(r"[\x00-\x08\x0e-\x19\x1b-\x1f]", text)) > 0.02 * max(len(text), 1)


def _pieces(data: bytes) -> Iterator[bytes]:
    """Cut a large file so that no check needs one large string."""
    return (data[start : start + (1 << 20)] for start in range(0, len(data), 1 << 20))


def _is_utf8(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in _pieces(data):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _utf8_counts(data: bytes) -> tuple[int, int]:
    """Count non-ASCII characters that are valid UTF-8, and those that are not."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    good = bad = 0
    for piece in _pieces(data):
        strange = re.sub(r"[\x00-\x7f]+", "", decoder.decode(piece))
        bad += strange.count("\ufffd")
        good += len(strange) - strange.count("\ufffd")
    return good, bad


def find_line_end(text: str) -> str:
    """Name the line end that most lines have."""
    windows = text.count("\r\n")
    counts = {"\n": text.count("\n") - windows, "\r\n": windows, "\r": text.count("\r") - windows}
    return max(LINE_ENDS, key=lambda end: counts[end])


def has_header(rows: list[list[str]]) -> bool:
    """Decide whether the first row names the columns.

    Names are short, differ from each other and do not turn up again below; a number, a sentence or a value
    that its own column repeats is data.
    """
    if len(rows) < 2:
        return bool(rows) and all(_could_be_name(cell) for cell in rows[0])
    first, below = rows[0], rows[1:]
    named = [cell.strip() for cell in first if cell.strip()]
    if not named or not all(_could_be_name(cell) for cell in named):
        return False
    if any(cell.lower() in _HEADER_WORDS for cell in named):
        return True
    if len(first) == 1:
        typical = sorted(len(row[0]) for row in below if row)[len(below) // 2]
        return len(named[0]) <= 30 and len(named[0].split()) <= 3 and len(named[0]) * 2 < typical
    for column, cell in enumerate(first):
        values = [row[column] for row in below if len(row) > column]
        if cell.strip() and cell in values:
            return False
    return True


def _could_be_name(cell: str) -> bool:
    text = cell.strip()
    number = re.fullmatch(r"[-+]?[\d.,:/ -]*\d[\d.,:/ -]*%?", text)
    return len(text) <= 60 and len(text.split()) <= 8 and not number and "\n" not in text


def _sample(data: bytes, encoding: str) -> tuple[str, bool]:
    """Decode the beginning of the file; also say whether it was cut short."""
    cut = len(data) > SAMPLE_BYTES
    try:
        return codecs.getincrementaldecoder(encoding)("replace").decode(data[:SAMPLE_BYTES], final=not cut), cut
    except LookupError:
        raise BadInput(f"“{encoding}” is not an encoding this machine knows.") from None


def _find_separator_and_quote(text: str, cut: bool, known: dict[str, object]) -> tuple[str, str, str]:
    """Try every separator with every way of quoting and keep the one whose rows are equally wide."""
    given = known.get("separator")
    separators = SEPARATORS if given is None else (str(given),)
    quotings = _QUOTINGS if known.get("quote") is None else ((str(known["quote"]), ""),)
    best, best_score = (ONE_COLUMN, "", ""), -1.0
    for separator in separators:
        trials = [_trial(text, cut, separator, *quoting) for quoting in quotings if not quoting[1] or '\\"' in text]
        chosen = trials[0]
        for trial in trials[1:]:
            # Other quotings must earn it: they win only where the usual one breaks rows or swallows lines.
            unneeded = trial.quote == "" and trial.agreement >= chosen.agreement and chosen.swallows
            if trial.agreement > chosen.agreement + 0.002 or (unneeded and not trial.quoted):
                chosen = trial
        if chosen.score > best_score:
            best, best_score = (separator, chosen.quote, chosen.escape), chosen.score
    if given is not None and given != ONE_COLUMN or best_score >= _LEAST_AGREEMENT:
        return best
    return ONE_COLUMN, str(known["quote"]) if known.get("quote") is not None else _one_column_quote(text), ""


def _one_column_quote(text: str) -> str:
    """Quotes around whole lines are quoting; quotes at the start of a sentence are part of it."""
    opened = [line for line in re.split(r"\r\n|\n|\r", text) if line.startswith('"')]
    closed = sum(len(line) > 1 and line.rstrip().endswith('"') for line in opened)
    return '"' if closed >= 0.9 * len(opened) else ""


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
    rows = [row for row in _rows(text, Dialect("", separator, quote, escape, "", True), cut) if row]
    widths = Counter(map(len, rows))
    width, count = widths.most_common(1)[0] if widths else (1, 0)
    agreement = count / max(len(rows), 1)
    cells = [cell for row in rows[:200] for cell in row]
    swallows = any("\n" in cell or "\r" in cell for row in rows for cell in row)
    quoted = any(len(cell) > 1 and cell[0] == cell[-1] == '"' for cell in cells)
    if width == 1:
        return _Trial(quote, escape, agreement, 0.0, swallows, quoted)
    first = len(rows[0])
    fit = 1.0 if first == width else 0.5 if first == 1 else 0.9
    strangers = [other for other in SEPARATORS if other not in (separator, ",")]
    clean = sum(not any(other in cell for other in strangers) for cell in cells) / max(len(cells), 1)
    prose = separator == "," and text.count(", ") > 0.9 * text.count(",")
    return _Trial(quote, escape, agreement, agreement * fit * (0.7 if prose else 1) + 0.02 * clean, swallows, quoted)


def _rows(text: str, dialect: Dialect, cut: bool) -> list[list[str]]:
    try:
        rows = list(dialect.reader(iter(io.StringIO(text, newline=""))))
    except csv.Error:
        return []
    rows = [row for row in rows if row]
    return rows[:-1] if cut and len(rows) > 1 else rows
