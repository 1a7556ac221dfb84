"""Quality of a method on the benchmark sets: resumable, one line per cell in RESULTS.jsonl, a table in RESULTS.md.

``python -m tests.benchmarks.quality sccl`` runs what is not there yet for this commit's settings; words after it (a
row, a set, ``seed1``) narrow that down. ``TOPICSCOPE_BENCH_RUNS`` may name a folder in which runs, and with them
vectors and views that others can use again, stay.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from core.maps.projector import Projector
from core.methods import find_method
from core.runs.config import resolve
from core.runs.store import Run, Store
from core.runs.worker import drive
from core.tables import read_table
from core.tables.corpus import Corpus
from tests.benchmarks.cells import CLASSES, FIGURES, TABLES, Cell, bbc_sentences

HERE = Path(__file__).parent
LINES, TABLE = HERE / "RESULTS.jsonl", HERE / "RESULTS.md"
SUBSET = 4_000
_PREAMBLE = """# Results

Embedded encoder, CPU ({machine}), one default for all sets; no run sees a label.
Defaults chosen with labels at hand: the weight of words beside meaning (0.6: stackoverflow, tweet),
how long ClusterBERT adapts (0.2 epochs: stackoverflow), and linkage: when it finds the start, and that it
divides at the end too where groups stand apart (tweet, and parts of the other sets). On those sets they flatter.

In percent, mean ± deviation; in brackets the number of seeds, how many of the encoder's six layers learnt
(depth), the steps whose weights the guard kept, and a run's seconds on one core while other work went on beside
it (none where a run was halted in between).

What is traded for time on a CPU: as many layers learn as fit into a fixed number of multiplications; texts are
said over the corpus's own tokens instead of all; ClusterBERT adapts for a fifth of an epoch instead of two and
finds its clusters once, where the paper does so once or twice. Small tables leave room for more layers: rows of
4,000, a fixed random part of each set, are to be held against each other, not against whole sets.

