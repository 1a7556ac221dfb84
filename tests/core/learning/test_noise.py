"""Noise: whole words go missing whatever way a tokenizer marks them, and tokens are masked."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from core.encoder.source import EMBEDDED, find_folder
from core.encoder.tokens import Tokens
from core.learning.noise import Vocabulary, masked, without_words
from tests.core.learning.tiny import plain_vocabulary


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(5, 59), max_size=12), min_size=1, max_size=8),
    st.sampled_from([0.0, 0.3, 0.6, 0.95]),
    st.integers(0, 99),
)
def test_whole_words_go_missing_and_one_always_stays(lists: list[list[int]], ratio: float, seed: int) -> None:
    known = plain_vocabulary()
    texts = Tokens.from_lists([[1, *line, 2] for line in lists])
    left = without_words(texts, known, ratio, np.random.default_rng(seed))
    assert len(left) == len(texts)
    for row, line in enumerate(lists):
        words: list[list[int]] = []
        for token in line:
            if known.begins[token] or not words:
                words.append([])
            words[-1].append(token)
        rest = left[row].tolist()
        assert rest[0] == 1 and rest[-1] == 2
        rest, kept = rest[1:-1], 0
        for word in words:  # what is left is a run through the words, each whole or gone
            if rest[: len(word)] == word:
                rest, kept = rest[len(word) :], kept + 1
        assert not rest or ratio > 0
        assert kept >= min(1, len(words)) and (ratio > 0 or kept == len(words))


def test_noise_leaves_about_as_much_as_it_says() -> None:
    texts = Tokens.from_lists([[1, *([7] * 50), 2]] * 200)
    left = without_words(texts, plain_vocabulary(), 0.6, np.random.default_rng(0))
    assert 0.38 < (left.lengths.mean() - 2) / 50 < 0.42
    hidden, places = masked(texts, plain_vocabulary(), 0.1, np.random.default_rng(0))
    assert 0.09 < len(places) / (200 * 50) < 0.11 and (hidden.ids[places] == 3).all()
    assert (np.delete(hidden.ids, places) == np.delete(texts.ids, places)).all()
    assert not plain_vocabulary().special[texts.ids[places]].any()


def test_at_least_one_token_is_masked_and_none_where_none_can_be() -> None:
    known = plain_vocabulary()
    assert len(masked(Tokens.from_lists([[1, 9, 2]]), known, 0.01, np.random.default_rng(1))[1]) == 1
    only_special = Tokens.from_lists([[1, 2], [1, 2]])
    shown, places = masked(only_special, known, 0.5, np.random.default_rng(0))
    assert len(places) == 0 and (shown.ids == only_special.ids).all()


class Named:
    """A tokenizer that is nothing but the names of its tokens."""

    def __init__(self, *names: str) -> None:
        """Know which of them are special."""
        self.names = names
        self.all_special_ids = [at for at, name in enumerate(names) if name in ("<s>", "<unk>", "<mask>")]
        self.unk_token_id, self.mask_token_id = names.index("<unk>"), names.index("<mask>")

    def __len__(self) -> int:
        """Return how many tokens there are."""
        return len(self.names)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """Name tokens."""
        return [self.names[at] for at in ids]


def test_word_beginnings_are_read_from_the_real_tokenizer_and_from_byte_pairs() -> None:
    tokenizer = AutoTokenizer.from_pretrained(find_folder(EMBEDDED))
    known = Vocabulary.of(tokenizer)
    pieces = tokenizer("unbelievably")["input_ids"]
    assert known.begins[pieces].tolist()[:3] == [True, True, False] and known.special[pieces[0]]
    # As in RoBERTa's own vocabulary: a token that looks like the end of a word elsewhere.
    pairs = Vocabulary.of(Named("<s>", "<unk>", "<mask>", "Ġthe", "cat", "Ġsat", "###"))
    assert pairs.begins.tolist() == [True, False, True, True, False, True, False] and not pairs.goes_on.any()


def test_pieces_that_say_the_word_goes_on_are_kept_or_left_out_with_the_next() -> None:
    known = Vocabulary.of(Named("<s>", "<unk>", "<mask>", "un@@", "believ@@", "ably", "so"))
    texts = Tokens.from_lists([[0, 3, 4, 5, 6, 0]] * 40)
    left = without_words(texts, known, 0.5, np.random.default_rng(0))
    assert {tuple(left[row].tolist()) for row in range(40)} == {(0, 3, 4, 5, 6, 0), (0, 3, 4, 5, 0), (0, 6, 0)}


def test_an_unknown_word_is_a_word() -> None:
    known = Vocabulary.of(Named("<s>", "<unk>", "<mask>", "Ġthe"))
    texts = Tokens.from_lists([[0, 1, 3, 0]] * 400)
    left = without_words(texts, known, 0.6, np.random.default_rng(0))
    assert 0.4 < (left.ids == 1).mean() / (left.ids != 0).mean() < 0.6
    assert (masked(texts, known, 0.9, np.random.default_rng(0))[0].ids == 1).sum() < 100
