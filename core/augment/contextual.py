"""Contextual substitution: a language model says which words would fit in a word's place (SCCL's own augmenter)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from core.augment.base import Augmenter
from core.encoder.source import check_encoder, find_folder, read_config
from core.errors import BadInput

_MOST_CHANGES, _CONSIDERED, _ACCEPTED = 10, 100, 10
_LONGEST = 128
_TEXTS_AT_ONCE = 64
_WORD = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Contextual(Augmenter):
    """Masks words and puts in what a fill-mask model finds likely there. Needs such a model, by name or folder.

    Choose it wherever a model hub can be reached: the paper finds it the best, with two different models for the two
    views. The embedded encoder cannot do it, because it comes without a language-model head.

    Relations: neighbour asks for words of nearly the same meaning, this for words that fit the place, which may be
    about something else and so teaches what a topic does not depend on.
    """

    name = "contextual"
    model: str = ""

    def missing(self) -> str | None:
        """Say how to name a model, or why the one named cannot serve."""
        if not self.model:
            return "name a fill-mask model with the knobs first_model and second_model, for instance roberta-base."
        try:
            check_encoder(self.model)
            kinds = read_config(self.model).get("architectures") or []
        except BadInput as refusal:
            return str(refusal)
        return None if any("MaskedLM" in kind for kind in kinds) else f"“{self.model}” is no fill-mask model."

    def version(self) -> str:
        """Return the model's name."""
        return self.model

    def augment(self, texts: Sequence[str], strength: float, seed: int) -> list[str]:
        """Change words from right to left, the r-th of all texts in one forward, later ones seeing earlier ones."""
        random = np.random.default_rng(seed)
        words = [text.split() for text in texts]
        places = [self._places(line, strength, random) for line in words]
        for rank in range(max(map(len, places), default=0)):
            rows = [row for row, chosen in enumerate(places) if rank < len(chosen)]
            for start in range(0, len(rows), _TEXTS_AT_ONCE):
                self._change(words, {row: places[row][rank] for row in rows[start : start + _TEXTS_AT_ONCE]}, random)
        return [" ".join(line) for line in words]

    def _places(self, words: list[str], strength: float, random: np.random.Generator) -> list[int]:
        """Choose what to change: a share of the text's tokens, between one and ten words, punctuation never."""
        eligible = [place for place, word in enumerate(words) if _WORD.search(word)]
        tokens = len(self._tokenizer(" ".join(words), add_special_tokens=False)["input_ids"])
        count = min(max(1, ceil(strength * tokens)), _MOST_CHANGES, len(eligible))
        return sorted(random.permutation(eligible)[:count].tolist(), reverse=True) if eligible else []

    def _change(self, words: list[list[str]], place: dict[int, int], random: np.random.Generator) -> None:
        import torch

        mask = self._tokenizer.mask_token
        masked = [" ".join([*words[row][:at], mask, *words[row][at + 1 :]]) for row, at in place.items()]
        found = self._tokenizer(masked, truncation=True, max_length=_LONGEST, padding=True, return_tensors="pt")
        with torch.inference_mode():
            logits = self._model(**found.to(self.bench.device)).logits.float().cpu()
        for line, (row, at) in enumerate(place.items()):
            here = (found["input_ids"][line] == self._tokenizer.mask_token_id).nonzero().flatten()
            if len(here):
                likely = logits[line, here[0]].topk(min(_CONSIDERED, logits.shape[-1]))
                words[row][at] = self._drawn(words[row][at], likely.indices.numpy(), likely.values.numpy(), random)

    def _drawn(self, old: str, ids: np.ndarray, logits: np.ndarray, random: np.random.Generator) -> str:
        """Draw without replacement until ten are accepted, then one of those; the old word if none is."""
        weights = np.exp(logits.astype(np.float64) - logits.max())
        order = random.choice(len(ids), size=int((weights > 0).sum()), replace=False, p=weights / weights.sum())
        accepted = []
        for token in self._tokenizer.convert_ids_to_tokens(ids[order].tolist()):
            new = self._whole_word(token)
            if new and new.lower() != old.lower():
                accepted.append(new)
                if len(accepted) == _ACCEPTED:
                    break
        return accepted[random.integers(len(accepted))] if accepted else old

    def _whole_word(self, token: str) -> str:
        """Return the word a token begins, or nothing for a continuation, a special token or punctuation."""
        if self._marks_beginnings:
            if token[0] not in "Ġ▁":
                return ""
            token = token[1:]
        plain = token not in self._tokenizer.all_special_tokens and not token.startswith("##")
        return token if plain and _WORD.search(token) else ""

    @cached_property
    def _marks_beginnings(self) -> bool:
        return any(token[:1] in "Ġ▁" for token in list(self._tokenizer.get_vocab())[:5_000] if token)

    @cached_property
    def _folder(self) -> Path:
        return find_folder(self.model, self.bench.revisions.get(self.model, ""))

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self._folder, local_files_only=True, trust_remote_code=False)

    @cached_property
    def _model(self) -> Any:
        from transformers import AutoModelForMaskedLM

        options = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
        return AutoModelForMaskedLM.from_pretrained(self._folder, **options).eval().to(self.bench.device)
