"""The corpus: a table, the column to read, and which rows can be used and why the others cannot."""

import re
import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from core.errors import BadInput
from core.tables import free_name

EMPTY, NOT_TEXT, DUPLICATE, UNREAD = "empty", "not text", "exact duplicate", "nothing the encoder can read"
NEW_COLUMNS = ("cluster", "cluster_name", "probability", "x", "y")
_NOTHING = ("nan", "NaN", "null", "NULL", "N/A", "n/a", "#N/A", "<NA>")
_LETTER = r"[^\W\d_]"
_GUESS_ROWS = 2_000
_LOOKED_AT_ONCE = 50_000


@dataclass(frozen=True)
class Corpus:
    """A table as it was read, with roles given to some of its columns. The table itself is never changed."""

    table: pd.DataFrame
    text: str
    label: str | None = None
    time: str | None = None
    id: str | None = None
    drop_duplicates: bool = False
    unread: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Refuse columns that the table does not have."""
        for column in (self.text, self.label, self.time, self.id):
            if column is not None and column not in self.table.columns:
                raise BadInput(f"There is no column “{column}”; the table has {_listed(self.table.columns)}.")

    @property
    def roles(self) -> tuple[str | bool | None, ...]:
        """What the columns are used for."""
        return self.text, self.label, self.time, self.id, self.drop_duplicates

    @cached_property
    def reasons(self) -> pd.Series:
        """For every row the reason it is left out, or an empty text where it is used."""
        cells = self.table[self.text]
        reasons = np.full(len(cells), "", dtype=object)
        if self.drop_duplicates:
            reasons[cells.duplicated().to_numpy()] = DUPLICATE
        for start in range(0, len(cells), _LOOKED_AT_ONCE):  # in pieces: a copy of all texts would double the memory
            piece, stripped = (
                reasons[start : start + _LOOKED_AT_ONCE],
                cells.iloc[start : start + _LOOKED_AT_ONCE].str.strip(),
            )
            piece[~stripped.str.contains(_LETTER, regex=True).to_numpy(bool)] = NOT_TEXT
            piece[((stripped == "") | stripped.isin(_NOTHING)).to_numpy(bool)] = EMPTY
        reasons[list(self.unread)] = UNREAD
        return pd.Series(reasons)

    @cached_property
    def used(self) -> np.ndarray:
        """Positions of the rows that take part."""
        return np.flatnonzero((self.reasons == "").to_numpy())

    @cached_property
    def texts(self) -> list[str]:
        """The texts that take part, in their order."""
        return self.table[self.text].iloc[self.used].to_list()

    @property
    def left_out(self) -> dict[str, int]:
        """How many rows are left out, by reason."""
        reasons = self.reasons[self.reasons != ""]
        return {str(reason): int(count) for reason, count in reasons.value_counts().items()}

    def view(self, column: str) -> list[str]:
        """Return another wording of the texts from another column; an empty cell is the text itself."""
        if column not in self.table.columns:
            raise BadInput(f"There is no column “{column}”; the table has {_listed(self.table.columns)}.")
        if column == self.label:
            raise BadInput(f"The column “{column}” holds the true labels, which no training may see.")
        cells = self.table[column].iloc[self.used].to_list()
        return [cell if cell.strip() else text for cell, text in zip(cells, self.texts, strict=True)]

    def truth(self) -> np.ndarray | None:
        """Return the true labels of the used rows, for measuring only; blank cells are blank texts."""
        if self.label is None:
            return None
        return self.table[self.label].iloc[self.used].str.strip().to_numpy(dtype=object)

    def labelled(
        self, labels: np.ndarray, names: list[str], probability: np.ndarray, points: np.ndarray
    ) -> pd.DataFrame:
        """Return all rows in their order with five more columns of text; a row left out has its reason as name."""
        rows = len(self.table)
        clustered = labels >= 0
        columns = {name: np.full(rows, "", dtype=object) for name in NEW_COLUMNS}
        columns["cluster_name"][:] = [f"left out: {reason}" if reason else "" for reason in self.reasons]
        inside = self.used[clustered]
        columns["cluster"][inside] = [str(label) for label in labels[clustered]]
        columns["cluster_name"][inside] = [names[label] for label in labels[clustered]]
        columns["probability"][inside] = [f"{value:.4f}" for value in probability[clustered]]
        for axis, name in enumerate("xy"):
            columns[name][self.used] = [f"{value:.4f}" for value in points[:, axis]]
        result = self.table.copy(deep=False)
        for name, cells in columns.items():
            result[free_name(name, result.columns)] = pd.array(cells, dtype="str")
        return result


def guess_text(table: pd.DataFrame) -> str:
    """Guess the column a person wants read: long, varied cells made of several words."""
    return max(table.columns, key=lambda name: _prose_score(pd.Series(table[name].head(_GUESS_ROWS))))


def _prose_score(cells: pd.Series) -> float:
    filled = cells[cells.str.strip() != ""]
    if filled.empty:
        return -1.0
    words = filled.str.count(r"[^\W\d_]{2,}").clip(upper=60).mean()
    return float(words * filled.nunique() / len(filled) * (len(filled) / len(cells)) ** 0.5)


def guess_label(table: pd.DataFrame, text: str) -> str | None:
    """Offer a column of true classes only where its name says so: a wrong guess would show wrong figures."""
    for name in table.columns:
        known = re.fullmatch(r"(true[ _])?(labels?|class|category|categories|theme|topic)", name.strip().lower())
        if name != text and known and 2 <= table[name].head(10 * _GUESS_ROWS).nunique() <= len(table) / 2:
            return str(name)
    return None


def guess_time(table: pd.DataFrame, text: str) -> str | None:
    """Offer the first column whose cells are nearly all dates."""
    for name in table.columns:
        cells = table[name].head(200)
        cells = cells[cells.str.strip() != ""]
        if name == text or cells.empty or not cells.str.contains(r"\d[-/.: ]\w", regex=True).mean() > 0.9:
            continue
        if as_times(cells).notna().mean() > 0.9:
            return str(name)
    return None


def guess_id(table: pd.DataFrame, text: str) -> str | None:
    """Offer a column that is called an id and does not repeat as far as one looks."""
    for name in table.columns:
        called = re.fullmatch(r"(.*[ _-])?(id|key|nr|no|number)", name.strip().lower())
        if name != text and called and table[name].head(10 * _GUESS_ROWS).is_unique:
            return str(name)
    return None


def as_times(cells: pd.Series) -> pd.Series:
    """Read cells as moments; what cannot be read becomes missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pd.to_datetime(cells, errors="coerce", format="mixed", utc=True)


def _listed(names: pd.Index) -> str:
    shown = ", ".join(f"“{name}”" for name in names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
