"""What a method may use, and what it will cost."""

from core.bench.bench import Bench

__all__ = ["Bench"]
