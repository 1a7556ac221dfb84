"""The encoder that a finished run has trained, to read other texts with."""

import numpy as np

from core.encoder.encoder import Encoder, find_device
from core.errors import BadInput
from core.events import Slot
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
    learnt = None
    if (choice := state.choice) is not None:
        learnt = state.find(choice.stage, Slot.LOOK, choice.step)
    for stage in reversed(config.build_method().stages):
        learnt = learnt or state.find(stage, Slot.BEST)
    if learnt is not None:
        with torch.no_grad():
            for part, value in encoder.model.named_parameters():
                if f"trunk.{part}" in learnt.arrays:
                    value.copy_(torch.from_numpy(np.array(learnt.arrays[f"trunk.{part}"], np.float32)))
    return encoder
