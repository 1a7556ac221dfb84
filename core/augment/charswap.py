"""Character noise: the same text with typing mistakes."""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from core.augment.base import Augmenter, change_words


@dataclass(frozen=True)
class CharSwap(Augmenter):
    """Swaps, replaces, deletes or inserts one letter in some words, as hasty fingers do.

    Relations: SCCL's paper tries it only after a change of words (Fig 5); alone it is ours.
    """

    name = "charswap"

    def augment(self, texts: Sequence[str], strength: float, seed: int) -> list[str]:
        """Make mistakes."""
        random = np.random.default_rng(seed)
        return [change_words(text, strength, random, partial(_mistyped, random)) for text in texts]


def _mistyped(random: np.random.Generator, word: str) -> str | None:
    if len(word) < 2:
        return None
    place, letter = int(random.integers(len(word) - 1)), string.ascii_lowercase[random.integers(26)]
    head, here, after, tail = word[:place], word[place], word[place + 1], word[place + 2 :]
    return [
        head + after + here + tail,
        head + letter + after + tail,
        head + after + tail,
        head + here + letter + after + tail,
    ][random.integers(4)]
