"""The bench: everything a method may use. It holds no label column, so no label can leak into training."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.encoder.cache import VectorCache, prune
from core.encoder.encoder import TOKENS_PER_BATCH, Encoder, load_encoder
from core.encoder.tokens import Tokens, text_digest
from core.events import Note, Progress, StageStarted
from core.files import forget_oldest
from core.maps.projector import Projector
from core.stages import ENCODE
from core.topics.words import Words, count_words
from core.work import Work

if TYPE_CHECKING:  # torch is loaded by those who train
    from core.encoder.trunk import Trunk
    from core.learning.learner import Source
    from core.learning.prefix import Prefix

LARGEST_TEXTS = 1 << 30  # bytes of kept tokens, and of kept views
_TOKENISED_AT_ONCE = 5_000


@dataclass(frozen=True)
class Bench:
    """Texts, encoder, seed, cache folder and resolved settings of one run."""

    texts: Sequence[str]
    seed: int
    encoder: str
    device: str
    token_limit: int
    precision: str
    cache: Path
    projector: Projector
    views: tuple[Sequence[str], ...] = ()
    revisions: Mapping[str, str] = field(default_factory=dict)  # of models from the hub, by name
    made: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # once for all stages of the run

    def load(self) -> Encoder:
        """Return the encoder, loaded once."""
        revision = self.revisions.get(self.encoder, "")
        return load_encoder(self.encoder, self.device, self.token_limit, self.precision, revision)

    def kept_vectors(self, encoder: Encoder, pooling: str) -> VectorCache:
        """Return what earlier runs encoded in the same way."""
        name = f"{encoder.weights_digest[:16]}-{pooling}-{self.precision}-{self.device}"
        return VectorCache(self.cache / "vectors" / name)

    def words(self) -> Work[Words]:
        """Return the corpus as a bag of words, counted once."""
        if "words" not in self.made:
            self.made["words"] = yield from count_words(self.texts)
        return self.made["words"]

    def tokenise(self, encoder: Encoder, texts: Sequence[str] | None = None) -> Work[Tokens]:
        """Tokenise all texts (or others), or read the tokens if the same texts were tokenised before."""
        if texts is None:
            if "tokens" not in self.made:
                self.made["tokens"] = yield from self.tokenise(encoder, self.texts)
            return self.made["tokens"]
        digest = text_digest(texts, f"{encoder.tokenizer_digest} {encoder.token_limit}")
        folder = self.cache / "tokens" / digest
        if (tokens := Tokens.load(folder)) is None:
            parts: list[Tokens] = []
            cut = 0
            for start in range(0, len(texts), _TOKENISED_AT_ONCE):
                part, longer = encoder.tokens(texts[start : start + _TOKENISED_AT_ONCE])
                parts.append(part)
                cut += longer
                yield None
            if cut:
                yield Note(f"{cut:,} texts are longer than {encoder.token_limit} tokens; their ends are not read.")
            tokens = Tokens.joined(parts)
            tokens.save(folder)
        forget_oldest(folder.parent, LARGEST_TEXTS, keep=folder)
        return tokens

    def blank(self) -> Work[np.ndarray]:
        """Return the positions of texts of which the encoder's tokenizer leaves nothing."""
        encoder = self.load()
        tokens = yield from self.tokenise(encoder)
        return np.flatnonzero(tokens.lengths <= len(encoder.tokenizer("")["input_ids"]))

    def encode(self, pooling: str, stage: str = ENCODE) -> Work[np.ndarray]:
        """Encode all texts. Equal texts are encoded once, and those encoded in an earlier run not at all."""
        yield StageStarted(stage, len(self.texts))
        encoder = self.load()
        tokens = yield from self.tokenise(encoder)
        digests, inverse = np.unique(tokens.digests(), return_inverse=True)
        first = np.empty(len(digests), np.int64)
        first[inverse[::-1]] = np.arange(len(tokens))[::-1]
        cache, most_tokens = self.kept_vectors(encoder, pooling), encoder.most_tokens
        known, vectors = cache.find(digests)
        missing = np.flatnonzero(~known)
        counts = np.bincount(inverse, minlength=len(digests))
        done = int(counts[known].sum())
        yield Progress(stage, done, len(tokens))
        filled = np.zeros(len(digests), bool)
        try:
            for rows, batch in encoder.vectors(tokens.taken(first[missing]), pooling):
                if vectors is None:
                    vectors = np.empty((len(digests), batch.shape[1]), np.float32)
                vectors[missing[rows]] = batch
                filled[missing[rows]] = True
                done += int(counts[missing[rows]].sum())
                if encoder.most_tokens < most_tokens:
                    most_tokens = encoder.most_tokens
                    yield Note(f"Memory ran short: texts are now encoded {most_tokens:,} tokens at a time.", "warning")
                yield Progress(stage, done, len(tokens))
        finally:  # also when stopped: what was encoded is kept, and a resumed run goes on from there
            if filled.any() and vectors is not None:
                cache.keep(digests[filled], vectors[filled])
                prune(self.cache)
        assert vectors is not None
        return vectors[inverse]

    def prepare(self, trunk: "Trunk", views: Sequence[Sequence[str]], stage: str) -> Work["Source"]:
        """Make all views ready for training: as tokens or, where layers are frozen, as what enters the learning ones.

        View ``v`` of text ``i`` is row ``v * len(texts) + i`` of the result.
        """
        encoder, parts = self.load(), []
        for view in views:
            parts.append((yield from self.tokenise(encoder, None if view is self.texts else view)))
        tokens = Tokens.joined(parts)
        return (yield from self._kept(trunk, tokens, stage)) or tokens

    def prepare_decoder(self, trunk: "Trunk", stage: str) -> Work["Source | None"]:
        """Compute once what a decoder's frozen layers give for all texts; None where there is nothing to keep."""
        tokens = yield from self.tokenise(self.load())
        return (yield from self._kept(trunk, tokens, stage, causal=True))

    def _kept(self, trunk: "Trunk", tokens: Tokens, stage: str, causal: bool = False) -> Work["Prefix | None"]:
        from core.learning.prefix import fits, keep_prefix

        if trunk.start and fits(self.cache, len(tokens.ids), trunk.shape.width):
            everything = hashlib.sha256(tokens.digests().tobytes()).hexdigest()[:24]
            way = "causal-" if causal else ""
            name = f"{self.load().weights_digest[:16]}-{trunk.start}-{self.precision}-{way}{everything}"
            folder, budget = self.cache / "prefix" / name, TOKENS_PER_BATCH[self.device]
            return (yield from keep_prefix(trunk, tokens, budget, folder, self.device, self.precision, stage, causal))
        yield StageStarted(stage)
        if trunk.start:
            yield Note("The frozen layers are computed again in every step: their output is too large to be cached.")
        yield Progress(stage, 1, 1)
        return None
