"""Which encoding a file is written in."""

import codecs
import re
from collections.abc import Iterator

from core.errors import BadInput

ENCODINGS = (
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-16-be",
    "cp1252",
    "latin-1",
    "mac-roman",
    "cp1250",
    "cp1251",
    "shift_jis",
    "gb18030",
    "big5",
    "euc-kr",
)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def check_encoding(name: str) -> str:
    """Return the name of an encoding for text, or say that it is none."""
    try:
        "".encode(name)
    except (LookupError, UnicodeError, ValueError):
        raise BadInput(f"“{name}” is not an encoding of text that this machine knows.") from None
    return name


def find_encoding(data: bytes) -> str:
    """Name the encoding: a byte-order mark, zero bytes, valid UTF-8, and only then the Western code pages."""
    for bom, name in _BOMS:
        if data.startswith(bom):
            return name
    head = data[:4096]
    if len(head) >= 4 and head.count(0):
        even, odd = head[::2].count(0), head[1::2].count(0)
        if odd > len(head) * 0.2 and odd > 4 * even and not _is_binary(head.decode("utf-16-le", "replace")):
            return "utf-16-le"
        if even > len(head) * 0.2 and even > 4 * odd and not _is_binary(head.decode("utf-16-be", "replace")):
            return "utf-16-be"
    if _is_binary(head.decode("latin-1")):
        raise BadInput("This file is not a table of text: it holds binary data.")
    if is_utf8(data):
        return "utf-8"
    good, bad = _utf8_counts(data)
    if bad * 4 <= good:  # a cut or glued file: a few broken characters among many sound ones
        return "utf-8"
    if any(byte in data for byte in (b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d")):
        return "latin-1"  # cp1252 has no character there
    has_c1 = any(bytes([byte]) in data for byte in range(0x80, 0xA0))
    return "cp1252" if has_c1 else "latin-1"


def _is_binary(text: str) -> bool:
    """Say whether there are more control characters than text ever has."""
    return len(re.findall(r"[\x00-\x08\x0e-\x19\x1b-\x1f]", text)) > 0.02 * max(len(text), 1)


def _pieces(data: bytes) -> Iterator[bytes]:
    """Cut a large file so that no check needs one large string."""
    return (data[start : start + (1 << 20)] for start in range(0, len(data), 1 << 20))


def is_utf8(data: bytes) -> bool:
    """Say whether every byte is part of valid UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in _pieces(data):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _utf8_counts(data: bytes) -> tuple[int, int]:
    """Count non-ASCII characters that are valid UTF-8, and those that are not."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    good = bad = 0
    for piece in _pieces(data):
        strange = re.sub(r"[\x00-\x7f]+", "", decoder.decode(piece))
        bad += strange.count("\ufffd")
        good += len(strange) - strange.count("\ufffd")
    return good, bad
