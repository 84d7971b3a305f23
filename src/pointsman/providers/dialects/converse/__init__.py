"""Amazon's Converse, spoken to providers only: no caller sends it here."""

from pointsman.providers.dialects.converse.request_out import write_request
from pointsman.providers.dialects.converse.response import read_response, stream_reader

__all__ = ["read_response", "stream_reader", "write_request"]
