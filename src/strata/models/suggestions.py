"""What was probably meant by a wrong value: the fix that a message names, if it is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from ipaddress import AddressValueError, IPv4Address, NetmaskValueError, ip_network, summarize_address_range

LONGEST = 200
"""Characters of a value that is looked at; longer ones are nothing that was misspelt."""
_TEMPLATE = re.compile(r"\$\{|\$\(|\$[A-Za-z_]|\{\{|\{%|%[A-Za-z_]+%|<%|`")
_CURLY_QUOTES = re.compile("[\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb]")
_QUANTITY = re.compile(r"\s*([0-9][0-9,_ ]*?(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def general(value: object) -> str | None:
    """What is wrong with a text whatever it was to be: templates, quotes of a word processor, several lines."""
    if not isinstance(value, str):
        return None
    text = value[:LONGEST]
    if _TEMPLATE.search(text):
        return "write the value out; a site file has no variables and templates"
    if _CURLY_QUOTES.search(text):
        return f'write straight quotes: "{_CURLY_QUOTES.sub("", text)}"'
    if "\n" in text.rstrip("\n") or not text.endswith("\n"):
        return None
    return "write it on one line, without | and >"


def number(value: object) -> str | None:
    """A whole number that was written otherwise: quoted, with leading zeros or separators, with a comment attached."""
    if not isinstance(value, str | float) or len(str(value)) > LONGEST:
        return None
    text = re.sub(r"\.0*$", "", str(value).strip())
    if match := re.fullmatch(r"(-?[0-9]+)#.*", text):
        return f"put a space before #: {match[1]} #…"
    if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,18}|0", text):
        return f"write {text}, without quotes"
    digits = re.fullmatch(r"\+?0*([1-9][0-9]{0,2}([,_ ']?[0-9]{3})*|[1-9][0-9]*)", text)
    return f"did you mean {re.sub('[,_ ]', '', digits[1])}?" if digits else None


def size(value: object, units: Mapping[str, int]) -> str | None:
    """A size with another unit, spelling or space: 32gb, 1.5 GiB."""
    if isinstance(value, bool) or not isinstance(value, str | int) or len(str(value)[:LONGEST]) >= LONGEST:
        return None
    match = _QUANTITY.fullmatch(str(value).replace("\u00a0", " "))
    if match is None or len(match[1]) > 18:
        return None
    count = Decimal(re.sub("[,_ ]", "", match[1]))
    if not match[2]:
        return f"name the unit: {count} GiB"
    unit = next((u for u in units if u[0].lower() == match[2][0].lower() and _same_unit(match[2], u)), None)
    if unit is None:
        return None
    if count % 1:  # 1.5 GiB is 1536 MiB
        smaller = [u for u in units if units[u] < units[unit] and count * units[unit] % units[u] == 0]
        if not smaller:
            return None
        count, unit = count * units[unit] / units[smaller[-1]], smaller[-1]
    text = f"{int(count)} {unit}"
    return f"did you mean {text}?" if text != value else None


def _same_unit(word: str, unit: str) -> bool:
    """Whether a word is another spelling of a unit: gb, Gi and G of GiB."""
    lower, symbol = word.lower(), unit.lower()
    if symbol == "b":
        return lower in ("b", "byte", "bytes")
    return lower in (symbol, symbol[0], symbol[0] + "b", symbol[0] + "i", symbol[0] + "bytes")


def network(value: str) -> str | None:
    """A network that was written otherwise: swapped, with a mask, a range, zeros in front, spaces."""
    if len(value) > LONGEST:
        return None
    text = re.sub(r"\s", "", value).replace("\\", "/")
    text = re.sub(r"\b0+(?=[0-9])", "", text.replace(",", ".") if re.fullmatch(r"[0-9,/]+", text) else text)
    swapped = re.fullmatch(r"([0-9]{1,2})/([0-9.]+)", text)
    if swapped and "." in swapped[2]:
        text = f"{swapped[2]}/{swapped[1]}"
    try:
        if ends := re.fullmatch(r"([0-9.]+)-([0-9.]+)", text):
            blocks = list(summarize_address_range(IPv4Address(ends[1]), IPv4Address(ends[2])))
            return f"did you mean {blocks[0]}?" if len(blocks) == 1 else None
        if "/" in text:
            return f"did you mean {ip_network(text, strict=False)}?"
    except (ValueError, AddressValueError, NetmaskValueError, TypeError):
        return None
    return None


def label(value: str) -> str | None:
    """The host name nearest to a text: capitals, underscores, dots and spaces."""
    text = re.sub(r"[^a-z0-9]+", "-", value[:LONGEST].lower()).strip("-")
    return f"did you mean {text}?" if value.isascii() and 0 < len(text) <= 63 else None


def domain(value: str) -> str | None:
    """The domain in a text: capitals, a last dot, a URL around it."""
    text = re.sub(r"^[a-z]+://|[./:;,\s].?$|/.*$", "", value[:LONGEST].lower().strip().rstrip(".;,/"))
    good = re.fullmatch(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?", text)
    return f"did you mean {text}?" if good and text != value else None


def pci_identifier(value: str) -> str | None:
    """Four digits of a PCI identifier with a prefix, a bracket or capitals: 0x10DE. A pair is for two keys."""
    text = value[:LONGEST].strip().strip("[]").lower()
    if pair := re.fullmatch(r"([0-9a-f]{4}):([0-9a-f]{4})", text):
        return f'write vendor_id: "{pair[1]}" and product_id: "{pair[2]}"'
    digits = re.fullmatch(r"(?:0x)?([0-9a-f]{4})", text)
    return f'did you mean "{digits[1]}"?' if digits else None


def pci_address(value: str) -> str | None:
    """A PCI address without domain, as lspci prints it, or in capitals or with eight digits as nvidia-smi does."""
    match = re.fullmatch(
        r"(?:0000)?(?:([0-9a-f]{4}):)?([0-9a-f]{2}:[01][0-9a-f]\.[0-7])", value[:LONGEST].strip().lower()
    )
    return f'did you mean "{match[1] or "0000"}:{match[2]}"?' if match else None
