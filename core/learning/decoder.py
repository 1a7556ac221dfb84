"""Token prediction: a head for masked tokens (UFT), and a tied decoder that reconstructs a text (TSDAE)."""

import re
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.encoder.packing import Pack, attend, together
from core.encoder.shape import DECODABLE
from core.encoder.tokens import Tokens
from core.encoder.trunk import Trunk
from core.learning.losses import said_tokens

_SPREAD = 0.02
# Where pretrained models keep their language-model head: dense, its layer norm, the bias of the tokens.
_PRETRAINED = (
    ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.bias"),
    ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"),
    ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
)


class TokenHead(nn.Module):
    """A language-model head tied to the encoder's input embeddings: dense, GELU, norm, embeddings, bias.

    With ``used`` the softmax runs over those tokens only, usually the corpus's own: no other can ever be right, so
    nothing but a constant share of the normaliser is lost, and on a CPU it costs a third.
    """

    def __init__(
        self, trunk: Trunk, used: np.ndarray | None = None, pretrained: dict[str, Tensor] | None = None
    ) -> None:
        """Start from the pretrained head where the encoder has one, otherwise as BERT's start."""
        super().__init__()
        self._embeddings = (trunk.model.get_input_embeddings(),)  # in a tuple: tied, not owned
        tokens, width = self.embeddings.weight.shape  # some encoders embed tokens more narrowly than they think
        self.dense, self.norm = nn.Linear(trunk.shape.width, width), nn.LayerNorm(width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(tokens))
        nn.init.normal_(self.dense.weight, std=_SPREAD)
        nn.init.zeros_(self.dense.bias)
        fitting = {name: value.shape for name, value in self.named_parameters()}
        # Of an encoder whose tokens were added to later, the old head may have been left as it was.
        self.is_pretrained = pretrained is not None and fitting == {n: value.shape for n, value in pretrained.items()}
        if pretrained is not None and self.is_pretrained:
            self.load_state_dict(pretrained)
        self.used: Tensor | None
        self.place: Tensor
        self.register_buffer("used", None if used is None else torch.from_numpy(used).long(), persistent=False)
        place = torch.full((tokens,), -1, dtype=torch.long)
        if used is not None:
            place[torch.from_numpy(used).long()] = torch.arange(len(used))
        self.register_buffer("place", place, persistent=False)

    @property
    def embeddings(self) -> Any:
        """The encoder's own input embeddings."""
        return self._embeddings[0]

    def logits(self, states: Tensor, alone: bool = False) -> Tensor:
        """Return a logit per token that may be predicted; if ``alone``, the embeddings do not learn from it."""
        return F.linear(*self._meeting(states, alone))

    def _meeting(self, states: Tensor, alone: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Return what is multiplied to score tokens: the states as the head sees them, the tokens, their bias."""
        hidden = self.norm(F.gelu(self.dense(states)))
        tied = self.embeddings.weight.detach() if alone else self.embeddings.weight
        if self.used is None:
            return hidden, tied, self.bias
        return hidden, tied.index_select(0, self.used), self.bias.index_select(0, self.used)

    def loss(self, states: Tensor, ids: Tensor, alone: bool = False) -> Tensor:
        """Sum the cross entropy of the tokens that should have been predicted.

        ``alone``, only this head learns, and nothing of the encoder moves.
        """
        wanted = ids if self.used is None else self.place[ids]
        return said_tokens(*self._meeting(states.detach() if alone else states, alone), wanted)


class Decoder(nn.Module):
    """Says a text, token after token, from its vector alone: TSDAE's decoder, whose layers are the encoder's own.

    Where only the top layers learn, the lower ones read along without cross-attention and without a gradient; at full
    depth this is the paper's. The memory is one vector, so attending to it has weight one whatever query and key say:
    two linear maps per layer, once per text, are exact (but for the dropout of that weight, which is left out, and of
    what comes of it, which drops the same at all places of a text).
    """

    def __init__(self, trunk: Trunk, words: TokenHead) -> None:
        """Add what the encoder has not: how the vector enters each layer that learns."""
        super().__init__()
        if trunk.shape.kind not in DECODABLE:
            raise ValueError(f"a {trunk.shape.kind} cannot decode")
        self._trunk, width = (trunk,), trunk.shape.width
        self.words = words
        self.value, self.out = (nn.ModuleList(nn.Linear(width, width) for _ in range(trunk.depth)) for _ in range(2))
        self.norm = nn.ModuleList(nn.LayerNorm(width, eps=1e-12) for _ in range(trunk.depth))
        for map in (*self.value, *self.out):
            nn.init.normal_(map.weight, std=_SPREAD)
            nn.init.zeros_(map.bias)

    @property
    def trunk(self) -> Trunk:
        """The live encoder."""
        return self._trunk[0]

    def states(self, z: Tensor, entering: Tensor, pack: Pack) -> Tensor:
        """Return the states from which the next tokens are predicted; ``z`` holds one vector per text as they lie.

        ``entering`` are the token ids, or what the frozen layers made of them.
        """
        trunk = self.trunk
        owner = torch.from_numpy(np.repeat(np.arange(len(pack.lengths)), pack.lengths)).to(z.device)
        states = entering if entering.is_floating_point() else trunk(entering, pack, stop=trunk.start)
        for place, layer in enumerate(trunk.layers[trunk.start :]):
            memory = F.dropout(self.out[place](self.value[place](z)), layer.attention.output.dropout.p, self.training)
            states = _layer(layer, states, pack, memory[owner], self.norm[place])
        return states

    def loss(self, z: Tensor, texts: Tokens, kept: np.ndarray | None = None) -> Tensor:
        """Sum the cross entropy of every token but the first, each predicted from those before it and the vector.

        ``kept`` is what the frozen layers make of the texts' tokens, if that was computed before.
        """
        lengths = texts.lengths
        said = np.maximum(lengths - 1, 0)
        pack = Pack(said[said > 0], causal=True)
        rows = np.flatnonzero(said > 0)[pack.order]
        if not len(rows):
            return z.sum() * 0.0
        start = np.repeat(texts.offsets[rows] - np.cumsum(said[rows]) + said[rows], said[rows])
        places = start + np.arange(len(start))
        device = z.device
        after = torch.from_numpy(texts.ids[places + 1].astype(np.int64)).to(device)
        before = torch.from_numpy(texts.ids.astype(np.int64) if kept is None else kept.astype(np.float32))
        states = self.states(z[torch.from_numpy(rows).to(device)], before[torch.from_numpy(places)].to(device), pack)
        return self.words.loss(states, after)


def _layer(layer: Any, states: Tensor, pack: Pack, memory: Tensor, norm: nn.Module) -> Tensor:
    own = layer.attention.self
    drop = own.dropout.p if own.training else 0.0
    joined = together(states, own.query, own.key, own.value)
    states = layer.attention.output(attend(pack, joined, own.num_attention_heads, drop, {}), states)
    states = norm(states + memory)
    return layer.output(layer.intermediate(states), states)


def pretrained_token_head(folder: Any) -> dict[str, Tensor] | None:
    """Return the language-model head that an encoder's files hold, or None if they hold none."""
    from safetensors import safe_open

    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            # Models that came from TensorFlow call the parts of a norm gamma and beta.
            names = {re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name)): name for name in file.keys()}
            for dense, norm, bias in _PRETRAINED:
                wanted = {
                    **{f"dense.{part}": f"{dense}.{part}" for part in ("weight", "bias")},
                    **{f"norm.{part}": f"{norm}.{part}" for part in ("weight", "bias")},
                    "bias": bias,
                }
                if names.keys() >= set(wanted.values()):
                    return {own: file.get_tensor(names[name]).float() for own, name in wanted.items()}
    return None
