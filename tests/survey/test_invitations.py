"""Invitations: the RFC's vectors in Python and in JavaScript, one report for a token, and nothing that joins the two."""

import asyncio
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
from survey_client import JSON, TOKEN, Server, call, called, free_port, kept_reports

from optrr.core.errors import InvalidInput
from optrr.survey.app import survey_app
from optrr.survey.invitations import Links, Signer, digest_of_token
from optrr.survey.preparing import Survey, prepared
from optrr.survey.results import Admission
from optrr.survey.store import database_url, open_database

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
    links = Links(3, "https://survey.example.org/", tmp_path / "q.links.txt")
    _, digests = links.drawn()
    lines = links.file.read_text().splitlines()
    assert links.file.stat().st_mode & 0o777 == 0o600
    assert len(set(lines)) == len(set(digests)) == 3
    assert all(line.startswith("https://survey.example.org/#i=") and len(line) == 30 + 22 for line in lines)
    with pytest.raises(InvalidInput, match="has the links of an earlier survey"):
        links.drawn()


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    path = tmp_path_factory.mktemp("invited") / "q.json"
    attributes = [{"name": "a", "categories": ["yes", "no"]}, {"name": "b", "size": 3}]
    path.write_text(json.dumps({"epsilon": 1, "attributes": attributes}))
    return prepared(path)


def opened(survey: Survey, where: str, folder: Path, count: int = 3) -> Any:
    links = Links(count, "http://127.0.0.1:8000", folder / "q.links.txt")
    return survey_app(survey, open_database(database_url(where)), Admission(TOKEN), secure=False, links=links)


def tokens_in(folder: Path) -> list[str]:
    return [line.partition("#i=")[2] for line in (folder / "q.links.txt").read_text().splitlines()]


def key_of(app: Any) -> dict[str, Any]:
    found: dict[str, Any] = call(app, "GET", "/survey.json").json["invitations"]
    return found


def claim(app: Any, token: str, blinded: str) -> Any:
    return call(app, "POST", "/invitations", json.dumps({"token": token, "blinded": blinded}).encode(), **JSON)


def report(survey: Survey, identifier: str, signature: str | None, values: tuple[str, str] = ("yes", "2")) -> bytes:
    said = {"format": "optrr-report/1", "design": survey.deployment.design, "id": identifier, "values": values}
    return json.dumps(said | ({} if signature is None else {"invitation": signature})).encode()


def hidden_of(key: dict[str, Any], identifiers: list[str]) -> list[dict[str, str]]:
    given = {"key": key, "ids": identifiers}
    found: list[dict[str, str]] = scripted("return Promise.all(x.ids.map((id) => blind(x.key, id)));", given)
    return found


def unblinded(
    key: dict[str, Any], identifiers: list[str], hidden: list[dict[str, str]], signed: list[str]
) -> list[str]:
    each = [[i, h["secret"], s] for i, h, s in zip(identifiers, hidden, signed, strict=True)]
    found: list[str] = scripted(
        "return Promise.all(x.each.map((one) => unblind(x.key, ...one)));", {"key": key, "each": each}
    )
    return found


