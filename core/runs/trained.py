"""The encoder that a finished run has trained, to read other texts with."""

import numpy as np

from core.encoder.encoder import Encoder, find_device
from core.errors import BadInput
from core.events import KEPT, best_of, look_at
from core.runs.store import Run


def trained_encoder(run: Run) -> Encoder:
    """Return the run's encoder with the weights it kept in the end; an encoder that did not learn, as it was."""
    import torch

    config, state = run.config, run.state()
    if not config.encoder:
        raise BadInput(f"The run {run.id} used no language model: {config.method} counts words.")
    if run.status() != "finished":
        raise BadInput(f"The run {run.id} is not finished, so its language model is not either.")
    encoder = Encoder(config.encoder, find_device(), config.token_limit, "float32")  # maybe trained on another machine
    stages = [stage for stage in config.build_method().stages if best_of(stage) in state]
    if stages:
        name = best_of(stages[-1])
        if (kept := state.get(KEPT)) is not None:
            name = look_at(kept.values["stage"], int(kept.values["step"]))
        learnt = state[name].arrays
        with torch.no_grad():
            for part, value in encoder.model.named_parameters():
                if f"trunk.{part}" in learnt:
                    value.copy_(torch.from_numpy(np.array(learnt[f"trunk.{part}"], np.float32)))
    return encoder
