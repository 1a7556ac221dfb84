"""The command line: the whole journey, and one plain sentence for everything that is wrong."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.__main__ import main
from core.runs.store import Store
from core.tables import read_table
from core.tables.corpus import Corpus
from tests.conftest import make_config, obvious_table

ROOT = Path(__file__).parents[2]


def python_m_core(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line as a person would."""
    return subprocess.run(
        [sys.executable, "-m", "core", *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, timeout=300
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a small table with blanks, formulas, and a column already called cluster."""
    frame = obvious_table(10)
    frame["cluster"] = "mine"
    frame.loc[3, "text"] = "  "
    frame.loc[7, "text"] = "=the rocket, the moon and the orbit"
    frame.loc[11, "text"] = "007"
    path = tmp_path / "in" / "table.csv"
    path.parent.mkdir()
    frame.to_csv(path, index=False)
    return path


def test_the_journey_from_csv_to_labelled_csv(table: Path, tmp_path: Path) -> None:
    out, runs = tmp_path / "out.csv", tmp_path / "runs"
    options = [
        "run",
        table,
        "--text",
        "text",
        "--label",
        "group",
        "--method",
        "embed",
        "--set",
        "clusters=3",
        "--runs",
        runs,
    ]
    done = python_m_core(*options, "--out", out)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert set(summary) == {"run", "method", "rows", "used", "clusters", "metrics", "seconds"}
    assert (summary["method"], summary["rows"], summary["used"], summary["clusters"]) == ("embed", 30, 28, 3)
    assert set(summary["metrics"]) == {"acc", "nmi", "nmi_geometric", "ari", "purity", "silhouette"}
    assert all(0 <= value <= 1 for value in summary["metrics"].values())
    assert summary["metrics"]["acc"] > 0.9
    assert set(summary["seconds"]) == {"encode", "cluster", "map", "describe"}

    before = pd.read_csv(table, dtype=str, keep_default_na=False)
    after = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert list(after.columns) == ["text", "group", "cluster", "cluster_2", "cluster_name", "probability", "x", "y"]
    assert after["text"].iloc[7] == "'" + before["text"].iloc[7]
    after.loc[7, "text"] = before["text"].iloc[7]
    assert after[list(before.columns)].equals(before)
    assert after["cluster_2"].iloc[3] == "" and after["cluster_name"].iloc[11] == "left out: not text"

    again = python_m_core(*options, "--out", tmp_path / "raw.csv", "--no-formula-guard")
    raw = pd.read_csv(tmp_path / "raw.csv", dtype=str, keep_default_na=False)
    assert again.returncode == 0 and raw[list(before.columns)].equals(before)
    assert raw["cluster_2"].tolist() == after["cluster_2"].tolist(), "the same command gives the same labels"
    listed = python_m_core("runs", "--runs", runs).stdout
    assert listed.count("finished") == 2 and summary["run"] in listed


def test_the_command_a_run_shows_repeats_it(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    arguments = [
        "run",
        str(table),
        "--text",
        "text",
        "--method",
        "tfidf",
        "--set",
        "clusters=4",
        "--set",
        "features=20",
    ]
    assert main([*arguments, "--seed", "5", "--separator", ",", "--runs", str(runs)]) == 0
    first = Store(runs).runs()[0]
    command = shlex.split(first.config.command())
    assert command[:3] == ["python", "-m", "core"]
    assert main([*command[3:], "--runs", str(runs)]) == 0
    second = next(run for run in Store(runs).runs() if run.id != first.id)
    assert second.config == first.config
    np.testing.assert_array_equal(first.results.clustering().labels, second.results.clustering().labels)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["nonsense"],
        ["run", "missing.csv", "--text", "text", "--method", "bow"],
        ["run", "TABLE", "--text", "nope", "--method", "bow"],
        ["run", "TABLE", "--text", "text", "--label", "nope", "--method", "bow"],
        ["run", "TABLE", "--text", "text", "--method", "nope"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--set", "clusters=1"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--set", "clusters=many"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--set", "clusters"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--set", "colour=red"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--set", "clusters=1000"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--seed", "-1"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--seed", "x"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--threads", "0"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--encoding", "klingon"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--separator", "ab"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--out", "/no/such/folder/out.csv"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--out", "out.docx"],
        ["run", "TABLE", "--text", "text", "--method", "embed", "--encoder", "nobody/nothing"],
        ["run", "FOLDER", "--text", "text", "--method", "bow"],
        ["run", "TABLE", "--text", "", "--method", "bow"],
        ["run", "TABLE", "--text", "text", "--label", "", "--method", "bow"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--out", "/proc/out.csv"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--encoding", "utf-16"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--line-end", "foo"],
        ["run", "TABLE", "--text", "text", "--method", "embed", "--precision", "int3"],
        ["run", "TABLE", "--text", "text", "--method", "embed", "--token-limit", "1"],
        ["run", "TABLE", "--text", "cluster", "--method", "tfidf", "--set", "clusters=2"],
        ["run", "TABLE", "--text", "text", "--method", "bow", "--runs", "TABLE"],
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    arguments: list[str], table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [{"TABLE": str(table), "FOLDER": str(tmp_path)}.get(argument, argument) for argument in arguments]
    before = sorted(tmp_path.rglob("*"))
    if given[:1] == ["run"] and "--runs" not in given:
        given += ["--runs", str(tmp_path / "runs")]
    assert main(given) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.strip().splitlines()) == 1 and len(captured.err) > 20
    assert sorted(tmp_path.rglob("*")) == before


def test_methods_are_listed_with_their_knobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["methods"]) == 0
    listed = capsys.readouterr().out
    for word in (
        "embed:",
        "tfidf:",
        "bow:",
        "clusters=12 (2 to 2000)",
        "partition=kmeans (auto|kmeans|smooth+kmeans|linkage|umap+kmeans)",
    ):
        assert word in listed


def test_a_column_is_found_despite_case_and_spaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    obvious_table(4).rename(columns={"text": " Text "}).to_csv(path, index=False)
    assert (
        main(
            [
                "run",
                str(path),
                "--text",
                "text",
                "--method",
                "bow",
                "--set",
                "clusters=3",
                "--runs",
                str(tmp_path / "r"),
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["used"] == 12


def test_the_table_itself_is_never_overwritten(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = table.read_bytes()
    options = [
        "run",
        str(table),
        "--text",
        "text",
        "--method",
        "bow",
        "--out",
        str(table),
        "--runs",
        str(tmp_path / "r"),
    ]
    assert main(options) == 2 and "the table itself" in capsys.readouterr().err
    assert table.read_bytes() == before


def test_texts_without_a_word_to_count_are_refused_before_a_run_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "letters.csv"
    path.write_text("id,text\n" + "\n".join(f"{i},{chr(97 + i)}" for i in range(26)))
    assert main(["run", str(path), "--text", "text", "--method", "bow", "--runs", str(tmp_path / "r")]) == 2
    assert "nothing to count" in capsys.readouterr().err and not (tmp_path / "r").exists()


def test_a_stopped_run_is_resumed_a_finished_one_is_not_and_any_is_deleted(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, runs = Store(tmp_path / "runs"), str(tmp_path / "runs")
    corpus = Corpus(read_table(table.read_bytes(), table.name).frame, "text", "group")
    run = store.create(make_config(corpus), corpus)
    out = tmp_path / "out.csv"
    assert main(["resume", run.id, "--runs", runs, "--out", str(out)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["run"] == run.id and len(pd.read_csv(out)) == 30
    for arguments, sentence in (
        (["resume", run.id], "has finished already"),
        (["resume", "nonsense"], "no such run"),
        (["delete", "../runs"], "no such run"),
    ):
        assert main([*arguments, "--runs", runs]) == 2 and sentence in capsys.readouterr().err
    (tmp_path / "runs" / "20260101-000000-tfidf-abcdef").mkdir()
    assert main(["runs", "--runs", runs]) == 0
    listed = capsys.readouterr().out
    assert f"{run.id}  finished" in listed and "3 clusters" in listed and "unreadable" in listed
    for name in (run.id, "20260101-000000-tfidf-abcdef"):
        assert main(["delete", name, "--runs", runs]) == 0
    assert not store.runs() and not store.unreadable()


def test_a_preset_sets_knobs_and_single_ones_can_be_changed(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["estimate", str(table), "--text", "text", "--runs", str(tmp_path / "runs"), "--method", "sccl"]
    knobs = ["--set", "clusters=3"]
    assert main([*options, *knobs, "--preset", "quick look", "--set", "depth=2"]) == 0
    assert "The top 2 of 6 layers learn" in capsys.readouterr().out
    assert main([*options, *knobs, "--preset", "nonsense"]) == 2
    assert "“quick look”, “balanced”, “paper settings”" in capsys.readouterr().err


def test_rows_that_the_tokenizer_drops_are_not_counted_as_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = obvious_table(6)
    frame.loc[2, "text"] = "\u0345"  # a letter to Unicode, nothing to the tokenizer
    frame.to_csv(tmp_path / "table.csv", index=False)
    options = ["--text", "text", "--method", "embed", "--set", "clusters=3", "--runs", str(tmp_path / "runs")]
    assert main(["run", str(tmp_path / "table.csv"), *options]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (summary["rows"], summary["used"]) == (18, 17)


def test_the_printed_command_takes_names_that_begin_with_a_dash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    obvious_table(6).rename(columns={"text": "-text", "group": "--label"}).to_csv("-table.csv", index=False)
    runs = str(tmp_path / "runs")
    options = ["--text=-text", "--label=--label", "--method", "bow", "--set", "clusters=3", "--runs", runs]
    assert main(["run", "./-table.csv", *options]) == 0
    command = shlex.split(Store(tmp_path / "runs").runs()[0].settled_config().command())
    capsys.readouterr()
    assert main([*command[3:], "--runs", runs]) == 0, capsys.readouterr().err
