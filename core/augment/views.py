"""Two views of every text: the stage in which augmenters work, with progress, kept between runs."""

import json
from collections.abc import Sequence

import numpy as np

from core.augment.base import Augmenter
from core.bench import Bench
from core.bench.bench import LARGEST_TEXTS
from core.encoder.tokens import text_digest
from core.events import Note, Progress, StageStarted
from core.files import forget_oldest, load_json, save_bytes
from core.work import Work

_AT_ONCE = 500
STAGE = "augment"


def make_views(bench: Bench, makers: Sequence[Sequence[Augmenter]], strength: float) -> Work[list[list[str]]]:
    """Return one list of texts per maker, a maker being augmenters one after another; equal settings find them kept.

    A text of which nothing would be left stays as it was. Without a maker there are no views.
    """
    total = max(1, len(makers)) * len(bench.texts)
    yield StageStarted(STAGE, total)
    if not makers:
        yield Progress(STAGE, total, total)
        return []
    names = [[f"{one.name} {one.version()}" for one in maker] for maker in makers]
    about = f"{names} {strength} {bench.seed}"
    path = bench.cache / "views" / f"{text_digest(bench.texts, about)}.json"
    if path.exists():
        views = load_json(path)
    else:
        views = [[] for _ in makers]
        for start in range(0, len(bench.texts), _AT_ONCE):
            texts = list(bench.texts[start : start + _AT_ONCE])
            for number, maker in enumerate(makers):
                changed = texts
                for place, augmenter in enumerate(maker):
                    drawn = [bench.seed, 0 if augmenter.paired else number, start, place]
                    changed = augmenter.augment(
                        changed, strength, int(np.random.SeedSequence(drawn).generate_state(1)[0])
                    )
                views[number] += [new if new.strip() else old for new, old in zip(changed, texts, strict=True)]
                yield Progress(STAGE, sum(map(len, views)), total)
        save_bytes(path, json.dumps(views).encode())
    forget_oldest(path.parent, LARGEST_TEXTS, keep=path)
    same = np.mean([old == first for old, first in zip(bench.texts, views[0], strict=True)])
    if same > 0.5:
        yield Note(f"{same:.0%} of the texts could not be changed: the views teach little.", "warning")
    yield Progress(STAGE, total, total)
    return views
