"""Two views of every text: the stage in which augmenters work, with progress, kept between runs."""

import json

import numpy as np

from core.augment.base import Augmenter
from core.bench import Bench
from core.events import Note, Progress, StageStarted
from core.files import load_json, save_bytes
from core.tokens import text_digest
from core.work import Work

_AT_ONCE = 500
STAGE = "augment"


def make_views(bench: Bench, augmenters: tuple[Augmenter, ...], strength: float) -> Work[list[list[str]]]:
    """Return two lists of texts, each made by all augmenters one after another; equal settings find them kept.

    A text of which nothing would be left stays as it was. Without an augmenter there are no views.
    """
    yield StageStarted(STAGE, 2 * len(bench.texts))
    if not augmenters:
        yield Progress(STAGE, 2 * len(bench.texts), 2 * len(bench.texts))
        return []
    about = " ".join(f"{one.name} {one.version()}" for one in augmenters) + f" {strength} {bench.seed}"
    path = bench.cache / "views" / f"{text_digest(bench.texts, about)}.json"
    if path.exists():
        views = load_json(path)
    else:
        views = []
        for number in range(2):
            view: list[str] = []
            for start in range(0, len(bench.texts), _AT_ONCE):
                texts = list(bench.texts[start : start + _AT_ONCE])
                changed = texts
                for place, augmenter in enumerate(augmenters):
                    seed = np.random.SeedSequence([bench.seed, number, start, place]).generate_state(1)[0]
                    changed = augmenter.augment(changed, strength, int(seed))
                view += [new if new.strip() else old for new, old in zip(changed, texts, strict=True)]
                yield Progress(STAGE, number * len(bench.texts) + len(view), 2 * len(bench.texts))
            views.append(view)
        save_bytes(path, json.dumps(views).encode())
    same = np.mean([old == first for old, first in zip(bench.texts, views[0], strict=True)])
    if same > 0.5:
        yield Note(f"{same:.0%} of the texts could not be changed: the views teach little.", "warning")
    yield Progress(STAGE, 2 * len(bench.texts), 2 * len(bench.texts))
    return views
