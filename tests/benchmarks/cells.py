"""What is measured: the rows of each paper's table, on which sets, with which knobs and seeds."""

import re
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

CLASSES = {"stackoverflow": 20, "searchsnippets": 8, "agnews": 4, "tweet": 89, "trec6": 6, "bbc sentences": 5}


@dataclass(frozen=True)
class Cell:
    """One row of the table on one set: a method with its knobs, on all rows or on a fixed random 4,000."""

    row: str
    data: str
    method: str
    knobs: dict[str, Any] = field(default_factory=dict)
    file: str = ""
    whole: bool = True
    seeds: tuple[int, ...] = (0, 1, 2)

    def keys(self) -> list[dict[str, Any]]:
        """Return what identifies each run of the cell."""
        same = {"row": self.row, "data": self.data, "method": self.method, "knobs": self.knobs, "whole": self.whole}
        return [same | {"seed": seed} for seed in self.seeds]


def sccl_cells() -> list[Cell]:
    """Return the cells of SCCL's table, the headline first."""
    cells = []
    for data in ("tweet", "agnews", "searchsnippets", "stackoverflow"):
        cells += [Cell("encoder + k-means", data, "embed"), Cell("SCCL (default)", data, "sccl")]
    for data in ("tweet", "agnews", "searchsnippets", "stackoverflow"):
        ablations = {
            "encoder + k-means, 4,000 rows": ("embed", {}),
            "SCCL, 4,000 rows": ("sccl", {}),
            "Instance-CL": ("sccl", {"objective": "contrastive"}),
            "Clustering": ("sccl", {"objective": "clustering"}),
            "SCCL-Seq": ("sccl", {"objective": "sequential"}),
            "views: neighbour": ("sccl", {"augmenter": "neighbour"}),
            "views: wordnet": ("sccl", {"augmenter": "wordnet"}),
            "views: worddrop": ("sccl", {"augmenter": "worddrop"}),
            "views: charswap": ("sccl", {"augmenter": "charswap"}),
            "views: dropout": ("sccl", {"augmenter": "dropout"}),
            "SCCL, k-means": ("sccl", {"partition": "kmeans"}),
            "SCCL, UMAP + k-means": ("sccl", {"partition": "umap+kmeans"}),
            "encoder, smoothed k-means": ("embed", {"partition": "smooth+kmeans"}),
        }
        for row, (method, knobs) in ablations.items():
            cells.append(Cell(row, data, method, knobs, whole=False, seeds=(0,)))
    # As the prototype was measured: 400 steps at depth 2 from plain k-means.
    pairs = {"augmenter": "columns", "first_view": "text1", "second_view": "text2"}
    pairs |= {"steps": 400, "depth": "2", "start": "kmeans"}
    for data, file in (("stackoverflow", "stackoverflow_contextual20"), ("tweet", "tweet_contextual10")):
        for row, how in (
            ("k-means", "kmeans"),
            ("UMAP + k-means", "umap+kmeans"),
            ("smoothed k-means", "smooth+kmeans"),
        ):
            cells.append(Cell(f"published pairs, {row}", data, "sccl", pairs | {"partition": how}, file, seeds=(0,)))
    return cells


def clusterbert_cells() -> list[Cell]:
    """Return the cells of ClusterBERT's and UFT's table, the headline first."""
    cells = []
    for data in ("trec6", "stackoverflow", "searchsnippets", "agnews", "bbc sentences"):
        seeds = (0,) if data == "bbc sentences" else (0, 1, 2)
        cells += [Cell("encoder + k-means", data, "embed", seeds=seeds)]
        if data == "trec6":
            cells += [Cell("UFT (default)", data, "uft")]
        else:
            cells += [Cell("ClusterBERT (default)", data, "clusterbert", seeds=seeds)]
    alone: dict[str, tuple[str, dict[str, Any]]] = {
        "encoder + k-means, 4,000 rows": ("embed", {}),
        "encoder, smoothed k-means": ("embed", {"partition": "smooth+kmeans"}),
    }
    clusterbert: dict[str, tuple[str, dict[str, Any]]] = {
        "TSDAE": ("tsdae", {}),
        "ClusterBERT, 4,000 rows": ("clusterbert", {}),
        "ClusterBERT, k-means": ("clusterbert", {"partition": "kmeans"}),
        "ClusterBERT without reconstruction": ("clusterbert", {"reconstruct": False}),
    }
    uft: dict[str, tuple[str, dict[str, Any]]] = {
        "UFT, 4,000 rows": ("uft", {}),
        "UFT without MLM": ("uft", {"mlm": False}),
        "UFT, first token": ("uft", {"pooling": "first"}),
    }
    for data in ("trec6", "stackoverflow", "searchsnippets", "agnews"):  # each paper's rows on its own sets
        for row, (method, knobs) in (alone | (uft if data == "trec6" else clusterbert)).items():
            cells.append(Cell(row, data, method, knobs, whole=False, seeds=(0,)))
    return cells


def bbc_sentences(frame: pd.DataFrame) -> pd.DataFrame:
    """Split articles where a full stop, question or exclamation mark is followed by a space and a capital or digit."""
    rows = [
        {"text": sentence.strip(), "label": label}
        for text, label in zip(frame["text"], frame["label"], strict=True)
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z0-9\"'])", text)
        if len(sentence.split()) > 2
    ]
    return pd.DataFrame(rows, dtype="str")


TABLES = {"sccl": sccl_cells, "clusterbert": clusterbert_cells}
FIGURES = {"sccl": ("acc", "nmi"), "clusterbert": ("acc", "nmi_geometric", "purity")}  # as the papers report
