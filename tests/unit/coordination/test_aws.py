"""Signatures are those that AWS computes, and credentials are found in AWS's order."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from fluence_extender.coordination.provider import ProviderError
from fluence_extender.coordination.providers.aws import EARLY, AwsCredentials, Keys, signed
from tests.unit.coordination.servers import Call, Reply, serving

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STS = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>
<SessionToken>t</SessionToken><Expiration>{expires}</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""


def test_signature_of_a_post() -> None:
    """The expected signature was computed by AWS's own library for Python."""
    url = "https://braket.us-east-1.amazonaws.com/quantum-tasks"
    body = b'{"filters": []}'
    headers = {"Content-Type": "application/json"}
    sent = signed("POST", url, headers, body, Keys("AKID", "secret"), "us-east-1", "braket", NOW)
    assert sent["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKID/20260102/us-east-1/braket/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date, "
        "Signature=cbd36043cd72a2bee4fb24c4ef583a1b38d7ab4ede1976692674b4c8ff80ab3b"
    )


def test_signature_of_an_encoded_path_with_a_query_and_a_token() -> None:
    """The expected signature was computed by AWS's own library for Python."""
    arn = "arn%3Aaws%3Abraket%3Aus-west-1%3A1%3Aquantum-task%2Fabc"
    url = f"https://braket.us-west-1.amazonaws.com/quantum-task/{arn}?additionalAttributeNames=QueueInfo"
    keys = Keys("AKID", "secret", "tok/en+=")
    sent = signed("GET", url, {}, b"", keys, "us-east-1", "braket", NOW)
    assert sent["Authorization"].endswith(
        "SignedHeaders=host;x-amz-date;x-amz-security-token, "
        "Signature=6ba1d13db85e58d478753cc794c4766dd8460be2c42c3ddf4eaf9a553d478011"
    )
    assert sent["X-Amz-Security-Token"] == "tok/en+="


def test_keys_are_not_in_their_repr() -> None:
    shown = repr(Keys("AKID", "very-secret", "token-secret"))
    assert "very-secret" not in shown
    assert "token-secret" not in shown


def test_keys_in_the_environment_come_first(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = B\naws_secret_access_key = b\n")
    environ = {
        "AWS_ACCESS_KEY_ID": "A",
        "AWS_SECRET_ACCESS_KEY": "a",
        "AWS_SESSION_TOKEN": "t",
        "AWS_SHARED_CREDENTIALS_FILE": str(file),
    }
    assert AwsCredentials(environ, "us-east-1").keys() == Keys("A", "a", "t")


@pytest.mark.parametrize(("profile", "access"), [("", "B"), ("lab", "C")])
def test_shared_file_is_read_by_profile(tmp_path: Path, profile: str, access: str) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = B\naws_secret_access_key = b%c\n"
        "[lab]\naws_access_key_id = C\naws_secret_access_key = c\n"
    )
    environ = {"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_PROFILE": profile}
    assert AwsCredentials(environ, "us-east-1").keys().access == access


def test_broken_shared_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("aws_access_key_id = B\n")
    with pytest.raises(ProviderError, match="can't be read"):
        AwsCredentials({"AWS_SHARED_CREDENTIALS_FILE": str(file)}, "us-east-1").keys()


def expiring(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()


def test_web_identity_is_exchanged_and_renewed_before_it_expires(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("jwt\n")
    calls: list[Call] = []

    def answer(call: Call) -> Reply:
        calls.append(call)
        lasts = EARLY - 10 if len(calls) == 1 else 3600
        return Reply(200, STS.format(key=f"K{len(calls)}", expires=expiring(lasts)).encode())

    with serving(answer) as url:
        environ = {
            "AWS_ROLE_ARN": "arn:aws:iam::1:role/r",
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            "AWS_ENDPOINT_URL_STS": url,
        }
        credentials = AwsCredentials(environ, "us-east-1")
        assert credentials.keys().access == "K1"
        assert credentials.keys().access == "K2", "the first ones were about to expire"
        assert credentials.keys().access == "K2"
        credentials.forget()
        assert credentials.keys().access == "K3"
    form = parse_qs(calls[0].body.decode())
    assert form["WebIdentityToken"] == ["jwt"]
    assert form["RoleArn"] == ["arn:aws:iam::1:role/r"]


@pytest.mark.parametrize(
    ("status", "body"), [(403, b"<no/>"), (200, b"<no/>"), (200, b"not xml"), (200, b"")]
)
def test_token_service_without_keys_is_reported(tmp_path: Path, status: int, body: bytes) -> None:
    token = tmp_path / "token"
    token.write_text("jwt")
    with serving(lambda call: Reply(status, body)) as url:
        environ = {
            "AWS_ROLE_ARN": "r",
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            "AWS_ENDPOINT_URL_STS": url,
        }
        with pytest.raises(ProviderError, match="assume role r"):
            AwsCredentials(environ, "us-east-1").keys()


def test_unreadable_token_is_reported(tmp_path: Path) -> None:
    environ = {"AWS_ROLE_ARN": "r", "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "none")}
    with pytest.raises(ProviderError, match="can't be read"):
        AwsCredentials(environ, "us-east-1").keys()


def test_containers_endpoint_is_asked_with_its_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("pod-identity")
    calls: list[Call] = []

    def answer(call: Call) -> Reply:
        calls.append(call)
        fields = {
            "AccessKeyId": "K",
            "SecretAccessKey": "s",
            "Token": "t",
            "Expiration": "2100-01-01T00:00:00Z",
        }
        return Reply(200, json.dumps(fields).encode())

    with serving(answer) as url:
        environ = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{url}/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        }
        keys = AwsCredentials(environ, "us-east-1").keys()
    assert (keys.access, keys.secret, keys.token) == ("K", "s", "t")
    assert calls[0].headers["authorization"] == "pod-identity"
