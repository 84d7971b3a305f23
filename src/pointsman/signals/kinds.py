"""Every kind of hit, its meaning, and its strength against others at the same place."""

from __future__ import annotations

from pointsman.signals.hit import Group, KindInfo


def _kinds(group: Group, described: dict[str, str], *, has_checksum: bool) -> tuple[KindInfo, ...]:
    return tuple(KindInfo(name, group, has_checksum, text) for name, text in described.items())


ISSUED = _kinds("secret", has_checksum=True, described={
    "github_token": "a GitHub token; its CRC-32 is checked, fine-grained ones have their form",
    "npm_token": "an npm access token; its CRC-32 is checked",
}) + _kinds("secret", has_checksum=False, described={
    "private_key": "a private key block of PEM, OpenSSH, PGP or PuTTY, with a body",
    "basic_auth_url": "an address with a user's password in it",
    "jwt": "a JSON Web Token whose header names an algorithm",
    "slack_webhook": "an address of a Slack webhook",
    "aws_access_key": "an AWS access key id",
    "aws_secret_key": "an AWS secret access key beside its name",
    "azure_storage_key": "a key of an Azure storage account or service bus beside its name",
    "gitlab_token": "a GitLab token",
    "slack_token": "a Slack bot, user or app token",
    "stripe_key": "a secret or restricted Stripe key, live or test, or a webhook secret",
    "google_api_key": "a Google API key",
    "openai_key": "an OpenAI key",
    "anthropic_key": "an Anthropic key",
    "huggingface_token": "a Hugging Face token",
    "pypi_token": "a PyPI upload token",
    "sendgrid_key": "a SendGrid key",
    "twilio_key": "a Twilio API key",
    "telegram_bot_token": "a Telegram bot's token",
    "google_oauth_secret": "a client secret or an access token of Google's OAuth",
    "azure_client_secret": "a client secret of an Azure application",
    "digitalocean_token": "a DigitalOcean token",
    "alibaba_access_key": "an Alibaba Cloud access key id",
    "tencent_secret_id": "a Tencent Cloud secret id",
    "databricks_token": "a Databricks token",
    "vault_token": "a HashiCorp Vault token",
    "cloudflare_key": "a Cloudflare origin CA key",
})  # fmt: skip

CHECKED = _kinds("pii", has_checksum=True, described={
    "payment_card": "a payment card number: Luhn, and an issuer's prefix and length",
    "iban": "an IBAN: mod 97, and the length of its country",
    "de_steuer_id": "a German tax number",
    "fr_nir": "a French social security number",
    "es_dni": "a Spanish DNI or NIE",
    "it_codice_fiscale": "an Italian tax code",
    "nl_bsn": "a Dutch BSN, by name or written officially",
    "be_rijksregister": "a Belgian national number",
    "pl_pesel": "a Polish PESEL, by name",
    "se_personnummer": "a Swedish personnummer",
    "fi_hetu": "a Finnish identity code",
    "uk_nhs": "a British NHS number, by name or written officially",
    "br_cpf": "a Brazilian CPF, by name or written officially",
    "in_aadhaar": "an Indian Aadhaar number, by name or written officially",
    "ca_sin": "a Canadian SIN, by name or in dashes",
    "no_fodselsnummer": "a Norwegian national number, by name or written officially",
    "ch_ahv": "a Swiss insurance number, by name or written officially",
    "at_svnr": "an Austrian insurance number, by name",
    "pt_nif": "a Portuguese tax number, by name",
    "ie_pps": "an Irish PPS number",
    "au_tfn": "an Australian tax file number, by name",
    "kr_rrn": "a South Korean resident registration number",
    "mx_curp": "a Mexican CURP",
    "cn_resident_id": "a Chinese resident identity number",
})  # fmt: skip

ASSIGNED = _kinds("secret", has_checksum=False, described={
    "password_assignment": "a value beside a word for passwords",
    "generic_secret": "a varied value beside a word for keys or tokens",
})  # fmt: skip

NAMED = _kinds("pii", has_checksum=False, described={
    "passport": "a passport's number after a word for it, or its machine-readable line",
    "driving_licence": "a driving licence's number after a word for it, or a British one",
    "date_of_birth": "a date after words for a birth",
    "bank_account": "a sort or routing number with an account, or an account after words for it",
    "dk_cpr": "a Danish personal number, by name",
    "patient_number": "a number of a patient or of an insurance of health, by name",
})  # fmt: skip

SHAPED = _kinds("pii", has_checksum=False, described={
    "uk_nino": "a British national insurance number, outside the prefixes never issued",
    "us_ssn": "an American social security number, outside the ranges never issued",
    "email": "an e-mail address",
    "phone": "a telephone number: with a country code, as a country writes it, or after a word",
    "ip_address": "an address of the internet, version 4 or 6",
    "private_ip_address": "an address of a private network; loopback and netmasks are none",
    "postal_address": "a street and a house number, as six languages write them",
})  # fmt: skip

MEDICAL = _kinds("medical", has_checksum=False, described={
    "diagnosis": "the name of an illness or condition in six languages, or a code of ICD-10",
    "medication": "the name of a medicine",
    "procedure": "the name of a treatment or an examination",
})  # fmt: skip

RANKS = (ISSUED, CHECKED, ASSIGNED + NAMED, SHAPED, MEDICAL)
"""Of two hits that overlap the one of the earlier rank stays."""

KINDS: tuple[KindInfo, ...] = tuple(kind for rank in RANKS for kind in rank)

LET_THROUGH: tuple[str, ...] = ("pii", "secret", "medical", *(each.name for each in KINDS))
"""The groups and kinds of findings that `agents.yaml` may let through."""
