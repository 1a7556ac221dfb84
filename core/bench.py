"""The bench: everything a method may use. It holds no label column, so no label can leak into training."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.encoder import Encoder, load_encoder
from core.events import Note, Progress, StageStarted
from core.steps.projector import Projector
from core.tokens import Tokens, text_digest
from core.vectors import VectorCache, prune
from core.work import Work

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

    def load(self) -> Encoder:
        """Return the encoder, loaded once."""
        return load_encoder(self.encoder, self.device, self.token_limit, self.precision)

    def kept_vectors(self, encoder: Encoder, pooling: str) -> VectorCache:
        """Return what earlier runs encoded in the same way."""
        name = f"{encoder.weights_digest[:16]}-{pooling}-{self.precision}-{self.device}"
        return VectorCache(self.cache / "vectors" / name)

    def tokenise(self, encoder: Encoder) -> Work[Tokens]:
        """Tokenise all texts, or read the tokens if the same texts were tokenised before."""
        digest = text_digest(self.texts, f"{encoder.tokenizer_digest} {encoder.token_limit}")
        folder = self.cache / "tokens" / digest
        if (tokens := Tokens.load(folder)) is not None:
            return tokens
        parts: list[Tokens] = []
        cut = 0
        for start in range(0, len(self.texts), _TOKENISED_AT_ONCE):
            part, longer = encoder.tokens(self.texts[start : start + _TOKENISED_AT_ONCE])
            parts.append(part)
            cut += longer
            yield None
        if cut:
            yield Note(f"{cut:,} texts are longer than {encoder.token_limit} tokens; their ends are not read.")
        tokens = Tokens.joined(parts)
        tokens.save(folder)
        return tokens

    def blank(self) -> Work[np.ndarray]:
        """Return the positions of texts of which the encoder's tokenizer leaves nothing."""
        encoder = self.load()
        tokens = yield from self.tokenise(encoder)
        return np.flatnonzero(tokens.lengths <= len(encoder.tokenizer("")["input_ids"]))

    def encode(self, pooling: str, stage: str = "encode") -> Work[np.ndarray]:
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
