"""OpenAI's chat completions."""

from pointsman.providers.dialects.chat.request_in import read_request
from pointsman.providers.dialects.chat.request_out import write_request
from pointsman.providers.dialects.chat.response import read_response, write_response
from pointsman.providers.dialects.chat.stream import error_event, stream_reader, stream_writer
from pointsman.providers.dialects.upstream_error import write_error

__all__ = [
    "error_event",
    "read_request",
    "read_response",
    "stream_reader",
    "stream_writer",
    "write_error",
    "write_request",
    "write_response",
]
