"""The bench: everything a method may use. It holds no label column, so no label can leak into training."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.encoder import Encoder
from core.events import Progress, StageStarted
from core.files import save_array
from core.steps.projector import Projector
from core.work import Work


@dataclass(frozen=True)
class Bench:
    """Texts, encoder, seed, cache folder and resolved settings of one run."""

    texts: Sequence[str]
    seed: int
    encoder: str
    device: str
    token_limit: int
    cache: Path
    projector: Projector

    def encode(self, pooling: str, stage: str = "encode") -> Work[np.ndarray]:
        """Encode all texts, or read the vectors if the same texts were encoded before. Equal texts are encoded once."""
        found, inverse = np.unique(np.asarray(self.texts, dtype=object), return_inverse=True)
        distinct: list[str] = found.tolist()
        yield StageStarted(stage, len(distinct))
        encoder = Encoder(self.encoder, self.device, self.token_limit)
        path = self.cache / "vectors" / f"{self._digest(encoder, pooling, distinct)}.npy"
        if not path.exists():
            vectors: np.ndarray | None = None
            done = 0
            for rows, batch in encoder.vectors(distinct, pooling):
                if vectors is None:
                    vectors = np.empty((len(distinct), batch.shape[1]), np.float32)
                vectors[rows] = batch
                done += len(rows)
                yield Progress(stage, done, len(distinct))
            assert vectors is not None
            save_array(path, vectors)
        yield Progress(stage, len(distinct), len(distinct))
        return np.load(path, allow_pickle=False)[inverse]

    def _digest(self, encoder: Encoder, pooling: str, texts: Sequence[str]) -> str:
        head = f"{encoder.weights_digest} {pooling} {self.token_limit} {self.device}\n"
        digest = hashlib.sha256(head.encode())
        for text in texts:
            raw = text.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "little") + raw)
        return digest.hexdigest()[:32]
