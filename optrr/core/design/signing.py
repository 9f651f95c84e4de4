"""Detached signatures of design and deployment files, and of the provenance of randomized records.

Ed25519 (RFC 8032) over one line of text, which states the version of the signature, the kind of the signed file and the
SHA-256 of its bytes; the signature is 64 bytes in a separate file, keys are PEM files (PKCS #8 and
SubjectPublicKeyInfo). So no signature holds for a file that is read as another kind, or for data that another program
signs. OpenSSL makes and checks the same:

    openssl genpkey -algorithm ed25519 -out key.pem
    openssl pkey -in key.pem -pubout -out public.pem
    echo "optrr-signature/1 optrr-design $(sha256sum design.json | cut -c 1-64)" > line
    openssl pkeyutl -verify -pubin -inkey public.pem -rawin -in line -sigfile design.json.sig

A signature identifies the author of a file, but does not prove its numbers: :func:`optrr.verify` recomputes those. The
owner of the key must be known from elsewhere; the displayed fingerprint is the SHA-256 of the public key's DER form.
"""

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from optrr.core.design.verification import Check
from optrr.core.display.result import Result
from optrr.core.errors import InvalidInput
from optrr.core.provenance.formats import FORMATS
from optrr.core.provenance.sealed import DESIGN, Content, Given, content_of, kind_of, path_of, read_named
from optrr.core.records.atomic import whole_file

__all__ = ["fingerprint", "require_signed", "sign_file", "signature_check", "signature_path"]

# Beginning of the signed line; another version signs another line.
_VERSION = "optrr-signature/1"
# Hexadecimal digits that name a key in a table.
_DIGITS = 12
_SIGNATURE_BYTES = 64
# A PEM file of such a key has some 120 bytes, an encrypted one some 300.
_MOST_KEY_BYTES = 1 << 14
# Errors of the library for unknown kinds of keys, and for some keys of a wrong length.
_UNREADABLE = (UnsupportedAlgorithm, InternalError)
_MAKE_KEY = "make one by: openssl genpkey -algorithm ed25519 -out key.pem"
_MAKE_PUBLIC = "make it by: openssl pkey -in key.pem -pubout -out public.pem"


def signature_path(file: Path) -> Path:
    """Return the path of a file's signature, FILE.sig."""
    return file.with_name(f"{file.name}.sig")


def signed_line(kind: str, raw: bytes) -> bytes:
    """Build the signed line of a file of this kind with these bytes."""
    return f"{_VERSION} {kind} {hashlib.sha256(raw).hexdigest()}\n".encode()


def _kind(file: Given) -> str:
    """Return the kind of file that a signature states."""
    kind = kind_of(file)
    return kind if kind in FORMATS else DESIGN


@dataclass(frozen=True, repr=False)
class Signature(Result):
    """A signature that was written, and the SHA-256 of the public key that checks it."""

    output: str
    key: str
    warnings: tuple[str, ...] = ()

    in_summary = ("output", "key")

    def headline(self) -> str:
        """Summarize the file and the key."""
        return f"{self.output}: signed by key {self.key}"


def sign_file(file: Given, key: Path, passphrase: Callable[[], str] | None = None) -> Signature:
    """Sign the bytes of a file, with its kind.

    The 64 bytes of the signature are written beside the file (:func:`signature_path`). ``passphrase`` is a function
    that returns the passphrase of an encrypted key. Raises InvalidInput if a file cannot be read, the key is no
    private Ed25519 key in PEM, or the passphrase does not open it.
    """
    private = _private_key(key, passphrase)
    held = content_of(file, "the file to sign")
    signed = private.sign(signed_line(_kind(held), held.raw))
    target = signature_path(held.path)
    with whole_file(target) as partial:
        partial.write_bytes(signed)
    exposed = os.name == "posix" and key.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
    warnings = (f"{key} can be read by others on this machine; chmod 600 it",) if exposed else ()
    return Signature(str(target), fingerprint(private.public_key()), warnings)


def signature_check(file: Given, key: Path) -> Check:
    """Check that the owner of a public key signed the file.

    The signature is in the file beside it.

    Raises InvalidInput if a file cannot be read, or the key is no public Ed25519 key in PEM; a signature that does not hold
    is in the result.
    """
    public = _public_key(key)
    signed = read_named(signature_path(path_of(file)), "the signature")
    held = content_of(file, "the signed file")
    kind = _kind(held)
    try:
        public.verify(signed, signed_line(kind, held.raw))
        holds = True
    except InvalidSignature:
        holds = False
    whose = "by it" if holds else "not by it" if len(signed) == _SIGNATURE_BYTES else "no signature of 64 bytes"
    return Check("signature", f"by key {fingerprint(public)[:_DIGITS]}…", whose, f"Ed25519, {_VERSION} {kind}", holds)


def require_signed(file: Content, key: Path | None) -> Content:
    """Return the file's content after checking its signature.

    Without a key nothing is checked.
    """
    if key is None:
        return file
    check = signature_check(file, key)
    if not check.holds:
        raise InvalidInput(f"{file} was not signed {check.stated}; get it again from its author")
    return file


def fingerprint(public: Ed25519PublicKey) -> str:
    """Compute the SHA-256 of the key's DER form.

    openssl pkey -pubin -in public.pem -outform DER | sha256sum
    """
    return hashlib.sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _pem(path: Path, what: str, make: str) -> bytes:
    raw = read_named(path, what)
    if len(raw) > _MOST_KEY_BYTES or not raw.lstrip().startswith(b"-----BEGIN "):
        raise InvalidInput(f"{path} is not {what} in PEM; {make}")
    return raw


def _private_key(path: Path, passphrase: Callable[[], str] | None) -> Ed25519PrivateKey:
    raw = _pem(path, "a private key", _MAKE_KEY)
    if b"PUBLIC KEY" in raw:
        raise InvalidInput(f"{path} is a public key; sign with the private one")
    password = None
    if b"ENCRYPTED" in raw:
        if passphrase is None:
            raise InvalidInput(f"the key {path} is encrypted; sign in a terminal, or by: openssl pkeyutl -sign -rawin")
        password = passphrase().encode()
    try:
        key = load_pem_private_key(raw, password)
    except (ValueError, TypeError, *_UNREADABLE) as error:
        # the library's reasons name its own internals; the passphrase is by far the most frequent one
        why = "does not open with this passphrase" if password is not None else "is not a private key in PEM"
        raise InvalidInput(f"{path} {why}; {_MAKE_KEY}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput(f"{path} is a key of another kind than Ed25519; {_MAKE_KEY}")
    return key


def _public_key(path: Path) -> Ed25519PublicKey:
    raw = _pem(path, "a public key", _MAKE_PUBLIC)
    if b"PRIVATE KEY" in raw:
        raise InvalidInput(f"{path} is a private key, which only its owner should have; {_MAKE_PUBLIC}")
    try:
        key = load_pem_public_key(raw)
    except (ValueError, *_UNREADABLE) as error:
        raise InvalidInput(f"{path} is not a public key in PEM; {_MAKE_PUBLIC}") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidInput(f"{path} is a key of another kind than Ed25519; {_MAKE_KEY}")
    return key
