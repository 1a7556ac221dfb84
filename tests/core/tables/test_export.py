"""The export: safe in a spreadsheet by default, equal cell by cell when told so."""

import io

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadInput
from core.tables import read_table
from core.tables.export import guard_formula, table_bytes


@pytest.mark.parametrize(
    "cell", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "-item", "＝1+1", "+49 tel"]
)
def test_formulas_get_one_apostrophe(cell: str) -> None:
    assert guard_formula(cell) == "'" + cell


@pytest.mark.parametrize(
    "cell",
    [
        "-5",
        "+3.25",
        "-1,234.50",
        "-1.5e-7",
        "-12 %",
        "hello",
        "",
        "a=b",
        "1-2",
        "'=1",
        "-.5",
        "-",
        "--",
        "-5.",
        "-1\u00a0000",
        "+ ",
    ],
)
def test_numbers_and_words_stay(cell: str) -> None:
    assert guard_formula(cell) == cell


TABLE = pd.DataFrame({"a": ["=1", "x\ny", 'q"q', ""], "=b": ["-5", "a,b", "ü\r", "z"]}, dtype="str")


@pytest.mark.parametrize("file_format", ["csv", "tsv", "xlsx", "parquet", "jsonl"])
def test_without_the_guard_every_cell_is_equal(file_format: str) -> None:
    data = table_bytes(TABLE, file_format, guard=False)
    frame = read_table(data, f"t.{file_format}", header=True).frame
    assert frame.columns.tolist() == TABLE.columns.tolist()
    assert frame.to_numpy().tolist() == TABLE.to_numpy().tolist()


def test_with_the_guard_names_and_cells_are_safe_and_the_table_is_unchanged() -> None:
    frame = pd.read_csv(io.BytesIO(table_bytes(TABLE, "csv", bom=True)), dtype=str, keep_default_na=False)
    assert frame.columns.tolist() == ["a", "'=b"]
    assert frame["a"].tolist() == ["'=1", "x\ny", 'q"q', ""]
    assert frame["'=b"].tolist()[0] == "-5"
    assert TABLE["a"].iloc[0] == "=1"


CELLS = st.lists(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00")), min_size=2, max_size=2)


@settings(max_examples=100, deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=8))
def test_csv_round_trip(rows: list[list[str]]) -> None:
    table = pd.DataFrame(rows, columns=["text", "label"], dtype="str")
    import csv

    text = table_bytes(table, "csv", guard=False).decode()
    assert list(csv.reader(io.StringIO(text, newline="")))[1:] == rows


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(BadInput):
        table_bytes(TABLE, "docx")
