"""What a run has found: clustering, map, topics and metrics, each in files of its own."""

from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from core.clusters.clustering import Clustering, ClusterTopic
from core.files import load_json, save_array, save_json
from core.topics.describe import Topic

_ARRAYS = ("vectors", "soft", "labels", "centres")


class Results:
    """The results in a run's folder. Arrays stay on the disk until they are used."""

    def __init__(self, folder: Path) -> None:
        """Point to the run's folder."""
        self.folder = folder

    def made_at(self) -> int:
        """Say when the results were made, in nanoseconds: a run of which another look is chosen makes them again."""
        return (self.folder / "metrics.json").stat().st_mtime_ns  # written last

    def fingerprint(self) -> str:
        """Return what tells these labels from others that the run had before."""
        return sha256((self.folder / "clustering" / "labels.npy").read_bytes()).hexdigest()[:16]

    def save_clustering(self, clustering: Clustering) -> None:
        """Keep the clustering, one array per file."""
        for name in _ARRAYS:
            if (array := getattr(clustering, name)) is not None:
                save_array(self.folder / "clustering" / f"{name}.npy", array)
        for name, array in clustering.beside.items():
            save_array(self.folder / "clustering" / f"beside-{name}.npy", array)
        if clustering.before is not None:
            save_array(self.folder / "clustering" / "before.npy", clustering.before.astype(np.float16))
        if clustering.topics:
            save_json(self.folder / "clustering" / "topics.json", [asdict(topic) for topic in clustering.topics])

    def clustering(self) -> Clustering:
        """Open the clustering."""
        arrays = {name: self._array(f"clustering/{name}") for name in _ARRAYS if name != "centres"}
        centres = self.folder / "clustering" / "centres.npy"
        kept = self._array("clustering/centres") if centres.exists() else None
        beside = sorted((self.folder / "clustering").glob("beside-*.npy"))
        heads = {path.stem.removeprefix("beside-"): self._array(f"clustering/{path.stem}") for path in beside}
        before = self._array("clustering/before") if (self.folder / "clustering" / "before.npy").exists() else None
        return Clustering(arrays["vectors"], arrays["soft"], arrays["labels"], kept, heads, before, self._own_topics())

    def _own_topics(self) -> tuple[ClusterTopic, ...]:
        path = self.folder / "clustering" / "topics.json"
        found = load_json(path) if path.exists() else []
        return tuple(
            ClusterTopic(one["cluster"], one["weight"], tuple(one["words"]), tuple(one["weights"])) for one in found
        )

    def save_map(self, sample: np.ndarray, layouts: Mapping[str, np.ndarray]) -> None:
        """Keep the sample's row positions and, for each layout, the points of all used rows."""
        save_array(self.folder / "map" / "sample.npy", sample)
        for name, points in layouts.items():
            save_array(self.folder / "map" / f"{name}.npy", points)

    def map(self, layout: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the sample's positions among the used rows, and the points of all used rows."""
        return self._array("map/sample"), self._array(f"map/{layout}")

    def _array(self, name: str) -> np.ndarray:
        return np.load(self.folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)

    def save_topics(self, topics: list[Topic]) -> None:
        """Keep names, sizes, words and typical rows."""
        save_json(self.folder / "topics.json", [asdict(topic) for topic in topics])

    def topics(self) -> list[Topic]:
        """Return the clusters in words, in the order of their labels, as the run found them."""
        return [
            Topic(item["name"], item["size"], tuple(item["words"]), tuple(item["weights"]), tuple(item["typical"]))
            for item in load_json(self.folder / "topics.json")
        ]

    def save_metrics(self, metrics: Mapping[str, Any]) -> None:
        """Keep the figures."""
        save_json(self.folder / "metrics.json", metrics)

    def metrics(self) -> dict[str, Any]:
        """Return the figures."""
        return load_json(self.folder / "metrics.json")
