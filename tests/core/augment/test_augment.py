"""The contract of every augmenter, and the stage in which they work."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.augment import AUGMENTERS
from core.augment.backtranslation import CLOSENESS, BackTranslation, _route, pair_by_bleu
from core.augment.base import Augmenter, change_words
from core.augment.contextual import Contextual
from core.augment.views import make_views
from core.augment.wordnet import read_synonyms
from core.bench import Bench
from core.encoder.source import EMBEDDED, find_folder
from core.events import Progress, StageStarted
from core.maps.projector import Projector
from tests.conftest import GROUPS, drained, obvious_table

LEXICON = """  1 the licence
00001740 03 n 03 dinner 0 supper 0 evening_meal 0 001 @ 00001930 n 0000 | a meal
00001930 03 n 02 match 0 game 1 000 | a contest
00002137 03 n 04 rocket 0 projectile 0 Missile(p) 0 team 0 000 | that flies
"""
TEXTS = obvious_table()["text"].to_list()
ODD = ["", "a", "???", "One", "  spaced   out  ", "日本語 テキスト", "word\nline two"]


@pytest.fixture(autouse=True)
def lexicon(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay out a small WordNet: its format, a few of its senses, enough for the texts here."""
    folder = tmp_path_factory.mktemp("wordnet")
    words = [word for group in GROUPS.values() for word in group]
    more = "".join(f"000{9000 + i} 03 n 02 {word} 0 {word}ish 0 000 | x\n" for i, word in enumerate(words))
    (folder / "data.noun").write_text(LEXICON + more)
    for kind in ("verb", "adj", "adv"):
        (folder / f"data.{kind}").write_text("  1 the licence\n")
    monkeypatch.setenv("TOPICSCOPE_WORDNET", str(folder))
    return folder


def test_wordnet_is_read_by_sense_and_absent_it_says_what_helps(
    lexicon: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = read_synonyms(lexicon)
    assert known["match"] == ("game", "matchish") and known["supper"] == ("dinner",)
    assert "missile" in known["rocket"] and not any("_" in word for words in known.values() for word in words)
    monkeypatch.delenv("TOPICSCOPE_WORDNET")
    monkeypatch.setattr("core.augment.wordnet._PLACES", ())
    assert "wordnet-base" in (AUGMENTERS["wordnet"](bench_of(TEXTS, tmp_path)).missing() or "")


def bench_of(texts: list[str], cache: Path, seed: int = 0) -> Bench:
    return Bench(texts, seed, EMBEDDED, "cpu", 256, "float32", cache, Projector())


@pytest.fixture(scope="module")
def fill_mask(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a tiny BERT with a language-model head and teach it the texts of this file for a moment."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    folder = tmp_path_factory.mktemp("fill-mask")
    tokenizer = AutoTokenizer.from_pretrained(find_folder(EMBEDDED))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **sizes))
    found = tokenizer(TEXTS, padding=True, return_tensors="pt")
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(25):
        masked = found["input_ids"].masked_fill(torch.rand(found["input_ids"].shape) < 0.15, tokenizer.mask_token_id)
        loss = model(input_ids=masked, attention_mask=found["attention_mask"], labels=found["input_ids"]).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(folder)
    return folder


