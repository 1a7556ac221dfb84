"""What enters the first layer that learns, computed once for all texts and kept."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock, Timeout

from core.encoder.packing import Pack
from core.encoder.tokens import Tokens, flat_places, length_batches
from core.encoder.trunk import Trunk, autocast
from core.errors import in_halves
from core.events import Progress, StageStarted
from core.files import forget_oldest, load_json, save_json
from core.work import Work

LARGEST_PREFIX = 16 << 30
_SPARE_DISK = 2 << 30
_SYNCED_EVERY = 64 << 20


@dataclass(frozen=True)
class Prefix:
    """States of all tokens as float16 in a mapped file, so that an epoch costs only the layers that learn.

    Equal texts are kept once: ``place`` says for each text which kept one it is.
    """

    states: np.ndarray
    offsets: np.ndarray
    place: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """How many tokens each text has."""
        return np.diff(self.offsets)[self.place]

    def flat(self, rows: np.ndarray) -> np.ndarray:
        """Return the states of some texts end to end, in the order given."""
        return self.states[flat_places(self.offsets, self.place[rows])]


def fits(cache: Path, tokens: int, width: int) -> bool:
    """Say whether a prefix is within its bound and the disk has room for it."""
    cache.mkdir(parents=True, exist_ok=True)
    wanted = tokens * width * 2
    return wanted <= LARGEST_PREFIX and wanted + _SPARE_DISK <= shutil.disk_usage(cache).free


def keep_prefix(
    trunk: Trunk,
    tokens: Tokens,
    budget: int,
    folder: Path,
    device: str,
    precision: str,
    stage: str,
    causal: bool = False,
) -> Work[Prefix]:
    """Compute the states that enter the trunk's first learning layer, or open them if they are kept already.

    ``causal`` ones are those of a decoder, in which no token sees a later one.
    The file is written in the order in which texts are computed. Every so often it is synced and its length noted,
    so that a stopped or killed run goes on from there.
    """
    digests = tokens.digests()
    _, first, place = np.unique(digests, return_index=True, return_inverse=True)
    unique = tokens.taken(first)
    plan = list(length_batches(unique.lengths, budget))
    order = np.concatenate(plan)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    offsets = np.concatenate([[0], np.cumsum(unique.lengths[order])])
    width, total = trunk.shape.width, int(offsets[-1])
    yield StageStarted(stage, total)
    path = folder / "states.f16"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock", thread_local=False)
    while not path.exists():
        try:
            with lock.acquire(timeout=0.5):
                if not path.exists():
                    yield from _compute(trunk, unique, plan, folder, device, precision, stage, causal)
        except Timeout:  # another process computes the same: wait for it rather than write over it
            yield None
    forget_oldest(folder.parent, LARGEST_PREFIX, keep=folder)
    yield Progress(stage, total, total)
    states = np.memmap(path, np.float16, "r", shape=(total, width))
    return Prefix(states, offsets, rank[place])


def _compute(
    trunk: Trunk,
    unique: Tokens,
    plan: list[np.ndarray],
    folder: Path,
    device: str,
    precision: str,
    stage: str,
    causal: bool,
) -> Work[None]:
    part, mark = folder / "states.part", folder / "synced.json"
    synced = load_json(mark) if mark.exists() and part.exists() else {"batches": 0, "tokens": 0}
    row_bytes = trunk.shape.width * 2
    done, total = int(synced["tokens"]), int(unique.lengths.sum())
    trunk.eval()
    with part.open("r+b" if part.exists() else "w+b") as file:
        file.truncate(done * row_bytes)
        file.seek(0, os.SEEK_END)
        unsynced = 0
        for number in range(int(synced["batches"]), len(plan)):
            states = in_halves(plan[number], lambda rows: _states(trunk, unique.taken(rows), device, precision, causal))
            file.write(states.tobytes())
            done, unsynced = done + len(states), unsynced + states.nbytes
            if unsynced >= _SYNCED_EVERY or done == total:
                file.flush()
                os.fsync(file.fileno())
                save_json(mark, {"batches": number + 1, "tokens": done})
                unsynced = 0
            yield Progress(stage, done, total)
    part.rename(folder / "states.f16")


def _states(trunk: Trunk, tokens: Tokens, device: str, precision: str, causal: bool) -> np.ndarray:
    pack = Pack(tokens.lengths, causal)
    ids = torch.from_numpy(tokens.flat(pack.order).astype(np.int64)).to(device)
    with torch.inference_mode(), autocast(device, precision):
        return trunk(ids, pack, stop=trunk.start).half().cpu().numpy()
