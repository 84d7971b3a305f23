"""What reaches a model, and how much it is."""

from msgspec import Raw

from pointsman.providers.capabilities import (
    IMAGE_TOKENS,
    estimate_input_tokens,
)
from pointsman.providers.messages import (
    ChatMessage,
    Image,
    ModelRequest,
    Text,
    ToolResult,
    ToolSpec,
    ToolUse,
)


def words(text):
    return len(text.split())


def test_everything_that_is_sent_counts():
    picture = Image("base64", "aGk=", "image/png")
    request = ModelRequest(
        messages=(
            ChatMessage("user", (Text("one two"), picture)),
            ChatMessage("assistant", (ToolUse("1", "look_up", Raw(b'{"q": "x"}')),)),
            ChatMessage("tool", (ToolResult("1", (Text("three"), picture)),)),
        ),
        system=(Text("be kind"),),
        tools=(ToolSpec("look_up", "looks up", Raw(b"{}")),),
    )
    assert estimate_input_tokens(request, words) == 2 + 4 + 2 + 3 + 1 + 2 * IMAGE_TOKENS + 12 + 12
