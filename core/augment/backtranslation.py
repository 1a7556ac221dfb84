"""Back-translation: to another language and back, ten times, and of those the two that suit (SCCL's "Para" row)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from core.augment.base import Augmenter
from core.encoder.source import check_encoder, find_folder, read_config, small_files
from core.errors import BadInput

CLOSENESS = ("lowest", "middle", "highest")
_CANDIDATES, _DRAWN_FROM = 10, 10
_LONGEST = 128
_TEXTS_AT_ONCE = 32
_Model = tuple[str, str]  # a name and, if it is from the hub, the revision


@dataclass(frozen=True)
class BackTranslation(Augmenter):
    """Translates every text there and back into ten candidates and keeps two of them, one for each view.

    Choose it where two translation models can be had and time is plenty. ``closeness`` says which two: those with the
    lowest BLEU to the text (the paper's best), the middle or the highest. The share of changed words is not asked.

    Relations: contextual changes words and leaves the sentence; this may turn the whole sentence.
    """

    name = "backtranslation"
    away: str = ""
    home: str = ""
    closeness: str = CLOSENESS[0]
    member: int = 0
    paired = True

    def missing(self) -> str | None:
        """Say how to name the two models, or why those named cannot serve."""
        if not (self.away and self.home):
            return "name two translation models with first_model (away) and second_model (back), for instance opus-mt."
        for model in (self.away, self.home):
            try:
                check_encoder(model)
                kinds = read_config(model).get("architectures") or []
            except BadInput as refusal:
                return str(refusal)
            if not any("MTModel" in kind or "ConditionalGeneration" in kind for kind in kinds):
                return f"“{model}” is no translation model."
            folder = small_files(model)  # of a model from the hub, all that is known yet is its config
            has_words = (folder / "tokenizer.json").exists() or not any(folder.glob("*.safetensors"))
            if not has_words and find_spec("sentencepiece") is None:
                return f"“{model}” needs one more package: pip install sentencepiece."
        return None

    def version(self) -> str:
        """Return the models, which two of the candidates are meant and which of them this is."""
        return f"{self.away} {self.home} {self.closeness} {self.member}"

    @property
    def _models(self) -> tuple[_Model, _Model]:
        known = self.bench.revisions
        return (self.away, known.get(self.away, "")), (self.home, known.get(self.home, ""))

    def augment(self, texts: Sequence[str], strength: float, seed: int) -> list[str]:
        """Return one member of each text's pair; a text without words stays."""
        rows = [row for row, text in enumerate(texts) if text.strip()]
        found = _route(*self._models, self.bench.device).candidates(tuple(texts[row] for row in rows), seed)
        new = list(texts)
        for row, candidates in zip(rows, found, strict=True):
            new[row] = candidates[pair_by_bleu(texts[row], candidates, self.closeness)[self.member]]
        return new


def pair_by_bleu(text: str, candidates: Sequence[str], closeness: str) -> tuple[int, int]:
    """Return the places of two candidates, by lowest, middle or highest BLEU to the text, that differ if any do."""
    from sacrebleu.metrics import BLEU

    different = [place for place, candidate in enumerate(candidates) if candidate not in candidates[:place]]
    if 1 < len(different) < len(candidates):  # two equal views would teach nothing
        first, second = pair_by_bleu(text, [candidates[place] for place in different], closeness)
        return different[first], different[second]
    score = BLEU(effective_order=True)  # a text shorter than four words has no 4-grams
    scores = [score.sentence_score(candidate, [text]).score for candidate in candidates]
    order = np.argsort(scores, kind="stable")
    first = {"lowest": 0, "middle": len(order) // 2 - 1, "highest": len(order) - 2}[closeness]
    return int(order[first]), int(order[first + 1])


@dataclass
class _Route:
    """The two models of a journey, and the last candidates, because both views of a text come from the same ten."""

    away: _Model
    home: _Model
    device: str
    _last: tuple[tuple[tuple[str, ...], int], list[list[str]]] | None = field(default=None)

    def candidates(self, texts: tuple[str, ...], seed: int) -> list[list[str]]:
        """Return ten ways home for every text."""
        import torch

        if self._last is None or self._last[0] != (texts, seed):
            found: list[list[str]] = []
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                torch.manual_seed(seed)
                for start in range(0, len(texts), _TEXTS_AT_ONCE):
                    found += self._there_and_back(list(texts[start : start + _TEXTS_AT_ONCE]))
            self._last = (texts, seed), found
        return self._last[1]

    def _there_and_back(self, texts: list[str]) -> list[list[str]]:
        away = _translated(*self._there, texts, num_beams=1, do_sample=False)
        drawn = {"do_sample": True, "top_k": _DRAWN_FROM, "num_beams": 1, "num_return_sequences": _CANDIDATES}
        home = _translated(*self._back, away, **drawn)
        return [home[start : start + _CANDIDATES] for start in range(0, len(home), _CANDIDATES)]

    @cached_property
    def _there(self) -> tuple[Any, Any]:
        return _loaded(self.away, self.device)

    @cached_property
    def _back(self) -> tuple[Any, Any]:
        return _loaded(self.home, self.device)


@lru_cache(maxsize=1)
def _route(away: _Model, home: _Model, device: str) -> _Route:
    return _Route(away, home, device)


def _loaded(model: _Model, device: str) -> tuple[Any, Any]:
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder, options = find_folder(*model), {"local_files_only": True, "trust_remote_code": False}
    tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    return tokenizer, AutoModelForSeq2SeqLM.from_pretrained(folder, use_safetensors=True, **options).eval().to(device)


def _translated(tokenizer: Any, model: Any, texts: list[str], **how: Any) -> list[str]:
    import torch

    found = tokenizer(texts, truncation=True, max_length=_LONGEST, padding=True, return_tensors="pt").to(model.device)
    taken = {name: found[name] for name in ("input_ids", "attention_mask")}
    longest = min(_LONGEST, 2 * found["input_ids"].shape[1] + 10)
    with torch.inference_mode():
        made = model.generate(**taken, max_new_tokens=longest, max_length=None, **how)
    return [text.strip() for text in tokenizer.batch_decode(made, skip_special_tokens=True)]
