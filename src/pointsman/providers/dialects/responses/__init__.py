"""OpenAI's responses."""

from pointsman.providers.dialects.responses.request_in import read_request
from pointsman.providers.dialects.responses.request_out import write_request
from pointsman.providers.dialects.responses.response import read_response, write_response
from pointsman.providers.dialects.responses.stream_in import stream_reader
from pointsman.providers.dialects.responses.stream_out import error_event, stream_writer
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
