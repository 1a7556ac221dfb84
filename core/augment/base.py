"""The contract of an augmenter: texts in, as many texts out, the same for the same seed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from core.bench import Bench

_CORE = re.compile(r"^(\W*)(.*?)(\W*)$", re.DOTALL)


@dataclass(frozen=True)
class Augmenter:
    """Says the same in other words. Subclasses write ``augment``; what they need is loaded when first used."""

    name: ClassVar[str]
    paired: ClassVar[bool] = False  # both views come from one draw, so both are made with the same seed
    bench: Bench

    def missing(self) -> str | None:
        """Return the one line that makes it available, or None if it is."""
        return None

    def version(self) -> str:
        """Return what decides its words beside texts, strength and seed, so that kept views stay true."""
        return ""

    def augment(self, texts: Sequence[str], strength: float, seed: int) -> list[str]:
        """Return each text in other words; ``strength`` is the share of words that change."""
        raise AssertionError(f"{self.name} does not augment")


def change_words(text: str, strength: float, random: np.random.Generator, change: Callable[[str], str | None]) -> str:
    """Change a share of a text's words, at least one if any can be: punctuation around a word and its case stay.

    ``change`` returns a new word, or None where it has none; then another place is tried.
    """
    words = text.split()
    wanted, done = max(1, round(strength * len(words))), 0
    for place in random.permutation(len(words)):
        if done == wanted:
            break
        before, core, after = _CORE.match(words[place]).groups()  # type: ignore[union-attr]
        new = change(core) if core else None
        if new is not None and new != core:
            cased = new.upper() if core.isupper() and len(core) > 1 else new.capitalize() if core[:1].isupper() else new
            words[place] = before + cased + after
            done += 1
    return " ".join(words)
