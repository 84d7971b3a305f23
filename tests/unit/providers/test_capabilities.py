"""What reaches a model, and how much it is."""

from msgspec import Raw

from pointsman.providers.capabilities import (
    IMAGE_TOKENS,
    adapter_capabilities,
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
from pointsman.turns.registry.models import Capabilities


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


def test_an_adapter_carries_what_its_model_can_do():
    model = Capabilities(max_context_tokens=9, supports_images=True, supports_streaming=False)
    chat, messages = (adapter_capabilities(model, each) for each in ("chat", "messages"))
    assert chat.accepted_image_media_types == (
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
    )
    assert not chat.supports_streaming_tool_calls
    assert (chat.supports_system_messages_in_list, messages.supports_system_messages_in_list) == (
        True,
        False,
    )
    assert adapter_capabilities(Capabilities(), "chat").accepted_image_media_types == ()
