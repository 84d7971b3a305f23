"""Logins as `models.yaml` writes them."""

import json
from pathlib import Path

import pytest

from pointsman.errors import DocumentError
from pointsman.storage.policies.price_table import load_price_table
from pointsman.storage.policies.secrets import SecretSettings, check_given_secrets, missing_secrets
from pointsman.turns.registry.models import NO_MODELS, ModelsFile, read_models, registry

ENTRA = {"tenant": "t", "client": "c", "secret": {"env": "ENTRA_SECRET"}}
AZURE = {"kind": "azure", "base_url": "https://x.openai.azure.com", "login": ENTRA}


BEDROCK = {"kind": "bedrock", "region": "eu-west-1"}


def read(**provider: object) -> ModelsFile:
    body = {"schema_version": 1, "providers": {"it": provider}}
    return read_models(json.dumps(body).encode(), "models.yaml")


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ({"kind": "openai", "login": ENTRA}, "has no `login`"),
        ({**AZURE, "api_key": {"env": "K"}}, "not both"),
        ({**AZURE, "login": {"tenant": "t", "client": "c"}}, "lacks `secret`"),
        ({**AZURE, "login": {**ENTRA, "secret": {}}}, "either `env` or `file`"),
        ({**AZURE, "login": {**ENTRA, "token_url": "ftp://x"}}, "`token_url` begins"),
        ({**AZURE, "login": {**ENTRA, "tenant": "a/b"}}, "must match"),
        ({"kind": "openai", "client_certificate": {"env": "C"}}, "named by `file`"),
        ({"kind": "azure"}, "needs its `base_url`"),
        ({"kind": "bedrock"}, "needs its `region`"),
        ({"kind": "openai", "region": "eu"}, "has no `region`"),
        ({"kind": "vertex", "region": "us-central1"}, "has a `project`"),
        ({**BEDROCK, "project": "p"}, "has a `project`"),
        (
            {"kind": "vertex", "region": "global", "project": "p", "login": {"scope": "s"}},
            "lacks `service_account`",
        ),
        ({**BEDROCK, "login": {"access_key": {"env": "A"}}}, "lacks `secret_key`"),
        ({**BEDROCK, "login": {"role": "r"}}, "lacks `access_key`"),
        ({**BEDROCK, "login": {"profile": "p", "access_key": {"env": "A"}}}, "not both"),
        ({**BEDROCK, "login": {"profile": "p", "tenant": "t"}}, "has no `tenant`"),
        ({"kind": "openai", "api_version": "v1"}, "only an `azure` provider"),
    ],
)
def test_a_login_that_cannot_work_is_refused(provider: dict[str, object], words: str) -> None:
    with pytest.raises(DocumentError, match=words):
        read(**provider)


def test_each_secret_of_a_login_must_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = read(**AZURE).providers["it"]
    assert missing_secrets(provider, tmp_path) == ["env ENTRA_SECRET"]
    monkeypatch.setenv("ENTRA_SECRET", "s")
    assert missing_secrets(provider, tmp_path) == []


def test_a_policy_set_over_http_names_no_secret_for_a_login_that_is_not_listed(
    tmp_path: Path,
) -> None:
    given = read(**AZURE)
    text = json.dumps({"schema_version": 1, "providers": {"it": AZURE}}).encode()
    with pytest.raises(DocumentError, match="may not name the variable `ENTRA_SECRET`"):
        check_given_secrets(text, "m", given, NO_MODELS, (SecretSettings(), tmp_path))
    listed = SecretSettings(env=("ENTRA_SECRET",))
    check_given_secrets(text, "m", given, NO_MODELS, (listed, tmp_path))


def test_the_file_of_a_profile_is_a_secret_too(tmp_path: Path) -> None:
    login = {"profile": "work", "profile_file": "credentials"}
    given = read(**BEDROCK, login=login)
    assert missing_secrets(given.providers["it"], tmp_path) == ["file credentials"]
    text = json.dumps({"schema_version": 1, "providers": {"it": {**BEDROCK, "login": login}}})
    with pytest.raises(DocumentError, match="may not name the file `credentials`"):
        check_given_secrets(text.encode(), "m", given, NO_MODELS, (SecretSettings(), tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "eu.anthropic.claude-opus-4-6-v1",
        "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-4-6-v1",
    ],
)
@pytest.mark.parametrize("address", [{}, {"base_url": "https://vpce-1.example.org"}])
def test_a_model_of_bedrock_has_its_price_wherever_it_is_called(
    name: str, address: dict[str, str]
) -> None:
    body = {
        "schema_version": 1,
        "providers": {"it": {**BEDROCK, **address}},
        "models": {f"it:{name}": {"location": "cloud"}},
    }
    found = registry(read_models(json.dumps(body).encode(), "m"), load_price_table().price)
    assert found[f"it:{name}"].price == load_price_table().price(
        "bedrock:eu.anthropic.claude-opus-4-6-v1"
    )
    assert found[f"it:{name}"].price is not None


def test_a_deployment_called_as_its_model_has_that_models_price() -> None:
    text = json.dumps(
        {
            "schema_version": 1,
            "providers": {"it": {"kind": "azure", "base_url": "https://x.openai.azure.com"}},
            "models": {"it:gpt-5.2": {"location": "cloud"}},
        }
    )
    found = registry(read_models(text.encode(), "m"), load_price_table().price)["it:gpt-5.2"]
    assert found.price == load_price_table().price("azure:gpt-5.2")
    assert found.price is not None
