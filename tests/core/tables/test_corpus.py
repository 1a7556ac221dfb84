"""The corpus: which rows are used, why the others are not, and the labelled table."""

import numpy as np
import pandas as pd
import pytest

from core.errors import BadInput
from core.tables.corpus import Corpus, guess_id, guess_label, guess_text, guess_time


def messy() -> pd.DataFrame:
    """Return a table in which every reason occurs, with columns already called cluster and x."""
    texts = ["hello there", "  ", "12.5", "hello there", "NaN", "???", "été déjà", "привет мир", "ok"]
    return pd.DataFrame({"text": texts, "cluster": list("abcdefghi"), "x": [str(i) for i in range(9)]}, dtype="str")


def test_every_row_left_out_has_its_reason() -> None:
    corpus = Corpus(messy(), "text")
    assert corpus.used.tolist() == [0, 3, 6, 7, 8]
    assert corpus.left_out == {"empty": 2, "not text": 2}
    assert corpus.texts == ["hello there", "hello there", "été déjà", "привет мир", "ok"]


def test_duplicates_are_left_out_only_when_asked() -> None:
    corpus = Corpus(messy(), "text", drop_duplicates=True)
    assert corpus.used.tolist() == [0, 6, 7, 8]
    assert corpus.left_out["exact duplicate"] == 1


def test_labelled_keeps_rows_columns_and_order() -> None:
    table = messy()
    corpus = Corpus(table, "text")
    labels = np.array([0, 1, 1, -1, 0])
    result = corpus.labelled(labels, ["a", "b"], np.full(5, 0.5), np.arange(10.0).reshape(5, 2))
    assert list(result.columns) == ["text", "cluster", "x", "cluster_2", "cluster_name", "probability", "x_2", "y"]
    pd.testing.assert_frame_equal(result[table.columns], table)
    assert result["cluster_2"].tolist() == ["0", "", "", "1", "", "", "1", "", "0"]
    assert result["cluster_name"].tolist()[:4] == ["a", "left out: empty", "left out: not text", "b"]
    assert result["x_2"].tolist()[3] == "2.0000"
    assert list(table.columns) == ["text", "cluster", "x"], "the table given must not change"


def test_guesses_follow_content_and_names() -> None:
    table = pd.DataFrame(
        {
            "ticket id": [f"T{i}" for i in range(40)],
            "created": [f"2024-03-{1 + i % 28:02d}" for i in range(40)],
            "category": ["a", "b"] * 20,
            "body": [f"my order number {i} never came to the house" for i in range(40)],
        },
        dtype="str",
    )
    assert guess_text(table) == "body"
    assert guess_label(table, "body") == "category"
    assert guess_time(table, "body") == "created"
    assert guess_id(table, "body") == "ticket id"


def test_an_unknown_column_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput, match="There is no column “nope”; the table has “text”"):
        Corpus(messy(), "nope")


def test_truth_is_for_used_rows_only() -> None:
    truth = Corpus(messy(), "text", label="cluster").truth()
    assert truth is not None and truth.tolist() == ["a", "d", "g", "h", "i"]
