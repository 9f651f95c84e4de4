"""Invitations: the RFC's vectors in Python and in JavaScript, one report for a token, and nothing that joins the two."""

import json
import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

from javascript import node, of_the_page

from optrr.survey.invitations import Links, Signer

VECTORS = json.loads((Path(__file__).parent / "rfc9474.json").read_text())
CLIENT = of_the_page("invitation.js")


def scripted(code: str, given: Any) -> Any:
    """The value of a script over the page's module, with its input as ``x``."""
    script = f"""
    import {{ blind, unblind }} from {json.dumps(CLIENT.as_uri())};
    import {{ readFileSync }} from "node:fs";
    const x = JSON.parse(readFileSync(0, "utf-8"));
    const bytes = (text) => Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
    process.stdout.write(JSON.stringify(await (async () => {{ {code} }})()));
    """
    command = [node(), "--input-type=module", "-e", script]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def whole(text: str) -> int:
    return int(text, 16)


def signer_of(vector: dict[str, str]) -> Signer:
    p, q, d, n, e = (whole(vector[key]) for key in "pqdne")
    crt = rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q)
    key = rsa.RSAPrivateNumbers(p, q, d, *crt, rsa.RSAPublicNumbers(e, n)).private_key()
    form = serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return Signer(key.private_bytes(*form))


@pytest.mark.parametrize("name", VECTORS)
def test_the_collector_signs_as_the_rfc(name: str) -> None:
    vector = VECTORS[name]
    signer = signer_of(vector)
    assert signer.public() == {"n": vector["n"], "e": 65537}
    assert signer.sign(bytes.fromhex(vector["blinded_msg"])) == vector["blind_sig"]
    assert signer.verifies(bytes.fromhex(vector["prepared_msg"]), vector["sig"])
    assert not signer.verifies(bytes.fromhex(vector["prepared_msg"]), vector["blind_sig"])
    assert not signer.verifies(secrets.token_bytes(16), vector["sig"])


@pytest.mark.parametrize("name", VECTORS)
def test_the_page_blinds_and_unblinds_as_the_rfc(name: str) -> None:
    vector = VECTORS[name]
    factor = pow(whole(vector["inv"]), -1, whole(vector["n"]))
    given = {**vector, "key": {"n": vector["n"], "e": 65537}, "factor": f"{factor:x}"}
    hidden, signature, refused = scripted(
        """
        const hidden = await blind(x.key, x.prepared_msg, bytes(x.salt), BigInt("0x" + x.factor));
        const signature = await unblind(x.key, x.prepared_msg, hidden.secret, x.blind_sig);
        const refused = await unblind(x.key, x.prepared_msg, hidden.secret, x.sig).catch((error) => error.message);
        return [hidden, signature, refused];
        """,
        given,
    )
    assert hidden == {"blinded": vector["blinded_msg"], "secret": vector["inv"]}
    assert signature == vector["sig"]
    assert refused == "the signature of the invitation is wrong"


def test_links_are_written_once_for_their_owner(tmp_path: Path) -> None:
    from optrr.core.errors import InvalidInput  # noqa: PLC0415

    links = Links(3, "https://survey.example.org/", tmp_path / "q.links.txt")
    _, digests = links.drawn()
    lines = links.file.read_text().splitlines()
    assert links.file.stat().st_mode & 0o777 == 0o600
    assert len(set(lines)) == len(set(digests)) == 3
    assert all(line.startswith("https://survey.example.org/#i=") and len(line) == 30 + 22 for line in lines)
    with pytest.raises(InvalidInput, match="has the links of an earlier survey"):
        links.drawn()
