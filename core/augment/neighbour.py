"""Neighbour words: a word becomes another that the encoder itself takes for nearly the same."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from core.augment.base import Augmenter, change_words
from core.encoder.vectors import normalised

_WORD = re.compile(r"[^\W\d_][\w'+#-]*")
_MOST_WORDS = 12_000
_LEAST_TIMES = 2
_NEIGHBOURS = 8
_BLOCK = 2_000


@dataclass(frozen=True)
class Neighbour(Augmenter):
    """Replaces words by neighbours from the corpus's own vocabulary. Needs nothing but the encoder.

    Two words are neighbours if they are close both in the encoder's input embeddings and as sentences of one word,
    so that the text's vector stays close. The embedded default where there is no fill-mask model.

    Relations: contextual asks a language model what fits in this place; this asks which words mean nearly the same.
    """

    name = "neighbour"

    def version(self) -> str:
        """Return the weights' fingerprint."""
        return self.bench.load().weights_digest[:16]

    def augment(self, texts: Sequence[str], strength: float, seed: int) -> list[str]:
        """Replace words."""
        random = np.random.default_rng(seed)
        return [change_words(text, strength, random, partial(self._replaced, random)) for text in texts]

    def _replaced(self, random: np.random.Generator, word: str) -> str | None:
        words, place, near, weight = self._vocabulary
        found = place.get(word.lower())
        return None if found is None else words[near[found, random.choice(_NEIGHBOURS, p=weight[found])]]

    @cached_property
    def _vocabulary(self) -> tuple[list[str], dict[str, int], np.ndarray, np.ndarray]:
        """Return the corpus's words, where each is, its neighbours and how likely each of them is drawn."""
        counts = Counter(word for text in self.bench.texts for word in set(_WORD.findall(text.lower())))
        words = [word for word, times in counts.most_common(_MOST_WORDS) if times >= _LEAST_TIMES]
        if len(words) <= _NEIGHBOURS:
            return words, {}, np.empty((0, 0), int), np.empty((0, 0))
        encoder = self.bench.load()
        tokens, _ = encoder.tokens(words)
        read = np.flatnonzero(tokens.lengths > len(encoder.tokenizer("")["input_ids"]))  # words it has tokens for
        words, tokens = [words[row] for row in read], tokens.taken(read)
        if len(words) <= _NEIGHBOURS:
            return words, {}, np.empty((0, 0), int), np.empty((0, 0))
        whole = np.empty((len(words), encoder.shape.width), np.float32)
        for rows, vectors in encoder.vectors(tokens, "mean"):
            whole[rows] = vectors
        table = encoder.model.get_input_embeddings().weight.detach().float().cpu().numpy()
        pieces = np.stack([table[tokens[row][1:-1]].mean(0) for row in range(len(words))])
        near, weight = _nearest(normalised(whole - whole.mean(0)), normalised(pieces - pieces.mean(0)))
        return words, {word: row for row, word in enumerate(words)}, near, weight


def _nearest(whole: np.ndarray, pieces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each word's neighbours by the mean of both cosines, nearer ones more likely."""
    near = np.empty((len(whole), _NEIGHBOURS), np.int64)
    weight = np.empty((len(whole), _NEIGHBOURS))
    for start in range(0, len(whole), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(whole)))
        alike = (whole[rows] @ whole.T + pieces[rows] @ pieces.T) / 2
        alike[np.arange(len(rows)), rows] = -2
        best = np.argpartition(-alike, _NEIGHBOURS, axis=1)[:, :_NEIGHBOURS]
        values = np.exp(10 * np.take_along_axis(alike, best, 1).astype(np.float64))
        near[rows], weight[rows] = best, values / values.sum(1, keepdims=True)
    return near, weight
