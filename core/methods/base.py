"""The contract of a method: a frozen dataclass whose fields are its knobs and whose ``fit`` tells what happens."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, get_type_hints

import numpy as np

from core.bench import Bench
from core.bench.forecast import Forecast, Stage
from core.clusters.clustering import Clustering
from core.clusters.partition import AUTO, LINKAGE, PARTITIONS, SMOOTH, partition
from core.encoder.encoder import POOLINGS
from core.encoder.shape import Shape
from core.errors import BadInput
from core.stages import ABOUT, CLUSTER
from core.state import AFRESH, State
from core.work import Work


def knob(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    advanced: bool = False,
) -> Any:
    """Declare a knob: its default, one sentence of help, and its bounds or choices."""
    about = {"help": help, "low": low, "high": high, "choices": choices, "advanced": advanced}
    return field(default=default, metadata=about)


def partition_knob(default: str, *more: str) -> Any:
    """Declare the knob that all methods share, with the default that suits one and what it alone can do."""
    about = (
        "How vectors become clusters: by k-means as they are, smoothed over similar texts, by average linkage, which "
        "leaves groups as uneven as they are, or through UMAP, which takes longer; auto takes smoothing or linkage."
    )
    return knob(default, about, choices=(*more, *PARTITIONS))


_SWITCHES = {word: word in ("true", "yes", "on", "1") for word in "true yes on 1 false no off 0".split()}


@dataclass(frozen=True)
class Knob:
    """A knob as forms, the command line and tests see it."""

    name: str
    kind: type
    default: Any
    help: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    advanced: bool

    def read(self, given: Any) -> Any:
        """Turn what a person gave into a value of the right type within bounds, or refuse it in words."""
        value: Any = self._parse(given) if isinstance(given, str) and self.kind is not str else given
        if self.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not self._is_kind(value):
            raise BadInput(f"{self.name} must be {self._expected()}; you gave {value!r}.")
        if self.kind is str and not self.choices:
            if len(value) > (self.high or 0):
                raise BadInput(
                    f"{self.name} must be a text of at most {self.high:g} characters; you gave {len(value)}."
                )
            return value
        if self.choices and value not in self.choices:
            raise BadInput(f"{self.name} must be one of {', '.join(self.choices)}; you gave {value}.")
        if (self.low is not None and not value >= self.low) or (self.high is not None and not value <= self.high):
            raise BadInput(f"{self.name} must be {self._expected()}; you gave {value}.")
        return value

    def _is_kind(self, value: Any) -> bool:
        return type(value) is self.kind

    def _parse(self, text: str) -> Any:
        try:
            return _SWITCHES[text.strip().lower()] if self.kind is bool else self.kind(text.strip())
        except (ValueError, KeyError):
            raise BadInput(f"{self.name} must be {self._expected()}; you gave “{text}”.") from None

    def _expected(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        noun = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[self.kind]
        return noun if self.low is None else f"{noun} from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class Method:
    """What every method has. Subclasses add knobs, name their stages and write ``fit``."""

    name: ClassVar[str]
    title: ClassVar[str]
    stages: ClassVar[tuple[str, ...]]
    about: ClassVar[Mapping[str, str]] = MappingProxyType(ABOUT)  # what happens in each, for people who watch
    needs_encoder: ClassVar[bool] = False
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})  # names people choose, knobs they set

    clusters: int = knob(12, "How many clusters to look for.", low=2, high=2_000)
    partition: str = partition_knob("kmeans")
    normalise: bool = knob(True, "Scale vectors to length one first, so that only direction counts.", advanced=True)

    @classmethod
    def knobs(cls) -> list[Knob]:
        """List the knobs in the order in which they are shown."""
        kinds = get_type_hints(cls)
        assert all(item.default is not MISSING for item in fields(cls))
        return [Knob(item.name, kinds[item.name], item.default, **item.metadata) for item in fields(cls)]

    @classmethod
    def from_knobs(cls, values: Mapping[str, Any]) -> "Method":
        """Build the method from given values, refusing unknown names and bad values in words."""
        known = {item.name: item for item in cls.knobs()}
        for name in values:
            if name not in known:
                raise BadInput(f"{cls.name} has no knob “{name}”; it has {', '.join(known)}.")
        return cls(**{name: known[name].read(value) for name, value in values.items()})

    def check(self, bench: Bench) -> None:
        """Refuse, in words, what stands in the way before anything starts."""
        distinct = len(set(bench.texts))
        if not distinct:
            raise BadInput("No row has a text that can be used.")
        if distinct < self.clusters:
            raise BadInput(f"There are {distinct:,} different texts and {self.clusters:,} clusters: ask for fewer.")

    def reads(self) -> tuple[str, ...]:
        """Name the columns beside the text that the method reads."""
        return ()

    def models(self) -> tuple[str, ...]:
        """Name the models beside the encoder that the method loads."""
        return ()

    def settled(self, lengths: np.ndarray, shape: Shape, device: str) -> tuple["Method", dict[str, str]]:
        """Replace every "auto" by a value when the run is created; return the reasons in words, by knob.

        ``lengths`` are the texts' guessed numbers of tokens.
        """
        return self, {}

    def plan(self, forecast: Forecast) -> tuple[Stage, ...]:
        """Name the stages with a guess of their seconds and memory."""
        raise AssertionError(f"{self.name} does not say what its stages are")

    def cluster(
        self, bench: Bench, vectors: np.ndarray, state: State, start: np.ndarray | None = None, how: str = ""
    ) -> Work[Clustering]:
        """Partition vectors as the shared knobs say, or as it was decided: the last stage of every method."""
        how, lexical = how or self.partition, None
        if how in (AUTO, SMOOTH, LINKAGE):
            lexical = (yield from bench.words()).lexical(bench.seed)
        return (
            yield from partition(
                vectors,
                self.clusters,
                how,
                normalise=self.normalise,
                seed=bench.seed,
                projector=bench.projector,
                lexical=lexical,
                start=start,
                state=state.find(CLUSTER),
            )
        )

    def fit(self, bench: Bench, state: State = AFRESH) -> Work[Clustering]:
        """Do the work, telling what happens; go on from ``state``, the last checkpoint of each stage reached."""
        raise AssertionError(f"{self.name} does not fit")


@dataclass(frozen=True)
class Encoding(Method):
    """What methods share that read texts with an encoder: how its tokens become one vector."""

    needs_encoder = True
    usual_pooling: ClassVar[str] = "mean"  # where the encoder does not say how it was trained

    pooling: str = knob(
        AUTO,
        "One vector per text: the mean of its tokens, its first token, or as the encoder was trained (auto).",
        choices=(AUTO, *POOLINGS),
        advanced=True,
    )

    def settled(self, lengths: np.ndarray, shape: Shape, device: str) -> tuple[Method, dict[str, str]]:
        """Fix the pooling."""
        if self.pooling != AUTO:
            return self, {}
        return replace(self, pooling=shape.pooling or self.usual_pooling), {}
