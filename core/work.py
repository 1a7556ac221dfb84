"""The shape of everything that takes time: a generator of events that returns its result."""

from collections.abc import Generator
from typing import TypeVar

from core.events import Event

T = TypeVar("T")
Work = Generator[Event | None, None, T]