BBC's articles are split where a full stop, question or exclamation mark is followed by a space and a capital,
digit or quotation mark; parts of less than three words are left out. That gives 38,504 sentences, where the
paper has 22,000: not to be compared. They were trained when neighbours were sought within one cell each, and
divided after they were sought across cells; divided as before, ClusterBERT had 76.9 / 52.0."""
ENDING = ("cluster", "map", "describe")
STAGE_FIGURES = ("acc", "nmi", "silhouette", "dunn")


def main() -> None:
    """Run the cells that are missing, those that match the words given, then write the table."""
    folder = os.environ.get("TOPICSCOPE_DATA")
    if not folder:
        sys.exit("Set TOPICSCOPE_DATA to the folder of benchmark data.")
    cells = TABLES[sys.argv[1]]()
    words = sys.argv[2:]
    done = _lines()
    projector = Projector()
    projector.start()
    with tempfile.TemporaryDirectory() as passing:
        runs = os.environ.get("TOPICSCOPE_BENCH_RUNS", passing)  # a folder that stays keeps vectors and views
        for cell in cells:
            for key in cell.keys():
                if all(word in (cell.row, cell.data, f"seed{key['seed']}") for word in words) and not _found(done, key):
                    line = key | _run(cell, key["seed"], Path(folder), Store(Path(runs)), projector)
                    done.append(line)
                    with LINES.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
                    print(json.dumps(line), flush=True)
    projector.close()
    TABLE.write_text(_tables(_lines()), "utf-8")  # what others measured meanwhile is in it too


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in LINES.read_text("utf-8").splitlines()] if LINES.exists() else []


def _found(done: list[dict[str, Any]], key: dict[str, Any]) -> dict[str, Any] | None:
    """Return the line of a run with the same settings; a method whose defaults changed is another one."""
    wanted = key | {"settings": _settings(key)}
    return next((line for line in reversed(done) if all(line.get(name) == wanted[name] for name in wanted)), None)


def _settings(key: dict[str, Any]) -> dict[str, Any]:
    method = find_method(key["method"]).from_knobs({"clusters": CLASSES[key["data"]]} | key["knobs"])
    return {knob.name: getattr(method, knob.name) for knob in method.knobs()}


def _run(cell: Cell, seed: int, folder: Path, store: Store, projector: Projector) -> dict[str, Any]:
    path = folder / f"{cell.file or ('bbc_news' if cell.data == 'bbc sentences' else cell.data)}.csv"
    frame = read_table(path.read_bytes(), path.name).frame
    frame = bbc_sentences(frame) if cell.data == "bbc sentences" else frame
    if not cell.whole and len(frame) > SUBSET:
        rows = np.random.default_rng(0).permutation(len(frame))[:SUBSET]
        frame = frame.iloc[np.sort(rows)].reset_index(drop=True)
    corpus = Corpus(frame, "text", "label")
    built = find_method(cell.method).from_knobs({"clusters": CLASSES[cell.data]} | cell.knobs)
    source = {"file": path.name, "file_sha256": "", "reading": {}}
    config = resolve(corpus, built, **source, seed=seed, threads=len(os.sched_getaffinity(0)))  # type: ignore[arg-type]
    run = store.create(config, corpus)
    began = time.time() - _train_as_before(run, store)
    status = drive(run, projector, lambda: False)
    if status != "finished":
        sys.exit(f"{cell.row} on {cell.data}: {run.story().message}")
    notes = [text for _, text in run.story().notes if "kept" in text]
    figures = {name: run.results.metrics()[name] for name in ("acc", "nmi", "nmi_geometric", "purity")}
    return {
        "settings": _settings({"method": cell.method, "data": cell.data, "knobs": cell.knobs}),
        "depth": config.knobs.get("depth"),
        **{name: round(value, 4) for name, value in figures.items()},
        "seconds": round(time.time() - began),
        "threads": config.threads,
        "kept": notes[-1] if notes else "",
        "stages": _stages(run),
        "date": time.strftime("%Y-%m-%d"),
        "commit": _commit(),
    }


def _train_as_before(run: Run, store: Store) -> float:
    """Take the training of a run that differs in nothing but how its vectors are divided; return what it took."""
    same = [other for other in store.runs() if other.status() == "finished" and _undivided(other) == _undivided(run)]
    if not same:
        return 0.0
    spent = {
        other.id: sum(other.story().seconds[stage] for stage in other.story().seconds if stage not in ENDING)
        for other in same
    }
    trained = max(same, key=lambda other: spent[other.id])  # the others took it over themselves
    shutil.copytree(
        trained.folder / "checkpoints",
        run.folder / "checkpoints",
        ignore=shutil.ignore_patterns("cluster.*"),
        dirs_exist_ok=True,
    )
    return spent[trained.id]


def _undivided(run: Run) -> tuple[dict[str, Any], bytes]:
    config = {name: value for name, value in run.config.to_json().items() if name != "reasons"}
    config["knobs"] = {name: value for name, value in run.config.knobs.items() if name != "partition"}
    return config, (run.folder / "corpus.parquet").read_bytes()


def _stages(run: Run) -> dict[str, dict[str, float]]:
    """Return the last figures of each stage, on the sample that is looked at while it trains."""
    found: dict[str, dict[str, float]] = {}
    measured = list(run.story().measured.items())
    for place, ((stage, _), values) in enumerate(measured):
        wanted = {name: round(values[name], 4) for name in STAGE_FIGURES if name in values}
        found[stage if place else f"before {stage}"] = wanted
    return found


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _tables(done: list[dict[str, Any]]) -> str:
    """Write all tables: ACC / NMI (arithmetic), mean and deviation over seeds; a cell not run stays empty."""
    lines = [_PREAMBLE.format(machine=platform.machine())]
    quiet = [line for line in done if line.get("threads", 1) > 1]
    lines += [f"\n{line['row']}, {line['data']}, {line['threads']} threads: {line['seconds']} s." for line in quiet]
    for name, cells in TABLES.items():
        figures = " / ".join(_SPOKEN[figure] for figure in FIGURES[name])
        lines += ["", f"## {name}", "", f"{figures}.", "", *_table(cells(), done, FIGURES[name])]
    lines += [
        "",
        "## What each stage brings",
        "",
        "At the last look of each stage, on a fixed sample of about 2,000 texts; the look kept may be an earlier one.",
        "",
    ]
    lines += _stage_table(done)
    commits = sorted({f"{line['date']} {line['commit']}" for line in done})
    return "\n".join([*lines, "", "Measured: " + ", ".join(commits) + ".", ""])


_SPOKEN = {"acc": "ACC", "nmi": "NMI (arithmetic)", "nmi_geometric": "NMI (geometric)", "purity": "purity"}


def _table(cells: list[Cell], done: list[dict[str, Any]], figures: tuple[str, ...]) -> list[str]:
    sets = list(dict.fromkeys(cell.data for cell in cells))
    lines = ["| | " + " | ".join(sets) + " |", "|---|" + "---|" * len(sets)]
    for row in dict.fromkeys(cell.row for cell in cells):
        shown = []
        for data in sets:
            found = [_found(done, key) for cell in cells if (cell.row, cell.data) == (row, data) for key in cell.keys()]
            shown.append(_cell([line for line in found if line], figures))
        lines.append(f"| {row} | " + " | ".join(shown) + " |")
    return lines


def _stage_table(done: list[dict[str, Any]]) -> list[str]:
    """One line per run that has stages: ACC / NMI / silhouette / Dunn of the looked-at sample after each."""
    lines = ["| run | after each stage: ACC / NMI / silhouette / Dunn |", "|---|---|"]
    cells = [cell for make in TABLES.values() for cell in make() if cell.method in ("clusterbert", "uft", "tsdae")]
    for line in [found for cell in cells for key in cell.keys() if (found := _found(done, key)) and found["stages"]]:
        told = [
            f"{stage}: " + " / ".join(f"{figures[name]:.3f}" if name in figures else "–" for name in STAGE_FIGURES)
            for stage, figures in line.get("stages", {}).items()
        ]
        lines.append(f"| {line['row']}, {line['data']}, seed {line['seed']} | {'; '.join(told)} |")
    return lines


def _cell(lines: list[dict[str, Any]], figures: tuple[str, ...]) -> str:
    if not lines:
        return ""
    parts = []
    for name in figures:
        values = [100 * line[name] for line in lines]
        parts.append(f"{np.mean(values):.1f}" + (f" ± {np.std(values):.1f}" if len(values) > 1 else ""))
    seconds = [line["seconds"] for line in lines if line["seconds"] and line.get("threads", 1) == 1]
    depths = sorted({line["depth"] for line in lines if line["depth"]})
    kept = [step for line in lines for step in re.findall(r"Step (\d+) (?:of \w+ )?is kept", line["kept"])]
    told = f"; depth {', '.join(depths)}" if depths else ""
    told += f"; step {', '.join(kept)}" if kept else ""
    told += f"; {np.mean(seconds):.0f} s" if seconds else ""
    return f"{' / '.join(parts)} ({len(lines)}{told})"


if __name__ == "__main__":
    main()
