"""Word dropping: the same text with some of its words missing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.augment.base import Augmenter


@dataclass(frozen=True)
class WordDrop(Augmenter):
    """Leaves out each word with the probability given, never all of them. Needs nothing, suits every language.

    Relations: neighbour keeps the length of a text and changes its words; this keeps the words and shortens the text.
    """

    name = "worddrop"

    def augment(self, texts: Sequence[str], strength: float, seed: int) -> list[str]:
        """Drop words."""
        random = np.random.default_rng(seed)
        return [_dropped(text, strength, random) for text in texts]


def _dropped(text: str, strength: float, random: np.random.Generator) -> str:
    words = text.split()
    if len(words) < 2:
        return text
    kept = random.random(len(words)) >= strength
    if kept.all():
        kept[random.integers(len(words))] = False
    if not kept.any():
        kept[random.integers(len(words))] = True
    return " ".join(word for word, keep in zip(words, kept, strict=True) if keep)
