"""Noise for denoising trainings: words that go missing and tokens that are masked, on ragged ids, without a loop."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from core.encoder.tokens import Tokens

_BEGINNINGS = ("Ġ", "▁")  # of byte-level BPE and SentencePiece
_CONTINUED, _CONTINUES = "##", "@@"  # before what continues a word (WordPiece), after what will be (other BPE)


@dataclass(frozen=True)
class Vocabulary:
    """What noise must know of a tokenizer: which tokens begin a word or go on in the next, are special, or mask."""

    begins: np.ndarray
    goes_on: np.ndarray
    special: np.ndarray
    mask: int | None

    @classmethod
    def of(cls, tokenizer: Any) -> "Vocabulary":
        """Read it once; text is never tokenised again to be made noisy."""
        named = [name or "" for name in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
        # Which of the three ways a tokenizer has shows in most of its tokens; RoBERTa, too, knows a token "###".
        marked = np.array([name.startswith(_BEGINNINGS) for name in named], bool)
        continued = np.array([name.startswith(_CONTINUED) for name in named], bool)
        goes_on = np.array([name.endswith(_CONTINUES) for name in named], bool)
        way = int(np.argmax([marked.sum(), continued.sum(), goes_on.sum()]))
        special = np.zeros(len(named), bool)
        special[list(tokenizer.all_special_ids)] = True
        if tokenizer.unk_token_id is not None:
            special[tokenizer.unk_token_id] = False  # it stands for a word
        begins = (marked, ~continued, np.ones(len(named), bool))[way]
        return cls(begins | special, goes_on & (way == 2), special, tokenizer.mask_token_id)


def without_words(tokens: Tokens, known: Vocabulary, ratio: float, random: np.random.Generator) -> Tokens:
    """Delete whole words, each with probability ``ratio``; every text keeps at least one, and its special tokens."""
    ids, row = tokens.ids, np.repeat(np.arange(len(tokens)), tokens.lengths)
    special = known.special[ids]
    after, inside = np.zeros(len(ids), bool), np.zeros(len(ids), bool)
    after[1:] = special[:-1]  # what follows a special token begins a word even if nothing marks it
    inside[1:] = known.goes_on[ids[:-1]]
    begins = (known.begins[ids] & ~inside | after) & ~special
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
