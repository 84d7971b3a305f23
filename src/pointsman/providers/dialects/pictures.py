"""Images: OpenAI writes them as addresses, `data:` ones included, Anthropic as sources."""

from __future__ import annotations

from pointsman.providers.dialects.loss import CannotSayCode, refuse
from pointsman.providers.messages import Image

_MESSAGES_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def read_url(url: str, where: str) -> Image:
    """Read an address; one with its bytes in it becomes those bytes."""
    if not url.startswith("data:"):
        return Image("url", url)
    head, comma, data = url[len("data:") :].partition(",")
    media_type, _, encoding = head.partition(";")
    if not comma or encoding != "base64":
        raise refuse(CannotSayCode.IMAGE_URL, where)
    return Image("base64", data, media_type)


def url_of(image: Image) -> str:
    """Write an image as an address."""
    if image.kind == "url":
        return image.data
    return f"data:{image.media_type};base64,{image.data}"


def source_of(image: Image) -> dict[str, str]:
    """Write an image as a source of messages, which takes https and four types."""
    if image.kind == "url":
        if not image.data.startswith("https://"):
            raise refuse(CannotSayCode.IMAGE_URL, image.data[:60])
        return {"type": "url", "url": image.data}
    if image.media_type not in _MESSAGES_TYPES:
        raise refuse(CannotSayCode.IMAGE_TYPE, image.media_type)
    return {"type": "base64", "media_type": image.media_type, "data": image.data}
