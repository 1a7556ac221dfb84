"""Noise for denoising trainings: words that go missing and tokens that are masked, on ragged ids, without a loop."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from core.tokens import Tokens

_BEGINNINGS = ("Ġ", "▁")  # of byte-level BPE and SentencePiece; WordPiece marks what continues instead


@dataclass(frozen=True)
class Vocabulary:
    """What noise must know of a tokenizer: which tokens begin a word, which are special, which one masks."""

    begins: np.ndarray
    special: np.ndarray
    mask: int | None

    @classmethod
    def of(cls, tokenizer: Any) -> "Vocabulary":
        """Read it once; text is never tokenised again to be made noisy."""
        named = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
        marked = not any(name and name.startswith("##") for name in named)
        begins = [
            bool(name) and (name.startswith(_BEGINNINGS) if marked else not name.startswith("##")) for name in named
        ]
        special = np.zeros(len(named), bool)
        special[list(tokenizer.all_special_ids)] = True
        return cls(np.array(begins) | special, special, tokenizer.mask_token_id)


def without_words(tokens: Tokens, known: Vocabulary, ratio: float, random: np.random.Generator) -> Tokens:
    """Delete whole words, each with probability ``ratio``; every text keeps at least one, and its special tokens."""
    ids, row = tokens.ids, np.repeat(np.arange(len(tokens)), tokens.lengths)
    special = known.special[ids]
    after = np.zeros(len(ids), bool)
    after[1:] = special[:-1]  # what follows a special token begins a word even if nothing marks it
    begins = (known.begins[ids] | after) & ~special
    begins[tokens.offsets[:-1][tokens.lengths > 0]] |= True
    word = np.cumsum(begins) - 1
    if not len(word):
        return tokens
    words, owner = word[-1] + 1, np.empty(word[-1] + 1, np.int64)
    owner[word] = row
    real = np.zeros(words, bool)
    real[word[~special]] = True
    chance = random.random(words)
    chance[~real] = -1.0
    best = np.full(len(tokens), -1.0)
    np.maximum.at(best, owner, chance)
    keep = (chance >= ratio) | (real & (chance == best[owner]))
    left = special | keep[word]
    return Tokens(ids[left], np.concatenate([[0], np.cumsum(np.bincount(row[left], minlength=len(tokens)))]))


def masked(tokens: Tokens, known: Vocabulary, ratio: float, random: np.random.Generator) -> tuple[Tokens, np.ndarray]:
    """Put the mask in the place of a share of tokens, always the mask (UFT); return also where. One at the least."""
    assert known.mask is not None
    chance = random.random(len(tokens.ids))
    chance[known.special[tokens.ids]] = 2.0
    places = np.flatnonzero(chance < ratio)
    if not len(places) and len(chance) and chance.min() <= 1.0:
        places = np.array([chance.argmin()])
    ids = tokens.ids.copy()
    ids[places] = known.mask
    return Tokens(ids, tokens.offsets), places
