"""Kubeconfigs identify their user, and certificates are as Kubernetes expects them."""

from __future__ import annotations

import base64
import datetime
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tests.localcluster.components import Layout
from tests.localcluster.credentials import Access, Credential, LocalAuthority, kubeconfig_text


def test_kubeconfig_holds_everything_inline() -> None:
    text = kubeconfig_text("https://127.0.0.1:1", b"authority", Credential(token="secret"))
    document = yaml.safe_load(text)
    assert document["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:1",
        "certificate-authority-data": base64.b64encode(b"authority").decode(),
    }
    assert document["users"][0]["user"] == {"token": "secret"}
    context = document["contexts"][0]
    assert context["name"] == document["current-context"]
    assert context["context"] == {
        "cluster": document["clusters"][0]["name"],
        "user": document["users"][0]["name"],
    }


def test_kubeconfig_of_a_certificate_holds_no_token() -> None:
    text = kubeconfig_text("https://x", b"a", Credential(certificate=b"c", key=b"k"))
    user = yaml.safe_load(text)["users"][0]["user"]
    assert user == {
        "client-certificate-data": base64.b64encode(b"c").decode(),
        "client-key-data": base64.b64encode(b"k").decode(),
    }


def test_client_certificate_names_user_and_groups(tmp_path: Path) -> None:
    authority = LocalAuthority(tmp_path)
    issued = authority.client("jane", ("physicists", "admins"))
    certificate = x509.load_pem_x509_certificate(issued.certificate)
    names = {
        oid: [attribute.value for attribute in certificate.subject.get_attributes_for_oid(oid)]
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    }
    assert names == {NameOID.COMMON_NAME: ["jane"], NameOID.ORGANIZATION_NAME: ["physicists", "admins"]}
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.pem))


def test_serving_certificate_is_valid_for_loopback(tmp_path: Path) -> None:
    certificate = x509.load_pem_x509_certificate(LocalAuthority(tmp_path).server().certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "127.0.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
    assert (
        certificate.not_valid_before_utc
        < datetime.datetime.now(datetime.UTC)
        < certificate.not_valid_after_utc
    )


def layout(folder: Path) -> Layout:
    return Layout(folder, {}, 1, 2, 3, 4)


def test_credentials_survive_a_second_start_and_are_private(tmp_path: Path) -> None:
    Access(layout(tmp_path))
    files = ("ca.crt", "ca.key", "serviceaccounts.key", "tokens.csv")
    before = {name: (tmp_path / "credentials" / name).read_bytes() for name in files}
    config = (tmp_path / "admin.kubeconfig").read_text()
    Access(layout(tmp_path))
    assert {name: (tmp_path / "credentials" / name).read_bytes() for name in files} == before
    assert (tmp_path / "admin.kubeconfig").read_text() == config
    assert before["tokens.csv"].endswith(b',admin,admin,"system:masters"\n')
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "credentials").iterdir())


def test_kubeconfigs_of_users_go_to_files_of_their_own(tmp_path: Path) -> None:
    access = Access(layout(tmp_path))
    first, second = access.for_user("system:jane/x"), access.for_token("a.b", "secret")
    assert first.parent == second.parent == tmp_path / "kubeconfigs"
    assert first.name == "system-jane-x.kubeconfig"
    assert yaml.safe_load(second.read_text())["users"][0]["user"] == {"token": "secret"}
    assert yaml.safe_load(first.read_text())["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:3"
