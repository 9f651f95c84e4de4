"""Signatures of design and deployment files: openssl makes and checks the same ones; whatever is not whole is refused."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

import optrr
from optrr.cli.main import run
from optrr.core.design import signing
from optrr.core.errors import InvalidInput
from optrr.core.provenance import sealed

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
KEY = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def private_pem(key=KEY, password: bytes | None = None) -> bytes:
    lock = serialization.NoEncryption() if password is None else serialization.BestAvailableEncryption(password)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


def public_pem(key=KEY) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A design, its deployment file, and a pair of keys."""
    optrr.save(optrr.design({"a": 2, "b": 3}, 1.0), tmp_path / "design.json")
    assert run(["export", str(tmp_path / "design.json"), "-o", str(tmp_path / "sampler.json")]) == 0
    (tmp_path / "key.pem").write_bytes(private_pem())
    (tmp_path / "key.pem").chmod(0o600)
    (tmp_path / "public.pem").write_bytes(public_pem())
    capsys.readouterr()
    return tmp_path


def openssl(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, check=False)


def verify(folder: Path, name: str, *more: str, key: str = "public.pem") -> int:
    return run(["verify", str(folder / name), "--public-key", str(folder / key), *more])


@pytest.mark.parametrize("name", ["design.json", "sampler.json"])
def test_what_is_signed_verifies_and_nothing_else(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sign", str(folder / name), "--private-key", str(folder / "key.pem"), "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    known = json.loads(shown.out)["key"]
    assert verify(folder, name, "--json") == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert checks[0]["name"] == "signature" and checks[0]["stated"] == f"by key {known[:12]}…"
    # one bit of the file that changes no number, one of the signature, its length, and another's key
    (folder / "other.pem").write_bytes(public_pem(ed25519.Ed25519PrivateKey.generate()))
    assert verify(folder, name, key="other.pem") == 1
    assert "NOT verified: signature\n" in capsys.readouterr().out
    signature = (folder / f"{name}.sig").read_bytes()
    for wrong in (bytes([signature[0] ^ 1]) + signature[1:], signature[:-1], signature + b"\n", b""):
        (folder / f"{name}.sig").write_bytes(wrong)
        assert verify(folder, name) == 1
    (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
    assert verify(folder, name) in (1, 2)


def test_nobody_need_be_there_to_sign(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert run(["sign", str(folder / "design.json"), "--private-key", str(folder / "key.pem")]) == 0


@needs_openssl
def test_openssl_checks_what_we_sign_and_we_check_what_it_signs(folder: Path) -> None:
    assert run(["sign", str(folder / "design.json"), "--private-key", str(folder / "key.pem")]) == 0
    digest = hashlib.sha256((folder / "design.json").read_bytes()).hexdigest()
    (folder / "line").write_text(f"optrr-signature/1 optrr-design {digest}\n")
    check = ["pkeyutl", "-verify", "-pubin", "-inkey", "public.pem", "-rawin", "-in", "line", "-sigfile"]
    assert openssl(folder, *check, "design.json.sig").returncode == 0
    (folder / "wrong.sig").write_bytes(bytes(64))
    assert openssl(folder, *check, "wrong.sig").returncode != 0
    assert openssl(folder, "genpkey", "-algorithm", "ed25519", "-out", "own.pem").returncode == 0
    assert openssl(folder, "pkey", "-in", "own.pem", "-pubout", "-out", "own_public.pem").returncode == 0
    made = openssl(folder, "pkeyutl", "-sign", "-inkey", "own.pem", "-rawin", "-in", "line", "-out", "design.json.sig")
    assert made.returncode == 0
    assert verify(folder, "design.json", key="own_public.pem") == 0
    assert verify(folder, "design.json") == 1


@needs_openssl
def test_the_fingerprint_is_that_of_openssl(folder: Path) -> None:
    der = openssl(folder, "pkey", "-pubin", "-in", "public.pem", "-outform", "DER").stdout
    (folder / "public.der").write_bytes(der)
    digest = openssl(folder, "dgst", "-sha256", "-r", "public.der").stdout.decode().split()[0]
    assert signing.fingerprint(KEY.public_key()) == digest


def test_a_file_that_does_not_verify_is_not_signed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "design.json"
    path.write_text(path.read_text().replace('"seconds": ', '"seconds": 1'))
    assert run(["sign", str(path), "--private-key", str(folder / "key.pem")]) == 2
    assert "is not signed, because it does not verify: NOT verified: it was changed" in capsys.readouterr().err
    assert not (folder / "design.json.sig").exists()


def test_an_encrypted_key_asks_for_its_passphrase(folder: Path) -> None:
    (folder / "locked.pem").write_bytes(private_pem(password=b"open sesame"))
    file = folder / "design.json"
    with pytest.raises(InvalidInput, match="is encrypted; sign in a terminal"):
        signing.sign_file(file, folder / "locked.pem")
    with pytest.raises(InvalidInput, match="does not open with this passphrase"):
        signing.sign_file(file, folder / "locked.pem", passphrase=lambda: "mellon")
    assert signing.sign_file(file, folder / "locked.pem", passphrase=lambda: "open sesame")
    assert signing.signature_check(file, folder / "public.pem").holds


DER = base64.b64encode(bytes.fromhex("302e020100300506032b656f04220420") + bytes(range(32)))
X448 = b"-----BEGIN PRIVATE KEY-----\n" + DER + b"\n-----END PRIVATE KEY-----\n"
MISTAKES = {
    "no file": (None, "cannot read"),
    "no PEM": (b"ssh-ed25519 AAAA", "in PEM"),
    "something in PEM": (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "in PEM"),
    # the 32 bytes of an Ed25519 key under the name of X448, whose keys have 56
    "a wrong length": (X448, "a private key"),
    "a curve": (ec.generate_private_key(ec.SECP256R1()), "of another kind than Ed25519"),
    "an RSA key": (rsa.generate_private_key(65537, 2048), "of another kind than Ed25519"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_its_remedy(mistake: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, why = MISTAKES[mistake]
    for command, pem, option in (("sign", private_pem, "private-key"), ("verify", public_pem, "public-key")):
        key = folder / "given.pem"
        key.unlink(missing_ok=True)
        if given is not None:
            key.write_bytes(given if isinstance(given, bytes) else pem(given))
        (folder / "design.json.sig").write_bytes(bytes(64))
        assert run([command, str(folder / "design.json"), f"--{option}", str(key)]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ") and error.count("\n") == 1 and why in error


def test_keys_and_signatures_in_each_others_place(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for call, why in (
        ("sign design.json --private-key public.pem", "is a public key; sign with the private one"),
        ("verify design.json --public-key public.pem", "cannot read the signature"),
    ):
        assert run(call.split()) == 2
        assert why in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert run(["sign", "design.json", "--private-key", "key.pem"]) == 0
    assert run(["verify", "design.json", "--public-key", "key.pem"]) == 2
    assert "only its owner should have" in capsys.readouterr().err


def test_a_key_that_others_can_read_is_pointed_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "key.pem").chmod(0o644)
    assert run(["sign", str(folder / "design.json"), "--private-key", str(folder / "key.pem")]) == 0
    assert "can be read by others" in capsys.readouterr().err


def test_a_signature_of_one_kind_of_file_holds_for_no_other_kind_and_no_bare_bytes(folder: Path) -> None:
    file, raw = folder / "design.json", (folder / "design.json").read_bytes()
    signing.sign_file(file, folder / "key.pem")
    kinds = (sealed.DEPLOYMENT, sealed.LONGITUDINAL, sealed.SAMPLED_TABLES, sealed.SAMPLED_VARIANTS)
    assert signing.signature_check(file, folder / "public.pem").holds
    lines = [signing.signed_line(kind, raw) for kind in kinds]
    other = signing.signed_line(signing.DESIGN, raw).replace(b"/1", b"/2")
    for said in (*lines, raw, hashlib.sha256(raw).digest(), other):
        (folder / "design.json.sig").write_bytes(KEY.sign(said))
        assert not signing.signature_check(file, folder / "public.pem").holds


OPENED: list[str] = []
sys.addaudithook(lambda event, args: OPENED.append(str(args[0])) if event == "open" else None)
ONCE = {
    "verify": "verify design.json --public-key public.pem",
    "verify a deployment file": "verify sampler.json --public-key public.pem",
    "sign": "sign design.json --private-key key.pem",
    "randomize": "randomize true.csv --design design.json --public-key public.pem -o out.csv",
    "randomize without a key": "randomize true.csv --design design.json -o out.csv",
    "export": "export design.json --public-key public.pem -o other.json",
    "estimate": "estimate out.csv --design design.json --attributes a",
    "account": "account out.csv --design design.json",
    "audit": "audit sampler.json --n 200",
}


@pytest.mark.parametrize("name", ONCE)
def test_a_design_is_opened_once(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for file in ("design.json", "sampler.json"):
        assert run(["sign", file, "--private-key", "key.pem"]) == 0
    (folder / "true.csv").write_text("a,b\n" + "0,1\n1,2\n" * 50, "utf-8")
    assert run(["randomize", "true.csv", "--design", "design.json", "-o", "out.csv"]) == 0
    OPENED.clear()
    assert run(ONCE[name].split()) == 0
    expected = "sampler.json" if "sampler" in ONCE[name] else "design.json"
    assert [x for x in OPENED if x in ("design.json", "sampler.json")] == [expected]


@pytest.mark.parametrize(
    "command", ["randomize true.csv --design design.json", "export design.json", "serve design.json"]
)
def test_a_design_that_somebody_else_signed_is_refused(command, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (folder / "true.csv").write_text("a,b\n0,1\n", "utf-8")
    (folder / "other.pem").write_bytes(public_pem(ed25519.Ed25519PrivateKey.generate()))
    assert run(["sign", "design.json", "--private-key", "key.pem"]) == 0
    capsys.readouterr()
    out = [] if command.startswith("serve") else ["-o", "out.csv"]
    assert run([*command.split(), "--public-key", "other.pem", *out]) == 2
    assert "design.json was not signed by key" in capsys.readouterr().err
    assert not (folder / "out.csv").exists() and not (folder / "design.db").exists()
