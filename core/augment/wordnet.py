"""WordNet synonyms: a word becomes another lemma of one of its senses."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from core.augment.base import Augmenter, change_words

_PLACES = ("/usr/share/wordnet", "~/nltk_data/corpora/wordnet", "/usr/share/nltk_data/corpora/wordnet")
_KINDS = ("noun", "verb", "adj", "adv")


@dataclass(frozen=True)
class WordNet(Augmenter):
    """Replaces English words by synonyms of any of their senses, stop words excepted. Needs the WordNet lexicon.

    Relations: neighbour finds its words in the corpus and in any language; SCCL's paper finds this weaker than
    contextual.
    """

    name = "wordnet"

    def missing(self) -> str | None:
        """Say how to get the lexicon."""
        if find_wordnet() is None:
            return (
                "install Debian's wordnet-base, or run python -m nltk.downloader wordnet, or set TOPICSCOPE_WORDNET to "
                "a folder with data.noun."
            )
        return None

    def augment(self, texts: Sequence[str], strength: float, seed: int) -> list[str]:
        """Replace words."""
        random = np.random.default_rng(seed)
        return [change_words(text, strength, random, partial(self._synonym, random)) for text in texts]

    def _synonym(self, random: np.random.Generator, word: str) -> str | None:
        known = () if word.lower() in ENGLISH_STOP_WORDS else self._synonyms.get(word.lower(), ())
        return known[random.integers(len(known))] if known else None

    @cached_property
    def _synonyms(self) -> dict[str, tuple[str, ...]]:
        folder = find_wordnet()
        assert folder is not None
        return read_synonyms(folder)


def find_wordnet() -> Path | None:
    """Return the folder of the lexicon: the one named in the environment, Debian's or nltk's."""
    for place in (os.environ.get("TOPICSCOPE_WORDNET"), *_PLACES):
        if place and (folder := Path(place).expanduser()).joinpath("data.noun").is_file():
            return folder
    return None


@lru_cache(maxsize=1)
def read_synonyms(folder: Path) -> dict[str, tuple[str, ...]]:
    """Read all one-word lemmas that share a sense, from the lexicon's own files.

    A line of a data file is: offset, file number, kind, number of words in hexadecimal, then word and id in turn.
    """
    found: dict[str, set[str]] = {}
    for kind in _KINDS:
        for line in (folder / f"data.{kind}").read_text("utf-8").splitlines():
            if line.startswith("  "):  # the licence
                continue
            parts = line.split(" ")
            lemmas = [parts[4 + 2 * place].split("(")[0].lower() for place in range(int(parts[3], 16))]
            single = [lemma for lemma in lemmas if "_" not in lemma]
            for lemma in single:
                found.setdefault(lemma, set()).update(single)
    return {lemma: tuple(sorted(others - {lemma})) for lemma, others in found.items() if len(others) > 1}
