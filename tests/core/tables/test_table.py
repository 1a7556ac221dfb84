"""The reader: any table comes in whole, whatever it is written like."""

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import BadInput
from core.tables import read_table
from core.tables.encoding import find_encoding
from core.tables.names import unique_names

ROWS = [
    ["id", "text", "group"],
    ["1", "Café was closed, again", "food"],
    ["2", "The waiter said «no»; we left", "food"],
    ["3", "She's won the match – finally", "sport"],
    ["4", "Rain | wind\tand more", "weather"],
    ["5", "Plain words here", "weather"],
]


def written(rows: list[list[str]], separator: str = ",", quote: str = '"', end: str = "\n") -> str:
    """Write rows as a delimited text."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=separator, quotechar=quote, lineterminator=end, quoting=csv.QUOTE_MINIMAL).writerows(
        rows
    )
    return buffer.getvalue()


def cells(data: bytes, name: str = "table.csv", **known: object) -> list[list[str]]:
    """Read a file back into rows, the header first."""
    frame = read_table(data, name, **known).frame
    return [list(frame.columns), *frame.to_numpy().tolist()]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_every_way_of_writing_is_found(encoding: str, separator: str, quote: str, end: str) -> None:
    data = written(ROWS, separator, quote, end).encode(encoding)
    table = read_table(data, "table.csv")
    assert [list(table.frame.columns), *table.frame.to_numpy().tolist()] == ROWS
    assert table.dialect is not None
    assert (table.dialect.separator, table.dialect.line_end, table.dialect.header) == (separator, end, True)
    assert table.dialect.encoding == encoding


def test_latin_1_is_told_from_cp1252() -> None:
    assert find_encoding("Grüße aus Köln".encode("latin-1")) == "latin-1"
    assert find_encoding("“quoted” – and €".encode("cp1252")) == "cp1252"
    assert find_encoding("a \x81 b é".encode("latin-1")) == "latin-1"


def test_a_cut_utf8_file_stays_utf8_and_says_so() -> None:
    data = written([["text"], *[[f"naïve café número {i}"] for i in range(50)]]).encode() + "é".encode()[:1]
    table = read_table(data, "cut.csv")
    assert table.dialect is not None and table.dialect.encoding == "utf-8"
    assert table.frame["text"].iloc[0] == "naïve café número 0"
    assert any("�" in note for note in table.notes)


def test_newlines_and_lone_returns_stay_inside_their_cells() -> None:
    rows = [["text", "n"], ["one\ntwo", "1"], ["three\r\nfour", "2"], ["plain", "3"]]
    assert cells(written(rows).encode()) == rows
    assert cells(b"text,n\nab\rcd,1\nef,2\n") == [["text", "n"], ["ab\rcd", "1"], ["ef", "2"]]


def test_a_quote_that_never_closes_swallows_nothing() -> None:
    lines = ["a\tb"] + [f'"inch {i} wide\tx{i}' if i % 7 == 0 else f"row {i}\tx{i}" for i in range(60)]
    table = read_table("\n".join(lines).encode(), "t.tsv")
    assert len(table.frame) == 60
    assert table.frame["a"].iloc[0] == '"inch 0 wide'


def test_one_column_of_prose_is_one_column() -> None:
    lines = [
        "Well, this is, in short, fine.",
        "No commas here.",
        "One, perhaps.",
        '"Great" she said, and left.',
        "So, yes, no, maybe.",
    ]
    assert cells("\n".join(lines).encode(), "prose.txt", header=False)[1:] == [[line] for line in lines]


def test_one_quoted_column_keeps_its_commas_and_blank_lines() -> None:
    rows = [["text"], ["yes, indeed"], ["no"], [""], ["well, well, well"]]
    assert cells(b'text\n"yes, indeed"\nno\n\n"well, well, well"\n\n\n') == rows


def test_a_file_without_header_keeps_its_first_row() -> None:
    data = "\n".join(
        f"{'good' if i % 2 else 'bad'};I think number {i} is rather long, really" for i in range(9)
    ).encode()
    table = read_table(data, "no-header.csv")
    assert list(table.frame.columns) == ["column 1", "column 2"]
    assert len(table.frame) == 9


def test_blank_and_repeated_names_are_made_distinct() -> None:
    assert unique_names(["a", "", "a", "a_2", " "]) == ["a", "column 2", "a_3", "a_2", "column 5"]


def test_ragged_rows_lose_nothing() -> None:
    table = read_table(b"id,text,tag\n1,hello\n2,world,x,extra,more\n3,end,y\n\n4,last,z\n", "ragged.csv")
    assert table.frame.to_numpy().tolist() == [
        ["1", "hello", "", "", ""],
        ["2", "world", "x", "extra", "more"],
        ["3", "end", "y", "", ""],
        ["4", "last", "z", "", ""],
    ]
    assert list(table.frame.columns) == ["id", "text", "tag", "column 4", "column 5"]
    assert len(table.notes) == 3


def test_corrections_win_over_what_is_found() -> None:
    data = b"a;b\n1;2\n3;4\n"
    assert cells(data, separator=",", header=True) == [["a;b"], ["1;2"], ["3;4"]]
    assert cells(data, header=False) == [["column 1", "column 2"], ["a", "b"], ["1", "2"], ["3", "4"]]
    with pytest.raises(BadInput, match="not an encoding"):
        read_table(data, "t.csv", encoding="nonsense")


def test_mixed_types_keep_their_spelling() -> None:
    rows = [["value", "text"], ["007", "a b"], ["1.50", "c d"], ["NaN", "e f"], ["2024-01-01", "g h"], ["TRUE", "i j"]]
    assert cells(written(rows).encode()) == rows


def test_a_workbook_is_read_as_people_see_it(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["hello there", "good day", None], "n": [5, 7, 9], "part": [0.5, 1.25, 2.0],
                          "day": pd.to_datetime(["2024-05-01", "2024-05-02", "2024-05-03"])})  # fmt: skip
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as writer:
        pd.DataFrame().to_excel(writer, sheet_name="empty", index=False)
        frame.to_excel(writer, sheet_name="data", index=False)
    table = read_table(path.read_bytes(), "book.xlsx")
    assert (table.sheet, table.sheets) == ("data", ("empty", "data"))
    assert table.frame.to_numpy().tolist() == [
        ["hello there", "5", "0.5", "2024-05-01"],
        ["good day", "7", "1.25", "2024-05-02"],
        ["", "9", "2", "2024-05-03"],
    ]
    with pytest.raises(BadInput, match="no sheet"):
        read_table(path.read_bytes(), "book.xlsx", sheet="elsewhere")


def test_parquet_and_json_lines_become_text(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pd.DataFrame({"text": ["a", None], "n": [1, 2], "f": [0.1, 2.5], "l": [[1, 2], []]}).to_parquet(path)
    assert cells(path.read_bytes(), "t.parquet") == [
        ["text", "n", "f", "l"],
        ["a", "1", "0.1", "[1, 2]"],
        ["", "2", "2.5", "[]"],
    ]
    lines = [{"text": "hello", "n": 1.50}, {"n": None, "more": {"a": True}}, {"text": "wörld"}]
    data = "\n".join(json.dumps(line) for line in lines).encode()
    expected = [["text", "n", "more"], ["hello", "1.5", ""], ["", "", '{"a": true}'], ["wörld", "", ""]]
    assert cells(data, "t.jsonl") == expected
    assert cells(json.dumps(lines, indent=1).encode(), "t.json") == expected


@pytest.mark.parametrize(
    ("data", "name", "word"),
    [
        (b"", "t.csv", "empty"),
        (b"  \n \n", "t.csv", "empty"),
        (b"text,label\n", "t.csv", "no rows"),
        (b"%PDF-1.7 ...", "t.csv", "PDF"),
        (b"\x00\x01\x02\x03" * 500, "t.csv", "binary"),
        (b"PK\x03\x04 not a workbook", "t.xlsx", "workbook"),
        (b"PAR1 not parquet", "t.parquet", "damaged"),
        (b"plain text", "t.xlsx", "not such a file"),
        (b"hello", "t.docx", "none of the files"),
        (b'{"a": 1}\n{"a": ', "t.jsonl", "line 2"),
        (b"[1, 2]", "t.json", "not an object"),
        (b"\xd0\xcf\x11\xe0 old", "t.xls", "old"),
    ],
)
def test_bad_files_are_refused_in_one_sentence(data: bytes, name: str, word: str) -> None:
    with pytest.raises(BadInput, match=word) as refusal:
        read_table(data, name)
    assert "\n" not in str(refusal.value)


CELL = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Cn")) | st.sampled_from(",;|\t\"'\n"), min_size=0, max_size=30
)
WORDY = st.text(st.sampled_from("abcdefgh ,;.'\"\n"), min_size=1, max_size=40).filter(lambda text: text.strip())


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(CELL, WORDY, CELL), min_size=1, max_size=12),
    st.sampled_from(",;\t|"),
    st.sampled_from(["\n", "\r\n"]),
)
def test_with_the_dialect_known_every_cell_survives(rows: list[tuple[str, str, str]], separator: str, end: str) -> None:
    table = [["id", "text", "label"], *map(list, rows)]
    data = written(table, separator, '"', end).encode()
    assert cells(data, encoding="utf-8", separator=separator, quote='"', line_end=end, header=True) == table


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400), st.sampled_from(["t.csv", "t.xlsx", "t.parquet", "t.jsonl", "t.tsv"]))
def test_any_bytes_are_read_or_refused(data: bytes, name: str) -> None:
    try:
        table = read_table(data, name)
    except BadInput as refusal:
        assert str(refusal) and "\n" not in str(refusal)
    else:
        assert len(table.frame) and table.frame.columns.is_unique


@pytest.mark.parametrize(
    ("name", "rows", "columns", "separator", "encoding"),
    [
        ("10kGNAD_test_semicolon_singlequote.csv", 1028, ["column 1", "column 2"], ";", "utf-8"),
        (
            "amazon_alexa_bom.tsv",
            3150,
            ["rating", "date", "variation", "verified_reviews", "feedback"],
            "\t",
            "utf-8-sig",
        ),
        ("financial_mac_CR_lineends_latin1.csv", 4846, ["label", "text"], ",", "cp1252"),
        ("sms_spam_cp1252_5cols.csv", 5575, ["v1", "v2", "column 3", "column 4", "column 5"], ",", "cp1252"),
    ],
)
def test_messy_files(
    shared_data: Path, name: str, rows: int, columns: list[str], separator: str, encoding: str
) -> None:
    table = read_table((shared_data / "messy" / name).read_bytes(), name)
    assert table.dialect is not None
    assert (len(table.frame), list(table.frame.columns)) == (rows, columns)
    assert (table.dialect.separator, table.dialect.encoding) == (separator, encoding)


def test_every_file_of_the_messy_data_is_read(shared_data: Path) -> None:
    for path in sorted([*shared_data.glob("*.csv"), *(shared_data / "messy").iterdir()]):
        table = read_table(path.read_bytes(), path.name)
        assert len(table.frame) > 1_000, path.name
        assert not table.notes, path.name
