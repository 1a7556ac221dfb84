"""Column names that are never blank and never repeated."""

from collections.abc import Iterable


def unique_names(names: Iterable[str]) -> list[str]:
    """Give blank columns a name and repeated ones a number, leaving every other name as it is."""
    given = list(names)
    taken = {name for name in given if name.strip()}
    seen: set[str] = set()
    result = []
    for position, name in enumerate(given, start=1):
        if not name.strip():
            name = free_name(f"column {position}", taken | seen)
        elif name in seen:
            name = free_name(name, taken | seen)
        seen.add(name)
        result.append(name)
    return result


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, or the name with the first number that makes it free."""
    taken, number, candidate = set(taken), 2, name
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate
