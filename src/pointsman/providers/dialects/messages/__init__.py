"""Anthropic's messages."""

from pointsman.providers.dialects.messages.request_in import read_request
from pointsman.providers.dialects.messages.request_out import write_request
from pointsman.providers.dialects.messages.response import (
    read_response,
    write_error,
    write_response,
)
from pointsman.providers.dialects.messages.stream import error_event, stream_reader, stream_writer

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
