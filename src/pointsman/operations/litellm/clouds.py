"""Entries of a LiteLLM `model_list` for models in a cloud: Azure, Bedrock and Vertex."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

CLOUDS: Final = {"azure": "azure", "bedrock": "bedrock", "vertex_ai": "vertex"}
"""Vendors by LiteLLM's name, and the kind of provider that speaks to them here."""

CLOUD_KEYS: Final = frozenset({
    "aws_access_key_id", "aws_profile_name", "aws_region_name", "aws_role_name",
    "aws_secret_access_key", "aws_session_token", "client_id", "client_secret", "tenant_id",
    "vertex_credentials", "vertex_location", "vertex_project",
})  # fmt: skip

_AWS_SECRETS: Final = {
    "access_key": "aws_access_key_id",
    "secret_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
}
_NEEDED: Final = {
    "azure": ("api_base",),
    "bedrock": ("aws_region_name",),
    "vertex": ("vertex_project", "vertex_location"),
}

Text = Callable[[str], str]
"""Reads a plain setting of the entry, its reference to the environment followed."""

Secret = Callable[[str, str], dict[str, str]]
"""Names the variable of a secret of the entry, or of the variable given where it has none."""


def missing_of_cloud(kind: str, text: Text) -> str:
    """Return what an entry lacks, empty where nothing."""
    absent = [f"`{key}`" for key in _NEEDED[kind] if not text(key)]
    return f"it needs {' and '.join(absent)}" if absent else ""


def cloud_provider(
    kind: str, params: Mapping[str, Any], text: Text, secret: Secret
) -> dict[str, Any]:
    """Return the provider of an entry, as `models.yaml` writes it, without its key and limits."""
    provider: dict[str, Any] = {"kind": kind}
    if kind == "azure":
        provider["base_url"] = text("api_base").rstrip("/")
        if params.get("api_version"):
            provider["api_version"] = text("api_version")
        if params.get("client_secret"):
            provider["login"] = {
                "tenant": text("tenant_id"),
                "client": text("client_id"),
                "secret": secret("client_secret", "AZURE_CLIENT_SECRET"),
            }
    elif kind == "bedrock":
        provider |= {"region": text("aws_region_name"), "login": _aws_login(params, text, secret)}
    else:
        account = secret("vertex_credentials", "VERTEX_SERVICE_ACCOUNT")
        provider |= {
            "region": text("vertex_location"),
            "project": text("vertex_project"),
            "login": {"service_account": account},
        }
    return provider


def _aws_login(params: Mapping[str, Any], text: Text, secret: Secret) -> dict[str, Any]:
    login: dict[str, Any]
    if params.get("aws_profile_name"):
        login = {"profile": text("aws_profile_name")}
    else:
        login = {
            ours: secret(theirs, theirs.upper())
            for ours, theirs in _AWS_SECRETS.items()
            if ours != "session_token" or params.get(theirs)
        }
    return {**login, "role": text("aws_role_name")} if params.get("aws_role_name") else login
