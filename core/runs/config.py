"""The configuration of a run: everything that decides its labels, with every "auto" resolved to a value."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from core.encoder.encoder import check_precision, default_precision, find_device
from core.encoder.source import EMBEDDED, check_encoder, read_shape, revision_of
from core.encoder.tokens import guess_lengths
from core.errors import BadInput
from core.methods import Method, find_method
from core.runs.translate import translated
from core.tables.corpus import Corpus

HIGHEST_SEED = 999_999
TOKEN_LIMIT = 256
MAP_SAMPLE = 5_000


@dataclass(frozen=True)
class RunConfig:
    """Equal configurations on one machine give equal labels, from the browser and from the command line.

    ``reading`` holds what the person corrected in how the file is read; the rest is found again in the same file.
    """

    file: str
    file_sha256: str
    reading: dict[str, Any]
    text: str
    label: str | None
    time: str | None
    id: str | None
    drop_duplicates: bool
    method: str
    knobs: dict[str, Any]
    encoder: str | None
    seed: int
    device: str
    threads: int
    token_limit: int
    precision: str
    map_sample: int
    versions: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    revisions: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "RunConfig":
        """Read a stored configuration, also one of another version: names that are new or gone do not hide a run.

        A missing field takes its default, what was renamed is translated, and what is not known here is kept.
        """
        if not isinstance(value, Mapping):
            raise BadInput("Its config.json holds no configuration.")
        value = translated(value)
        known = {item.name: item for item in fields(cls) if item.name != "unknown"}
        missing = [
            name
            for name, item in known.items()
            if name not in value and item.default is MISSING and item.default_factory is MISSING
        ]
        if missing:
            raise BadInput(f"Its config.json lacks {', '.join(missing)}.")
        unknown = {name: kept for name, kept in value.items() if name not in known}
        config = cls(**{name: value[name] for name in known if name in value}, unknown=unknown)
        if not isinstance(config.knobs, dict) or not isinstance(config.method, str):
            raise BadInput("Its config.json holds no method with knobs.")
        return config

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as plain values."""
        plain = asdict(self)
        return plain.pop("unknown") | plain

    def build_method(self) -> Method:
        """Return the method with its knobs set."""
        return find_method(self.method).from_knobs(self.knobs)

    def command(self) -> str:
        """Return the one command line that repeats the run; what is at its default is left away."""
        parts = ["python", "-m", "core", "run", _as_path(self.file), *_option("text", self.text)]
        for option in ("label", "time", "id"):
            if getattr(self, option):
                parts += _option(option, getattr(self, option))
        parts += ["--drop-duplicates"] if self.drop_duplicates else []
        for name, value in self.reading.items():
            parts += _option(name.replace("_", "-"), _written(value))
        parts += ["--method", self.method]
        for knob in find_method(self.method).knobs():
            value = self.knobs.get(knob.name, knob.default)  # a run may be older than a knob
            if value != knob.default or knob.name == "clusters":
                parts += ["--set", f"{knob.name}={_written(value)}"]
        parts += ["--encoder", self.encoder] if self.encoder not in (None, EMBEDDED) else []
        parts += ["--seed", str(self.seed)]
        parts += ["--token-limit", str(self.token_limit)] if self.token_limit != TOKEN_LIMIT else []
        if self.encoder and self.precision != default_precision(self.device):
            parts += ["--precision", self.precision]
        parts += ["--threads", str(self.threads)] if self.threads != default_threads() else []
        return shlex.join(map(str, parts))


def resolve(
    corpus: Corpus,
    method: Method,
    *,
    file: str,
    file_sha256: str,
    reading: Mapping[str, Any],
    encoder: str = EMBEDDED,
    seed: int = 0,
    threads: int | None = None,
    token_limit: int = TOKEN_LIMIT,
    precision: str | None = None,
) -> RunConfig:
    """Fix everything that was left open, so that the run can be repeated."""
    if not 0 <= seed <= HIGHEST_SEED:
        raise BadInput(f"The seed must be a whole number from 0 to {HIGHEST_SEED:,}; you gave {seed}.")
    if threads is not None and not 1 <= threads <= 1_024:
        raise BadInput(f"The number of threads must be between 1 and 1,024; you gave {threads}.")
    if not 8 <= token_limit <= 8_192:
        raise BadInput(f"The token limit must be between 8 and 8,192; you gave {token_limit}.")
    deep = method.needs_encoder
    reasons: dict[str, str] = {}
    device = find_device() if deep else "cpu"
    encoder = check_encoder(encoder) if deep else ""
    if deep:
        method, reasons = method.settled(guess_lengths(corpus.texts, token_limit), read_shape(encoder), device)
    return RunConfig(
        file=file,
        file_sha256=file_sha256,
        reading=dict(reading),
        text=corpus.text,
        label=corpus.label,
        time=corpus.time,
        id=corpus.id,
        drop_duplicates=corpus.drop_duplicates,
        method=method.name,
        knobs=asdict(method),
        encoder=encoder or None,
        seed=seed,
        device=device,
        threads=threads or default_threads(),
        token_limit=token_limit,
        precision=check_precision(precision or default_precision(device)) if deep else "float32",
        map_sample=MAP_SAMPLE,
        versions=_versions(),
        reasons=reasons,
        revisions={name: found for name in (encoder, *method.models()) if (found := revision_of(name))},
    )


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    from core import __version__

    packages = ("torch", "transformers", "scikit-learn", "umap-learn", "openTSNE", "numpy")
    return {"topicscope": __version__, "python": platform.python_version()} | {name: version(name) for name in packages}


def default_threads() -> int:
    """One core is left to the pages: with all of them given to training the page's latency doubled."""
    return max(1, (os.cpu_count() or 2) - 1)


def _option(name: str, value: str) -> list[str]:
    """Write an option so that a value that begins with a dash is not taken for another one."""
    return [f"--{name}={value}"] if value.startswith("-") else [f"--{name}", value]


def _as_path(file: str) -> str:
    """Return a file's name so that no command takes it for an option."""
    return f"./{file}" if file.startswith("-") else file


def _written(value: Any) -> str:
    r"""Write a value as the command line takes it: a tab as \t, no separator or quote as "none"."""
    if isinstance(value, bool):
        return str(value).lower()
    return {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\r\n": "\\r\\n", "": "none"}.get(str(value), str(value))
