"""The size of a transformer and what follows from it, without its weights and without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SPLITTABLE = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "mpnet")  # MiniLM is a bert
DECODABLE = ("bert", "roberta", "xlm-roberta", "camembert")  # whose layers can also say texts
TOKENS_HELD = 65_536  # times layers that learn: what a training step may hold at once


@dataclass(frozen=True)
class Shape:
    """A transformer's size, read from its config.json before any weights are."""

    kind: str
    layers: int
    width: int
    inner: int
    pooling: str = ""  # "mean" or "first" where a sentence encoder says how it was trained

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Shape":
        """Read the shape; DistilBERT has words of its own for it."""
        width = int(config.get("hidden_size") or config.get("dim") or 768)
        layers = int(config.get("num_hidden_layers") or config.get("n_layers") or 12)
        inner = int(config.get("intermediate_size") or config.get("hidden_dim") or 4 * width)
        return cls(str(config.get("model_type", "")), layers, width, inner)

    @property
    def splits(self) -> bool:
        """Say whether the layers can be entered one by one; any other architecture learns as a whole."""
        return self.kind in SPLITTABLE

    @property
    def products(self) -> int:
        """Multiplications per token in the linear maps of one layer."""
        return 4 * self.width**2 + 2 * self.width * self.inner