def marian(folder: Path, seed: int) -> Path:
    """Lay out a tiny translation model that has learnt nothing: what it says is drawn from a third of a vocabulary."""
    import torch
    from transformers import AutoTokenizer, MarianConfig, MarianMTModel

    tokenizer = AutoTokenizer.from_pretrained(find_folder(EMBEDDED))
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    sides = ("encoder_layers", "decoder_layers", "encoder_attention_heads", "decoder_attention_heads")
    sizes: dict[str, Any] = {"d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16} | dict.fromkeys(sides, 1)
    ends = {"pad_token_id": 0, "eos_token_id": 102, "decoder_start_token_id": 0, "forced_eos_token_id": None}
    MarianMTModel(MarianConfig(vocab_size=len(tokenizer), **sizes, **ends)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the folders of a model for each direction."""
    return tuple(str(marian(tmp_path_factory.mktemp(name), seed)) for seed, name in enumerate(("away", "home")))  # type: ignore[return-value]


def made_for(name: str, cache: Path, fill_mask: Path, translators: tuple[str, str] = ("", "")) -> Augmenter:
    """Return an augmenter with what it needs."""
    bench = bench_of(TEXTS, cache)
    if name == "backtranslation":
        return BackTranslation(bench, *translators)
    return Contextual(bench, str(fill_mask)) if name == "contextual" else AUGMENTERS[name](bench)


def test_a_word_without_tokens_does_not_spoil_the_others(tmp_path: Path) -> None:
    """A tokenizer may leave nothing of a word, here of one made of a sign that it drops."""
    texts = [text + " \u0378\u0378a\u0300" for text in TEXTS] + ["\u00adword", "\u00ad\u00ad\u00ad"] * 3
    changed = AUGMENTERS["neighbour"](bench_of(texts, tmp_path)).augment(TEXTS, 0.5, 1)
    assert np.mean([new != old for new, old in zip(changed, TEXTS, strict=True)]) > 0.9


def test_both_views_of_a_back_translation_are_of_the_same_ten(tmp_path: Path, translators: tuple[str, str]) -> None:
    bench = bench_of(TEXTS[:3], tmp_path)
    found = {}
    for closeness in CLOSENESS:
        makers = [[BackTranslation(bench, *translators, closeness, member)] for member in (0, 1)]
        found[closeness] = drained(make_views(bench, makers, 0.2))[0]
        assert found[closeness][0] != found[closeness][1]
    assert found["lowest"] != found["highest"]
    ten = _route(*((name, "") for name in translators), "cpu").candidates(tuple(TEXTS[:3]), 0)
    assert all(len(candidates) == 10 for candidates in ten)


def test_the_pair_is_that_of_the_lowest_middle_or_highest_bleu() -> None:
    text = "one two three four five six"
    words = text.split()
    candidates = [" ".join(words[:kept] + ["x"] * (6 - kept)) for kept in (6, 0, 5, 1, 4, 2, 3)]
    candidates += ["x y", "one two three four five six", "z"]
    assert text in {candidates[at] for at in pair_by_bleu(text, candidates, "highest")}
    low = pair_by_bleu(text, candidates, "lowest")
    assert all(not set(candidates[at].split()) & set(words) for at in low) and low[0] != low[1]
    middle = {len(set(candidates[at].split()) & set(words)) for at in pair_by_bleu(text, candidates, "middle")}
    assert middle <= {1, 2, 3, 4}
    few = ["one two", "one two", "one two three four", "one two"]
    assert {pair_by_bleu("one two three", few, closeness) for closeness in CLOSENESS} <= {(0, 2), (2, 0)}
    assert set(pair_by_bleu("one", ["two", "two"], "lowest")) == {0, 1}, "where all are equal, two of them serve"


def test_back_translation_says_what_it_lacks(tmp_path: Path, fill_mask: Path, translators: tuple[str, str]) -> None:
    bench = bench_of(TEXTS, tmp_path)
    for models, sentence in (
        (("", ""), "first_model"),
        ((translators[0], ""), "second_model"),
        ((translators[0], "nobody/nothing"), "cannot be reached"),
        ((str(fill_mask), translators[1]), "no translation model"),
    ):
        assert sentence in (BackTranslation(bench, *models).missing() or "")


def test_contextual_words_fit_their_place_and_a_missing_model_is_said(tmp_path: Path, fill_mask: Path) -> None:
    known = {word.lower() for text in TEXTS for word in text.split()}
    views = made_for("contextual", tmp_path, fill_mask).augment(TEXTS, 0.2, 0)
    new = {word.lower() for view in views for word in view.split()}
    assert len(new & known) > 0.5 * len(new), "a model that learnt these texts puts in their words"
    assert all(len(view.split()) == len(text.split()) for view, text in zip(views, TEXTS, strict=True))
    bench = bench_of(TEXTS, tmp_path)
    for model, sentence in (("", "first_model"), ("nobody/nothing", "cannot be reached"), (EMBEDDED, "no fill-mask")):
        assert sentence in (Contextual(bench, model).missing() or "")


@pytest.mark.parametrize("name", AUGMENTERS)
def test_the_same_seed_says_the_same_and_another_one_something_else(
    name: str, tmp_path: Path, fill_mask: Path, translators: tuple[str, str]
) -> None:
    augmenter = made_for(name, tmp_path, fill_mask, translators)
    texts = TEXTS[:3] if name == "backtranslation" else TEXTS  # ten candidates for each take long
    first, again, other = (augmenter.augment(texts, 0.3, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == len(texts)
    assert np.mean([new != old for new, old in zip(first, texts, strict=True)]) > 0.9


@pytest.mark.parametrize("name", [name for name in AUGMENTERS if name != "backtranslation"])
def test_strength_is_the_share_of_words_that_change(name: str, tmp_path: Path, fill_mask: Path) -> None:
    long = [" ".join(TEXTS[row : row + 5]) for row in range(0, 30, 5)]
    augmenter = made_for(name, tmp_path, fill_mask)
    changed = []
    for strength in (0.1, 0.5):
        views = augmenter.augment(long, strength, 0)
        kept = [
            len(set(new.split()) & set(old.split())) / len(set(old.split()))
            for new, old in zip(views, long, strict=True)
        ]
        changed.append(1 - np.mean(kept))
    assert 0 < changed[0] < changed[1] < 0.9


@pytest.mark.parametrize("name", AUGMENTERS)
def test_odd_texts_do_no_harm(name: str, tmp_path: Path, fill_mask: Path, translators: tuple[str, str]) -> None:
    made = made_for(name, tmp_path, fill_mask, translators).augment(ODD, 0.5, 0)
    assert len(made) == len(ODD) and all(isinstance(text, str) for text in made)
    assert made[0] == ""


@pytest.mark.parametrize("name", AUGMENTERS)
def test_every_augmenter_is_here_and_says_when_to_choose_it(
    name: str, tmp_path: Path, fill_mask: Path, translators: tuple[str, str]
) -> None:
    kind = AUGMENTERS[name]
    assert kind.__module__ == f"core.augment.{name}" and "Relations:" in (kind.__doc__ or "")
    assert made_for(name, tmp_path, fill_mask, translators).missing() is None


def test_files_and_registry_agree() -> None:
    folder = Path(__file__).parents[3] / "core" / "augment"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__", "base", "views"} == set(AUGMENTERS)


def test_punctuation_and_case_stay_around_a_changed_word() -> None:
    random = np.random.default_rng(0)
    assert change_words("(Hello), WORLD!", 1.0, random, lambda word: "new") == "(New), NEW!"
    assert change_words("one two", 0.5, random, lambda word: None) == "one two"
    assert change_words("", 0.5, random, lambda word: "x") == ""


def test_a_word_becomes_one_of_nearly_the_same_meaning(tmp_path: Path) -> None:
    texts = [
        f"the {word} is here and the {word} is good"
        for word in "car automobile vehicle dog puppy cat apple banana pear".split()
    ] * 3
    words, place, near, weight = AUGMENTERS["neighbour"](bench_of(texts, tmp_path))._vocabulary  # type: ignore[attr-defined]
    best = words[near[place["car"], weight[place["car"]].argmax()]]
    assert best in ("automobile", "vehicle")
    np.testing.assert_allclose(weight.sum(1), 1)


def test_views_are_made_once_with_progress_and_then_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_of(TEXTS, tmp_path)
    drop = AUGMENTERS["worddrop"]
    views, told = drained(make_views(bench, [(drop(bench), AUGMENTERS["charswap"](bench))] * 2, 0.3))
    assert len(views) == 2 and views[0] != views[1] and all(len(view) == len(TEXTS) for view in views)
    assert isinstance(told[0], StageStarted) and isinstance(told[-1], Progress) and told[-1].done == told[-1].total
    monkeypatch.setattr(drop, "augment", lambda *_: pytest.fail("made again"))
    again, _ = drained(make_views(bench, [(drop(bench), AUGMENTERS["charswap"](bench))] * 2, 0.3))
    assert again == views


def test_a_text_is_never_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drop = AUGMENTERS["worddrop"]
    monkeypatch.setattr(drop, "augment", lambda self, texts, strength, seed: [""] * len(texts))
    bench = bench_of(TEXTS, tmp_path)
    views, _ = drained(make_views(bench, [[drop(bench)]] * 2, 0.3))
    assert views[0] == TEXTS
