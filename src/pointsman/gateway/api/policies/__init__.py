"""Policy files over HTTP."""
