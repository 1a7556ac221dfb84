"""Tokens of a whole corpus: made once, kept ragged, never padded before a batch is."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.files import save_array

_DIGEST_BYTES = 16


@dataclass(frozen=True)
class Tokens:
    """Token ids of all texts in one flat array; text ``i`` is ``ids[offsets[i]:offsets[i + 1]]``."""

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def from_lists(cls, lists: Sequence[Sequence[int]]) -> "Tokens":
        """Join lists of ids."""
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        ids = np.fromiter((token for line in lists for token in line), np.int32, int(lengths.sum()))
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]))

    @classmethod
    def joined(cls, parts: Sequence["Tokens"]) -> "Tokens":
        """Join the tokens of consecutive pieces of a corpus."""
        lengths = np.concatenate([part.lengths for part in parts]) if parts else np.empty(0, np.int64)
        ids = np.concatenate([part.ids for part in parts]) if parts else np.empty(0, np.int32)
        return cls(ids, np.concatenate([[0], np.cumsum(lengths)]))

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        """Return the ids of one text."""
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """How many tokens each text has."""
        return np.diff(self.offsets)

    def taken(self, rows: np.ndarray) -> "Tokens":
        """Return the tokens of some texts, in the order given."""
        return Tokens(self.flat(rows), np.concatenate([[0], np.cumsum(self.lengths[rows])]))

    def flat(self, rows: np.ndarray) -> np.ndarray:
        """Return the ids of some texts end to end, in the order given."""
        return self.ids[flat_places(self.offsets, rows)]

    def digests(self) -> np.ndarray:
        """Return a fingerprint of each text's tokens, as fixed-width bytes that can be sorted and searched."""
        raw, starts = np.ascontiguousarray(self.ids).tobytes(), self.offsets * self.ids.itemsize
        made = [
            hashlib.blake2b(raw[begin:end], digest_size=_DIGEST_BYTES).digest()
            for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        ]
        return np.frombuffer(b"".join(made), dtype=f"V{_DIGEST_BYTES}")

    def save(self, folder: Path) -> None:
        """Keep the tokens; the offsets are written last and make the pair complete."""
        save_array(folder / "ids.npy", self.ids)
        save_array(folder / "offsets.npy", self.offsets)

    @classmethod
    def load(cls, folder: Path) -> "Tokens | None":
        """Read kept tokens, or None if there are none."""
        if not (folder / "offsets.npy").exists():
            return None
        return cls(*(np.load(folder / f"{name}.npy", allow_pickle=False) for name in ("ids", "offsets")))


def flat_places(offsets: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return where the items of some ragged rows lie, row after row."""
    starts, lengths = offsets[rows], offsets[rows + 1] - offsets[rows]
    ends = np.cumsum(lengths)
    return np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if len(ends) else 0)


def length_batches(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Cut rows into batches of one length each and at most ``budget`` tokens, longest first."""
    order = np.argsort(-lengths, kind="stable")
    ordered = lengths[order]
    start = 0
    while start < len(order):
        size = max(1, budget // max(int(ordered[start]), 1))
        same = int(np.searchsorted(-ordered, -ordered[start], side="right")) - start
        yield order[start : start + min(size, same)]
        start += min(size, same)


def length_packs(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Cut rows into packs of similar lengths and at most ``budget`` tokens, longest first."""
    order = np.argsort(-lengths, kind="stable")
    ends = np.concatenate([[0], np.cumsum(lengths[order])])
    start = 0
    while start < len(order):
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + budget, side="right")) - 1)
        yield order[start:stop]
        start = stop


def guess_lengths(texts: Sequence[str], limit: int) -> np.ndarray:
    """Guess how many tokens texts have from their words, before any tokenizer is there."""
    return np.minimum([1.4 * len(text.split()) + 2 for text in texts], limit)


def text_digest(texts: Sequence[str], head: str = "") -> str:
    """Return a fingerprint of texts in their order, with whatever else decides what becomes of them."""
    digest = hashlib.sha256(head.encode())
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little") + raw)
    return digest.hexdigest()[:32]