@pytest.mark.slow
def test_two_hundred_tokens_give_two_hundred_reports_that_fit_every_token(survey: Survey, tmp_path: Path) -> None:
    """Whatever hidden value the database has for a token, every report's id has a factor that gives it: all pairs, exactly."""
    app = opened(survey, str(tmp_path / "s.db"), tmp_path, 200)
    key, tokens = key_of(app), tokens_in(tmp_path)
    n, e = whole(key["n"]), key["e"]
    identifiers = [secrets.token_hex(16) for _ in tokens]
    hidden = hidden_of(key, identifiers)
    signed = [claim(app, token, h["blinded"]).json["signature"] for token, h in zip(tokens, hidden, strict=True)]
    invitations = unblinded(key, identifiers, hidden, signed)
    for identifier, invitation in sorted(zip(identifiers, invitations, strict=True)):
        assert call(app, "POST", "/reports", report(survey, identifier, invitation), **JSON).json == {"kept": True}
    engine = open_database(database_url(str(tmp_path / "s.db")))
    assert kept_reports(engine) == 200
    with engine.connect() as connection:
        held = connection.exec_driver_sql("SELECT * FROM invitations").all()
        kept = connection.exec_driver_sql("SELECT * FROM reports").all()
    # what is stored, and in which order: by digest and by random id
    assert held == sorted(held) and kept == sorted(kept)
    assert {digest for digest, _ in held} == set(map(digest_of_token, tokens))
    assert {value for _, value in held} == {bytes.fromhex(h["blinded"]) for h in hidden}
    assert all(len(row) == 2 for row in (*held, *kept)) and {identifier.hex() for identifier, _ in kept} == set(
        identifiers
    )
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("s.db*"))
    assert not any(token.encode() in stored for token in tokens)
    assert not any(bytes.fromhex(text) in stored or text.encode() in stored for text in invitations)
    # every pair of a token and a report has one factor that fits, so the hidden values are no evidence for any matching
    factors = set()
    inverses = [pow(whole(invitation), -1, n) for invitation in invitations]
    encoded = [pow(whole(invitation), e, n) for invitation in invitations]
    for h, signature in zip(hidden, signed, strict=True):
        for inverse, message in zip(inverses, encoded, strict=True):
            factor = whole(signature) * inverse % n
            assert pow(factor, e, n) * message % n == whole(h["blinded"])
            factors.add(factor)
    assert len(factors) == 200 * 200


def test_one_token_gives_one_report(survey: Survey, tmp_path: Path) -> None:
    app = opened(survey, str(tmp_path / "s.db"), tmp_path)
    key, (token, other, _) = key_of(app), tokens_in(tmp_path)
    identifiers = [secrets.token_hex(16) for _ in range(3)]
    hidden = hidden_of(key, identifiers)
    first = claim(app, token, hidden[0]["blinded"])
    assert first.status == 200 and claim(app, token, hidden[0]["blinded"]).json == first.json
    again = claim(app, token, hidden[1]["blinded"])
    assert (again.status, again.json["error"]) == (
        409,
        "this personal link was opened in another browser; continue there",
    )
    unknown = claim(app, "x" * 22, hidden[1]["blinded"])
    assert unknown.status == 403 and "unknown" in unknown.json["error"]
    for bad in ("", "ab", hidden[1]["blinded"].upper(), key["n"], "g" * 512):
        assert claim(app, other, bad).status == 422
    for body in (b"[]", b'{"token": "x"}', b'{"token": "x", "token": "y", "blinded": ""}'):
        assert call(app, "POST", "/invitations", body, **JSON).status == 400
    assert call(app, "POST", "/invitations", b"{" + b" " * 3000 + b"}", **JSON).status == 413
    (invitation,) = unblinded(key, identifiers[:1], hidden[:1], [first.json["signature"]])
    # without a signature, with that of another id, or with one that was not unblinded
    for identifier, signature in (
        (identifiers[0], None),
        (identifiers[1], invitation),
        (identifiers[0], first.json["signature"]),
    ):
        refused = call(app, "POST", "/reports", report(survey, identifier, signature), **JSON)
        assert (refused.status, "by invitation" in refused.json["error"]) == (403, True)
    sent = report(survey, identifiers[0], invitation)
    for _ in range(2):
        assert call(app, "POST", "/reports", sent, **JSON).json == {"kept": True}
    changed = report(survey, identifiers[0], invitation, ("no", "1"))
    assert call(app, "POST", "/reports", changed, **JSON).status == 409
    assert kept_reports(open_database(database_url(str(tmp_path / "s.db")))) == 1


def test_a_restart_keeps_the_key_and_the_links(survey: Survey, tmp_path: Path) -> None:
    where = str(tmp_path / "s.db")
    key, links = key_of(opened(survey, where, tmp_path)), (tmp_path / "q.links.txt").read_text()
    hidden = hidden_of(key, [secrets.token_hex(16)])[0]["blinded"]
    token = tokens_in(tmp_path)[0]
    signature = claim(opened(survey, where, tmp_path, 9), token, hidden).json["signature"]
    # without the option the survey stays one by invitation
    again = survey_app(survey, open_database(database_url(where)), Admission(TOKEN), secure=False)
    assert key_of(again) == key and claim(again, token, hidden).json["signature"] == signature
    assert call(again, "POST", "/reports", report(survey, secrets.token_hex(16), None), **JSON).status == 403
    assert (tmp_path / "q.links.txt").read_text() == links


