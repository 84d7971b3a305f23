"""The part of DER that time stamps need: read strictly, write what a request holds."""

from __future__ import annotations

from msgspec import Struct

BOOLEAN, INTEGER, OCTETS, NULL, OID, TIME = 0x01, 0x02, 0x04, 0x05, 0x06, 0x18
SEQUENCE, SET = 0x30, 0x31
MOST_DEPTH_BYTES = 1 << 20


def context_tag(number: int) -> int:
    """Return the tag of a constructed value of the context, like `[0]`."""
    return 0xA0 | number


class Der(Struct, frozen=True):
    """One value: its tag, its content, and all its bytes."""

    tag: int
    content: bytes
    whole: bytes

    def parts(self) -> list[Der]:
        """Read the values inside."""
        found, at = [], 0
        while at < len(self.content):
            value = _read(self.content, at)
            found.append(value)
            at += len(value.whole)
        return found

    def integer(self) -> int:
        """Return a whole number."""
        if self.tag != INTEGER or not self.content or len(self.content) > 64:
            raise ValueError("a number of the time stamp cannot be read")
        return int.from_bytes(self.content, "big", signed=True)

    def take(self, tag: int) -> Der:
        """Return the value itself where it has this tag."""
        if self.tag != tag:
            raise ValueError(f"the time stamp holds {self.tag:#x} in place of {tag:#x}")
        return self


def read_der(data: bytes) -> Der:
    """Read bytes that are one value and nothing else, or raise ValueError."""
    value = _read(data, 0)
    if len(value.whole) != len(data):
        raise ValueError("something follows the time stamp")
    return value


def write_der(tag: int, *parts: bytes) -> bytes:
    """Write a value of these parts."""
    content = b"".join(parts)
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    size = len(content).to_bytes(-(-len(content).bit_length() // 8), "big")
    return bytes([tag, 0x80 | len(size)]) + size + content


def write_integer(value: int) -> bytes:
    """Write a whole number that is not negative."""
    return write_der(INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def write_oid(text: str) -> bytes:
    """Write the name of an algorithm or a type."""
    first, second, *rest = (int(part) for part in text.split("."))
    content = bytearray()
    for number in (40 * first + second, *rest):
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.append(0x80 | number & 0x7F)
        content += bytes(reversed(digits))
    return write_der(OID, bytes(content))


def _read(data: bytes, at: int) -> Der:
    head = data[at : at + 2]
    if len(head) < 2 or head[0] & 0x1F == 0x1F:
        raise ValueError("the time stamp is cut off")
    size, start = head[1], at + 2
    if size >= 0x80:
        count = size & 0x7F
        digits = data[start : start + count]
        size, start = int.from_bytes(digits, "big"), start + count
        is_short = size < 0x80 or digits[:1] == b"\0"
        if not 1 <= count <= 4 or len(digits) != count or is_short:
            raise ValueError("a length of the time stamp is not in its one form")
    end = start + size
    if end > len(data) or size > MOST_DEPTH_BYTES:
        raise ValueError("the time stamp is cut off")
    return Der(head[0], data[start:end], data[at:end])
