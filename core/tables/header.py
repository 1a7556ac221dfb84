"""Whether the first row names the columns, and what stands above it."""

import re

_HEADER_WORDS = frozenset(
    "text texts message messages comment comments review reviews title body content description answer question label "
    "labels category class topic theme id date time created name rating score user lang language url v1 v2".split()
)


def title_rows(rows: list[list[str]]) -> int:
    """Count the rows on top that hold at most one filled cell above a table that has more: titles, remarks, blanks."""
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows[:200]]
    typical = sorted(filled)[len(filled) // 2] if filled else 0
    count = 0
    while typical >= 2 and count < min(20, len(filled) - 1) and filled[count] <= 1:
        count += 1
    return count


def has_header(rows: list[list[str]]) -> bool:
    """Decide whether the first row names the columns, by weighing what each column says.

    A name is short, differs in kind from what stands below it and does not turn up again there; a survey's question
    is long, but longer than its answers.
    """
    if not rows or not any(cell.strip() for cell in rows[0]):
        return False
    if len(rows) == 1:
        return all(_could_be_name(cell) for cell in rows[0])
    if len(rows[0]) == 1:
        return _names_one_column(rows[0][0].strip(), [row[0] for row in rows[1:] if row])
    evidence = 0.0
    for column, cell in enumerate(rows[0]):
        below = [row[column].strip() for row in rows[1:500] if len(row) > column and row[column].strip()]
        if cell.strip() and below:
            evidence += _names(cell.strip(), below)
    return evidence > 0


def _names(cell: str, below: list[str]) -> float:
    """Weigh whether a cell names the column below it: positive for yes."""
    numbers = sum(map(_is_number, below)) / len(below)
    if _is_number(cell):
        return -0.5 if numbers > 0.5 else 0.0
    if cell.lower() in _HEADER_WORDS or numbers > 0.8:
        return 2.0
    if cell in below:
        return -2.0
    typical = sorted(map(len, below))[len(below) // 2]
    if _could_be_name(cell):
        return 1.0 if typical >= 3 * len(cell) else 0.5
    return 0.5 if typical < 0.5 * len(cell) or cell.endswith("?") else -1.5


def _names_one_column(cell: str, below: list[str]) -> bool:
    if cell.lower() in _HEADER_WORDS:
        return True
    if not _could_be_name(cell) or len(cell) > 30 or cell in below:
        return False
    typical = sorted(map(len, below))[len(below) // 2]
    return len(cell.split()) == 1 and cell[-1] not in ".!?" or len(cell.split()) <= 3 and 2 * len(cell) < typical


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[-+]?[\d.,:/ T-]*\d[\d.,:/ TZ-]*%?", text))


def _could_be_name(cell: str) -> bool:
    text = cell.strip()
    return len(text) <= 60 and len(text.split()) <= 8 and not _is_number(text) and "\n" not in text