def test_an_open_survey_stays_open(survey: Survey, tmp_path: Path) -> None:
    where = str(tmp_path / "s.db")
    app = survey_app(survey, open_database(database_url(where)), Admission(TOKEN), secure=False)
    assert key_of(app) is None and claim(app, "x", "ab").status == 404
    with pytest.raises(InvalidInput, match="began as an open survey"):
        opened(survey, where, tmp_path)
    assert not (tmp_path / "q.links.txt").exists()


def test_two_collectors_on_one_database_know_the_same_invitations(
    survey: Survey, tmp_path: Path, database: str
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    one, two = (opened(survey, database, folder) for folder in folders)
    assert key_of(one) == key_of(two) and not (folders[1] / "q.links.txt").exists()
    token, identifiers = tokens_in(folders[0])[0], [secrets.token_hex(16), secrets.token_hex(16)]
    hidden = hidden_of(key_of(one), identifiers)

    async def at_once() -> list[int]:
        bodies = [json.dumps({"token": token, "blinded": h["blinded"]}).encode() for h in hidden]
        sent = [called(app, "POST", "/invitations", body, **JSON) for app, body in zip((one, two), bodies, strict=True)]
        return [reply.status for reply in await asyncio.gather(*sent)]

    statuses = asyncio.run(at_once())
    assert sorted(statuses) == [200, 409]
    won = statuses.index(200)
    signatures = [claim(app, token, hidden[won]["blinded"]).json["signature"] for app in (one, two)]
    assert len(set(signatures)) == 1
    (invitation,) = unblinded(key_of(one), identifiers[won : won + 1], hidden[won : won + 1], signatures[:1])
    for app in (two, one):
        assert call(app, "POST", "/reports", report(survey, identifiers[won], invitation), **JSON).json == {
            "kept": True
        }


def test_the_command_writes_links_and_says_nothing_of_them(tmp_path: Path) -> None:
    spec, port = tmp_path / "q.json", free_port()
    spec.write_text(json.dumps({"epsilon": 1, "attributes": [{"name": "a", "size": 2}]}))
    server = Server(spec, "--invite", "4", port=port)
    tokens = tokens_in(tmp_path)
    assert (tmp_path / "q.links.txt").read_text().startswith(f"http://127.0.0.1:{port}/#i=") and len(tokens) == 4
    key = json.loads(server.get("/survey.json"))["invitations"]
    connection = server.connect()
    hidden = hidden_of(key, [secrets.token_hex(16)])[0]["blinded"]
    for token in (tokens[0], "unknown-token-unknown"):
        body = json.dumps({"token": token, "blinded": hidden})
        connection.request("POST", "/invitations", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
    assert server.stop() == 0
    said = server.log.read_text() + server.out.read_text()
    assert f"the personal links are in {tmp_path / 'q.links.txt'}" in said
    assert not any(token in said for token in (*tokens, "unknown-token-unknown")) and hidden not in said


def test_a_shared_device_is_for_an_open_survey(
    survey: Survey, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace  # noqa: PLC0415

    from optrr.cli.main import run  # noqa: PLC0415

    shared = replace(survey, kiosk=True)
    assert json.loads(shared.page_json())["kiosk"] is True
    with pytest.raises(InvalidInput, match="``kiosk``: everybody answers on one device"):
        opened(shared, str(tmp_path / "s.db"), tmp_path)
    spec = tmp_path / "q.json"
    spec.write_text("{}")
    assert run(["serve", str(spec), "--kiosk", "--invite", "3"]) == 2
    assert "--invite: a personal link is for one browser" in capsys.readouterr().err
    assert run(["serve", str(spec), "--port", "0", "--invite", "3"]) == 2
    assert "--invite: the links need an address" in capsys.readouterr().err
