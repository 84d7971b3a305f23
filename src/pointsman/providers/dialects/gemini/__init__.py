"""Google's generateContent, spoken to providers only: no caller sends it here."""

from pointsman.providers.dialects.gemini.request_out import write_request
from pointsman.providers.dialects.gemini.response import read_response, stream_reader

__all__ = ["read_response", "stream_reader", "write_request"]
