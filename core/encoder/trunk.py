"""The trunk: a pretrained transformer that can be entered at any height, on packed texts."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from core.encoder.packing import Pack, attend, together
from core.encoder.shape import SPLITTABLE, Shape


def autocast(device: str, precision: str) -> AbstractContextManager[Any]:
    """Return the context in which networks run; losses leave it by asking for float32 themselves."""
    half = precision if precision in ("bfloat16", "float16") else "bfloat16"
    return torch.autocast(device, getattr(torch, half), enabled=precision == half)


def _bert_layer(layer: Any, states: Tensor, pack: Pack, bias: dict[int, Tensor]) -> Tensor:
    own = layer.attention.self
    drop = own.dropout.p if own.training else 0.0
    joined = together(states, own.query, own.key, own.value)
    found = attend(pack, joined, own.num_attention_heads, drop, bias)
    states = layer.attention.output(found, states)
    return layer.output(layer.intermediate(states), states)


def _distilbert_layer(layer: Any, states: Tensor, pack: Pack, bias: dict[int, Tensor]) -> Tensor:
    own = layer.attention
    drop = own.dropout.p if own.training else 0.0
    found = attend(pack, together(states, own.q_lin, own.k_lin, own.v_lin), own.n_heads, drop, bias)
    states = layer.sa_layer_norm(own.out_lin(found) + states)
    return layer.output_layer_norm(layer.ffn.ff_chunk(states) + states)


def _mpnet_layer(layer: Any, states: Tensor, pack: Pack, bias: dict[int, Tensor]) -> Tensor:
    own = layer.attention.attn
    drop = own.dropout.p if own.training else 0.0
    found = attend(pack, together(states, own.q, own.k, own.v), own.num_attention_heads, drop, bias)
    states = layer.attention.LayerNorm(layer.attention.dropout(own.o(found)) + states)
    return layer.output(layer.intermediate(states), states)


_Walk = Callable[[Any, Tensor, Pack, dict[int, Tensor]], Tensor]
_WALKS: dict[str, _Walk] = {
    "bert": _bert_layer,
    "roberta": _bert_layer,
    "xlm-roberta": _bert_layer,
    "camembert": _bert_layer,
    "distilbert": _distilbert_layer,
    "mpnet": _mpnet_layer,
}
assert set(_WALKS) == set(SPLITTABLE)


class Trunk(nn.Module):
    """A transformer over packed texts, of which the ``depth`` top layers learn; if all do, so do the embeddings."""

    def __init__(self, model: Any, depth: int | None = None) -> None:
        """Take the model as it is; without a depth everything learns."""
        super().__init__()
        self.model = model
        self.shape = Shape.of(model.config.to_dict())
        self.depth = self.shape.layers if depth is None else depth
        if not 0 <= self.depth <= self.shape.layers or (0 < self.depth < self.shape.layers and not self.shape.splits):
            raise ValueError(f"a {self.shape.kind} of {self.shape.layers} layers cannot learn at depth {self.depth}")
        model.requires_grad_(self.depth == self.shape.layers)
        if self.shape.splits:
            for layer in self.layers[self.start :]:
                layer.requires_grad_(True)
        if getattr(model, "pooler", None) is not None:
            model.pooler.requires_grad_(False)  # never used: texts are pooled from their tokens

    @property
    def start(self) -> int:
        """The first layer that learns: what enters it may be kept."""
        return self.shape.layers - self.depth

    @property
    def layers(self) -> Any:
        """The transformer's layers, from the bottom."""
        return self.model.transformer.layer if self.shape.kind == "distilbert" else self.model.encoder.layer

    def learning(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Name the parameters that learn, each once however many modules share it."""
        return ((name, value) for name, value in self.model.named_parameters() if value.requires_grad)

    def train(self, mode: bool = True) -> "Trunk":
        """Let only layers that learn drop anything out, so that frozen ones give the same kept or computed again."""
        super().train(mode)
        if self.depth == 0:
            self.model.eval()
        elif self.start:
            self.model.embeddings.eval()
            for layer in self.layers[: self.start]:
                layer.eval()
        return self

    def forward(self, flat: Tensor, pack: Pack, stop: int | None = None) -> Tensor:
        """Walk up to layer ``stop``, from token ids or from states that enter the first learning layer."""
        from_ids = not flat.is_floating_point()
        if not self.shape.splits:  # at depth 0 what was kept is the end
            return self._whole(flat, pack) if from_ids else flat
        states = self.embedded(flat, pack) if from_ids else flat
        walk, bias = _WALKS[self.shape.kind], self._biases(states, pack)
        for layer in self.layers[0 if from_ids else self.start : stop]:
            states = walk(layer, states, pack, bias)
        return states

    def embedded(self, ids: Tensor, pack: Pack) -> Tensor:
        """Return what enters the lowest layer."""
        offset = 0 if self.shape.kind in ("bert", "distilbert") else 1 + self.model.embeddings.padding_idx
        places = torch.from_numpy(pack.positions() + offset).to(ids.device)
        return self.model.embeddings(input_ids=ids[None], position_ids=places[None])[0]

    def _biases(self, states: Tensor, pack: Pack) -> dict[int, Tensor]:
        """MPNet adds a bias by distance, the same in every layer."""
        if self.shape.kind != "mpnet":
            return {}
        compute = self.model.encoder.compute_position_bias
        return {size: compute(states.new_empty(1, size, 1)).to(states.dtype) for _, size in pack.groups}

    def _whole(self, ids: Tensor, pack: Pack) -> Tensor:
        """Pad, run and unpack: for architectures whose layers are not ours to enter."""
        if len(pack.groups) == 1:
            return self.model(input_ids=ids.view(pack.groups[0])).last_hidden_state.flatten(0, 1)
        longest = int(pack.lengths[0])
        mask = torch.from_numpy(np.arange(longest) < pack.lengths[:, None]).to(ids.device)
        padded = torch.zeros(mask.shape, dtype=torch.long, device=ids.device)
        padded[mask] = ids
        return self.model(input_ids=padded, attention_mask=mask.long()).last_hidden_state[mask]
