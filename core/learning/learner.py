"""The learner: a trunk with heads, its optimiser, and one step that every method takes the same way."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from core.encoder.packing import Pack
from core.encoder.tokens import Tokens, length_packs
from core.encoder.trunk import Trunk, autocast
from core.errors import Diverged, in_halves, is_out_of_memory
from core.events import Checkpoint, Slot

_LEAST_PIECE = 256
TOKENS_PER_PACK = 4_096
Loss = Callable[[Tensor], Mapping[str, Tensor]]
Share = Callable[[np.ndarray, Tensor, Tensor, Pack], Mapping[str, Tensor]]  # of rows, vectors, states as they lie


class Source(Protocol):
    """Where texts come from, already prepared: token ids, or the states that enter the first learning layer."""

    @property
    def lengths(self) -> np.ndarray:
        """How many tokens each text has."""

    def flat(self, rows: np.ndarray) -> np.ndarray:
        """Return ids or states of some texts end to end, in the order given."""


class Learner:
    """Takes steps: one forward for all texts of a batch, a loss over all of their vectors, one update.

    A batch of more than ``piece_tokens`` tokens is cut into pieces and still gives the gradient of the whole batch:
    first all vectors without a graph, then the loss and its gradient by those vectors, then each piece again with a
    graph. That costs a second forward and lets a batch of any size fit. Randomness follows from seed and step alone,
    so a resumed training draws what an uninterrupted one would have drawn.
    """

    def __init__(
        self,
        trunk: Trunk,
        heads: nn.Module,
        source: Source,
        *,
        pooling: str,
        rate: float,
        head_rate: float,
        seed: int,
        device: str = "cpu",
        precision: str = "float32",
        piece_tokens: int = 16_384,
    ) -> None:
        """Move everything to the device and set the optimiser up."""
        self.trunk, self.heads, self.source = trunk.to(device), heads.to(device), source
        self.pooling, self.seed, self.device = pooling, seed, device
        # Half precision of the short kind needs its gradients scaled, which works on CUDA only.
        self.precision = "float32" if precision == "float16" and device != "cuda" else precision
        self.piece_tokens, self._least_piece, self.steps = piece_tokens, _LEAST_PIECE, 0
        self._named = {f"trunk.{name}": value for name, value in trunk.learning()}
        backbone = list(self._named.values())
        self._named |= {f"heads.{name}": value for name, value in heads.named_parameters()}
        groups = [{"params": backbone, "lr": rate}, {"params": list(heads.parameters()), "lr": head_rate}]
        groups = [group for group in groups if group["params"]]
        self.optimiser = torch.optim.AdamW(groups, weight_decay=0.0, fused=True)
        self._scaler = torch.amp.GradScaler(device, enabled=self.precision == "float16")
        self._sums: dict[str, tuple[Tensor, int]] = {}

    # One step -----------------------------------------------------------------------------------------------------

    def step(self, rows: np.ndarray, loss: Loss) -> bool:
        """Take one step over prepared texts, with a loss in which all of their vectors may meet.

        Returns False if memory ran out and the batch had to be cut into smaller pieces first.
        """
        return self._step(lambda: self._backward(rows, loss), int(self.source.lengths[rows].sum()))

    def step_apart(self, texts: Tokens, share: Share, beside: np.ndarray | int = 0) -> bool:
        """Take one step over texts as they are now, such as noisy ones, with a loss to which each adds its share.

        Choose it where texts do not meet in the loss: pieces are simply added up, and the loss may look at states.
        ``beside`` says how many tokens of each text the loss holds itself, as a decoder does, so that pieces fit.
        """
        sizes = texts.lengths + beside
        return self._step(lambda: self._backward_apart(texts, share, sizes), int(sizes.sum()))

    def _step(self, backward: Callable[[], Mapping[str, Tensor]], tokens: int) -> bool:
        roomy = True
        while True:
            try:
                terms = backward()
                break
            except (MemoryError, RuntimeError) as fault:
                if not is_out_of_memory(fault) or self.piece_tokens <= self._least_piece:
                    raise
                self.piece_tokens = max(self._least_piece, min(self.piece_tokens, tokens) // 2)
                roomy = False
                self._release()
        self._scaler.step(self.optimiser)
        self._scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        self.steps += 1
        for name, term in terms.items():
            total, count = self._sums.get(name, (torch.zeros((), device=self.device), 0))
            self._sums[name] = total + term.detach(), count + 1
        return roomy

    def _backward(self, rows: np.ndarray, loss: Loss) -> Mapping[str, Tensor]:
        self.trunk.train(), self.heads.train()
        pieces = list(self._pieces(self.source.lengths[rows]))
        if len(pieces) == 1:
            terms = loss(self._vectors(rows, 0))
            self._scaler.scale(terms["loss"]).backward()
            return terms
        with torch.no_grad():
            vectors = torch.cat([self._vectors(rows[piece], number) for number, piece in enumerate(pieces)])
        back = torch.from_numpy(np.argsort(np.concatenate(pieces), kind="stable")).to(self.device)
        whole = vectors[back].requires_grad_()
        terms = loss(whole)
        self._scaler.scale(terms["loss"]).backward()
        assert whole.grad is not None
        for number, piece in enumerate(pieces):
            grown = self._vectors(rows[piece], number)
            if grown.requires_grad:
                grown.backward(whole.grad[torch.from_numpy(piece).to(self.device)])
        return terms

    def _backward_apart(self, texts: Tokens, share: Share, sizes: np.ndarray) -> Mapping[str, Tensor]:
        self.trunk.train(), self.heads.train()
        summed: dict[str, Tensor] = {}
        for number, piece in enumerate(self._pieces(sizes)):
            self._seed(number)
            pack, states = self._states(texts, piece)
            with autocast(self.device, self.precision):
                terms = share(piece, pack.pooled(states, self.pooling), states, pack)
            self._scaler.scale(terms["loss"]).backward()
            summed = {name: summed.get(name, 0) + term.detach() for name, term in terms.items()}
        return summed

    def _pieces(self, lengths: np.ndarray) -> Iterator[np.ndarray]:
        """Cut a batch into pieces of about equal lengths and at most ``piece_tokens`` tokens."""
        if lengths.sum() <= self.piece_tokens:
            yield np.arange(len(lengths))
            return
        yield from length_packs(lengths, self.piece_tokens)

    def _vectors(self, rows: np.ndarray, piece: int) -> Tensor:
        """Return the vectors of some texts; the same piece of the same step drops out the same units."""
        self._seed(piece)
        return self._forward(rows)

    def _seed(self, piece: int) -> None:
        drawn = np.random.SeedSequence([self.seed, self.steps, piece]).generate_state(1, np.uint64)[0]
        torch.manual_seed(int(drawn >> 1))

    def _forward(self, rows: np.ndarray, source: Source | None = None) -> Tensor:
        pack, states = self._states(source or self.source, rows)
        return pack.pooled(states, self.pooling)

    def _states(self, source: Source, rows: np.ndarray) -> tuple[Pack, Tensor]:
        pack = Pack(source.lengths[rows])
        flat = torch.from_numpy(np.ascontiguousarray(source.flat(rows[pack.order]))).to(self.device)
        flat = flat.float() if flat.is_floating_point() else flat.long()
        with autocast(self.device, self.precision):
            return pack, self.trunk(flat, pack)

    def _release(self) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        if self.device == "cuda":
            torch.cuda.empty_cache()

    # What came of it ----------------------------------------------------------------------------------------------

    def told(self) -> dict[str, float]:
        """Return the mean of each term since last asked; raise Diverged if one is no finite number."""
        means = {name: float(total) / count for name, (total, count) in self._sums.items()}
        self._sums = {}
        if not all(np.isfinite(value) for value in means.values()):
            raise Diverged
        return means

    def vectors(self, rows: np.ndarray, source: Source | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (places among ``rows``, vectors) as the trunk sees them now, nothing dropped out.

        The texts are the learner's own unless another ``source`` is given, such as noisy ones.
        """
        lengths = (source or self.source).lengths
        for places in length_packs(lengths[rows], min(self.piece_tokens, TOKENS_PER_PACK)):
            self.trunk.eval()
            with torch.inference_mode():
                vectors = in_halves(rows[places], lambda some: self._forward(some, source).cpu().numpy())
            yield places, vectors

    # Where it stands ----------------------------------------------------------------------------------------------

    def sampled(self, rows: np.ndarray, source: Source | None = None) -> np.ndarray:
        """Return the vectors of some texts, at once, as ``vectors`` yields them; raise Diverged if one is none."""
        found = np.empty((len(rows), self.trunk.shape.width), np.float32)
        for places, vectors in self.vectors(rows, source):
            found[places] = vectors
        if not np.isfinite(found).all():
            raise Diverged
        return found

    def checkpoint(
        self,
        stage: str,
        slot: Slot = Slot.CURRENT,
        more_values: Mapping[str, Any] = MappingProxyType({}),
        more_arrays: Mapping[str, np.ndarray] = MappingProxyType({}),
    ) -> Checkpoint:
        """Return everything needed to go on: what learns (shared weights once), the optimiser, the count of steps."""
        arrays = {name: value.detach().cpu().numpy().copy() for name, value in self._named.items()}
        for name, value in self._named.items():
            for part, tensor in self.optimiser.state.get(value, {}).items():
                arrays[f"{part}:{name}"] = tensor.detach().cpu().numpy().copy()
        own = {"steps": self.steps, "piece_tokens": self.piece_tokens, "scaler": self._scaler.state_dict()}
        return Checkpoint(stage, arrays | dict(more_arrays), own | dict(more_values), slot)

    def weights(self, stage: str, look: int) -> Checkpoint:
        """Return what learns alone, enough to look at texts so again, not to train on: the trunk in half precision.

        Heads stay as they are: a bias of thousands has no half precision worth the name.
        """
        arrays = {name: value.detach().cpu().numpy().copy() for name, value in self._named.items()}
        halves = {name: array.astype(np.float16) for name, array in arrays.items() if name.startswith("trunk.")}
        return Checkpoint(stage, arrays | halves, {"steps": self.steps}, Slot.LOOK, look)

    def load(self, state: Checkpoint) -> None:
        """See texts as an earlier look did; the optimiser is left where it was."""
        with torch.no_grad():
            for name, value in self._named.items():
                value.copy_(torch.from_numpy(np.array(state.arrays[name], np.float32)))

    def restore(self, state: Checkpoint) -> None:
        """Go back (or on) to a checkpoint."""
        self.load(state)
        self.optimiser.state.clear()
        for key, array in state.arrays.items():
            part, _, name = key.partition(":")
            if name in self._named:
                # The fused optimiser counts steps on the device, in float32.
                tensor = torch.from_numpy(np.array(array)).to(self.device)
                self.optimiser.state[self._named[name]][part] = tensor.reshape(()) if part == "step" else tensor
        self.steps, self.piece_tokens = int(state.values["steps"]), int(state.values["piece_tokens"])
        self._scaler.load_state_dict(state.values["scaler"])
        self.optimiser.zero_grad(set_to_none=True)
        self._sums = {}


def batch_rows(rows: int, size: int, seed: int, step: int) -> np.ndarray:
    """Return the texts of one step: every epoch in an order of its own that seed and epoch decide.

    What is left over at the end of an epoch is passed over; it is other texts each time.
    """
    size = min(size, rows)
    epoch, place = divmod(step, rows // size)
    order = np.random.default_rng([seed, epoch]).permutation(rows)
    return order[place * size : (place + 1) * size]
