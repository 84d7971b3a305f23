"""Action requests and semantic memory over HTTP."""
