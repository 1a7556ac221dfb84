"""A file becomes a table: every cell as text, every row and column kept."""

from core.tables.names import free_name
from core.tables.read import KINDS, Table, read_table

__all__ = ["KINDS", "Table", "free_name", "read_table"]
