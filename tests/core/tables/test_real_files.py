"""Files as people have them: surveys, exports, dumps. Each was read wrongly once."""

import io

import openpyxl
import pandas as pd
import pytest

from core.errors import BadInput
from core.tables import read_table


def cells(data: bytes | str, name: str = "table.csv", **known: object) -> list[list[str]]:
    """Read a file back into rows, the header first."""
    frame = read_table(data.encode() if isinstance(data, str) else data, name, **known).frame
    return [list(frame.columns), *frame.to_numpy().tolist()]


@pytest.mark.parametrize("strays", [[5], [3_000], [15_000, 15_003], [19_000, 19_500], list(range(12_000, 20_000, 7))])
def test_a_stray_quote_anywhere_in_a_large_file_glues_no_rows(strays: list[int]) -> None:
    rows = [
        f"{i}\t{chr(34) if i in strays else ''}some words of number {i} that go on for a while\tuser"
        for i in range(20_000)
    ]
    table = read_table("\n".join(["id\ttext\tu", *rows]).encode(), "t.tsv")
    assert len(table.frame) == 20_000 and not table.notes


def test_a_survey_question_is_a_header() -> None:
    question = "What could we do better? Please describe in your own words."
    assert cells(f"Timestamp,{question}\n2023/01/01,be faster\n2023/01/02,be cheaper\n")[0] == ["Timestamp", question]


def test_years_are_column_names_beside_words() -> None:
    assert cells("id,text,2021,2022\n1,a b,5,6\n2,c d,7,8\n")[0] == ["id", "text", "2021", "2022"]


def test_a_line_above_the_table_is_passed_over_and_named() -> None:
    for top in ("My survey\n", "# exported yesterday\n", "Title;;\n", ";;\n", "sep=;\n"):
        table = read_table(f"{top}id;text;u\n1;a b;x\n2;c d;x\n3;e f;x\n".encode(), "t.csv")
        assert list(table.frame.columns) == ["id", "text", "u"] and len(table.frame) == 3, top
    assert any("passed over" in note for note in read_table(b"My survey\nid;text\n1;a b\n2;c d\n", "t.csv").notes)


def test_backslashed_quotes_are_quotes_and_other_backslashes_stay() -> None:
    assert cells('id,text\n1,"say \\"yes\\" ok"\n2,"C:\\new\\table"\n3,fine\n')[1:] == [
        ["1", 'say "yes" ok'],
        ["2", "C:\\new\\table"],
        ["3", "fine"],
    ]
    assert cells("id,text\n1,'it\\'s, fine'\n2,'so, so'\n3,'well, well'\n")[1] == ["1", "it's, fine"]


def test_one_column_of_quoted_paragraphs() -> None:
    assert cells('feedback\n"line one\nline two"\n"other one\nother two"\n') == [
        ["feedback"],
        ["line one\nline two"],
        ["other one\nother two"],
    ]


def test_doubled_returns_are_line_ends() -> None:
    assert cells("id,text,label\r\r\n1,some words here,a\r\r\n2,more words,b\r\r\n")[0] == ["id", "text", "label"]


def test_a_header_one_short_as_r_writes_it() -> None:
    assert cells("text,label\n1,hello there,a\n2,good day,b\n")[0] == ["column 1", "text", "label"]


@pytest.mark.parametrize("encoding", ["utf-16", "base64", "rot13", "zlib", "idna", "punycode", "undefined", "nope"])
@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_an_encoding_that_does_not_fit_is_one_sentence(encoding: str, name: str) -> None:
    data = b'{"text": "hello"}\n' if name == "t.jsonl" else b"id,text\n1,hello there\n"
    with pytest.raises(BadInput) as refusal:
        read_table(data, name, encoding=encoding)
    assert "\n" not in str(refusal.value)


def workbook(*rows: list[object]) -> bytes:
    """Write rows into a sheet."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def test_a_workbook_keeps_blank_rows_of_one_column_and_says_what_it_passes_over() -> None:
    assert cells(workbook(["text"], ["a b"], [None], ["c d"]), "t.xlsx") == [["text"], ["a b"], [""], ["c d"]]
    table = read_table(workbook(["My report"], [None], ["id", "text"], [1, "a b"], [None, None], [2, "c d"]), "t.xlsx")
    assert table.frame.to_numpy().tolist() == [["1", "a b"], ["2", "c d"]] and len(table.notes) == 2


def test_a_workbook_with_a_wrong_size_is_read_whole() -> None:
    import re
    import zipfile

    source, target = io.BytesIO(workbook(["id", "text"], *[[i, f"text {i}"] for i in range(9)])), io.BytesIO()
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for item in old.infolist():
            content = old.read(item)
            if item.filename.endswith("sheet1.xml"):
                content = re.sub(rb'<dimension ref="[^"]+"', b'<dimension ref="A1:A2"', content)
            new.writestr(item, content)
    assert len(read_table(target.getvalue(), "t.xlsx").frame) == 9


def test_json_values_are_written_as_they_were() -> None:
    data = '\n{"n": 2.50, "big": 12345678901234567890, "yes": true, "deep": {"a": 5, "b": [1, 2]}, "bad": "\\ud800"}\n'
    assert cells(data, "t.jsonl")[1] == ["2.50", "12345678901234567890", "true", '{"a": 5, "b": [1, 2]}', "?"]


def test_parquet_floats_and_repeated_names() -> None:
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table([pa.array([0.1, None], pa.float32()), pa.array(["a", "b"])], names=["text", "text"])
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    assert cells(buffer.getvalue(), "t.parquet") == [["text", "text_2"], ["0.1", "a"], ["", "b"]]


def test_a_guarded_table_has_distinct_names() -> None:
    from core.tables.export import table_bytes

    table = pd.DataFrame({"=a": ["1"], "'=a": ["2"]}, dtype="str")
    assert pd.read_csv(io.BytesIO(table_bytes(table, "csv"))).shape == (1, 2)


def test_a_cell_too_long_for_excel_is_refused_in_words() -> None:
    from core.tables.export import table_bytes

    with pytest.raises(BadInput, match="32,767"):
        table_bytes(pd.DataFrame({"text": ["x" * 40_000]}, dtype="str"), "xlsx")
