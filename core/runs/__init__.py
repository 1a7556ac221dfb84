"""Runs: a folder each, which is the database."""

import os
from pathlib import Path


def default_folder() -> Path:
    """Return where runs are kept unless told otherwise."""
    return Path(os.environ.get("TOPICSCOPE_RUNS", "runs"))
