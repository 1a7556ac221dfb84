"""The forecast: measured on this machine, composed by methods, told on the command line."""

from dataclasses import replace
from pathlib import Path

import pytest

from core.__main__ import main
from core.bench import Bench
from core.bench.forecast import Forecast, Pace, known_forecast, measure_pace, measured_forecast, rough_forecast
from core.encoder.encoder import EMBEDDED
from core.maps.projector import Projector
from core.methods import METHODS
from core.runs.pipeline import road
from core.tables.corpus import Corpus
from tests.conftest import obvious_table


def bench_of(texts: list[str], cache: Path) -> Bench:
    return Bench(texts, 0, EMBEDDED, "cpu", 256, "float32", cache, Projector())


def test_twice_the_texts_take_about_twice_the_time_and_more_memory() -> None:
    once, twice = Forecast(Pace(), 50_000, 1e6), Forecast(Pace(), 100_000, 2e6)
    for method in (METHODS[name] for name in ("embed", "tfidf", "bow")):
        small, large = method(clusters=20).plan(once), method(clusters=20).plan(twice)  # type: ignore[call-arg]
        assert 1.6 < sum(s.seconds for s in large) / sum(s.seconds for s in small) < 2.1
        assert all(big.memory > little.memory for little, big in zip(small, large, strict=True))


def test_what_was_measured_is_sane_and_measured_once(tmp_path: Path) -> None:
    bench = bench_of([], tmp_path)
    pace = measure_pace(bench, 1)
    assert pace is measure_pace(bench, 1)
    assert 1e-13 < pace.forward < 1e-9 and 0.3 < pace.training / pace.forward < 10 and 1e-13 < pace.kmeans < 1e-8


def test_vectors_that_are_kept_need_no_time(tmp_path: Path, corpus: Corpus) -> None:
    bench = bench_of(corpus.texts, tmp_path)
    assert measured_forecast(bench, 1).fresh == 1
    for _ in bench.encode("mean"):
        pass
    known = measured_forecast(bench, 1)
    assert known.fresh == 0
    assert known.encode().seconds < replace(known, fresh=1.0).encode().seconds
    assert known_forecast(bench, 1) == known, "what was measured is used where it is known"
    assert known_forecast(bench, 7) == rough_forecast(bench)


def test_words_are_a_fair_guess_of_tokens(tmp_path: Path, corpus: Corpus) -> None:
    bench = bench_of(corpus.texts, tmp_path)
    assert rough_forecast(bench).tokens == pytest.approx(measured_forecast(bench, 1).tokens, rel=0.4)


def test_the_command_line_tells_every_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    obvious_table().to_csv(table, index=False)
    options = ["--text", "text", "--set", "clusters=3", "--threads", "1", "--runs", str(tmp_path / "runs")]
    assert main(["estimate", str(table), "--method", "embed", *options]) == 0
    told = capsys.readouterr().out
    for stage in ("encode", "cluster", "map", "describe", "in all"):
        assert stage in told
    assert not (tmp_path / "runs").exists(), "nothing was run"
    assert main(["estimate", str(table), "--method", "nonsense", *options]) == 2


def test_every_stage_of_the_road_is_forecast(tmp_path: Path, corpus: Corpus) -> None:
    forecast = rough_forecast(bench_of(corpus.texts, tmp_path))
    for method in METHODS.values():
        stages = road(method(), forecast)
        assert all(stage.seconds > 0 and stage.memory > 1e8 for stage in stages)
