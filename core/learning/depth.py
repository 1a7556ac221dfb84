"""How many layers learn: what a person asks for becomes a number, with its reason in words."""

from core.encoder.shape import SPLITTABLE, Shape
from core.errors import BadInput

DEPTHS = ("auto", *map(str, range(25)), "all")
CPU_BUDGET = 1.5e13  # multiplications: about five minutes on two cores of a laptop
_BACKWARD = 3  # a layer that learns costs three times what a frozen one does


def settle_depth(asked: str, shape: Shape, device: str, prepared: float, trained: float) -> tuple[int, str]:
    """Turn the knob into a number of layers and say why.

    ``prepared`` tokens pass the frozen layers once, ``trained`` tokens pass the learning ones forward and backward.
    The rule for "auto": everything on a GPU; on a CPU the deepest that stays within a fixed number of operations, at
    least one layer. It looks at the device and at sizes only, so it gives the same depth today and tomorrow.
    """
    if asked == "all":
        return shape.layers, f"All {shape.layers} layers learn, as asked for."
    if asked != "auto":
        return _checked(int(asked), shape), f"The top {asked} of {shape.layers} layers learn, as asked for."
    if not shape.splits:
        return (
            shape.layers,
            f"All {shape.layers} layers learn: those of {shape.kind or 'this encoder'} cannot be split.",
        )
    if device != "cpu":
        return shape.layers, f"All {shape.layers} layers learn: there is a GPU."
    fitting = [depth for depth in range(1, shape.layers + 1) if _cost(depth, shape, prepared, trained) <= CPU_BUDGET]
    depth = max(fitting, default=1)
    return depth, f"The top {depth} of {shape.layers} layers learn: the most that a CPU does in reasonable time."


def _cost(depth: int, shape: Shape, prepared: float, trained: float) -> float:
    frozen = (shape.layers - depth) * prepared
    return shape.products * (frozen + _BACKWARD * depth * trained)


def _checked(depth: int, shape: Shape) -> int:
    if depth > shape.layers:
        raise BadInput(f"The encoder has {shape.layers} layers, so the depth cannot be {depth}.")
    if 0 < depth < shape.layers and not shape.splits:
        raise BadInput(
            f"The layers of {shape.kind or 'this encoder'} cannot be split (those of {', '.join(SPLITTABLE)} can): "
            f"choose depth 0 or all."
        )
    return depth
