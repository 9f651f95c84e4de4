"""A survey behind the proxies of deploy/: reports and results over TLS, and no address is written down."""

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from survey_client import Server, free_port, report_body

# two collectors, a proxy and Chromium take a few seconds to start
pytestmark = pytest.mark.slow

pytest.importorskip("starlette", reason="the survey's server needs the extra serve")

DEPLOY = Path(__file__).parents[2] / "deploy"
NAME = "survey.example.org"
TOKEN = "t" * 30
# Seconds for a proxy to start on a busy machine.
PATIENCE = 60
SPECIFICATION = """
epsilon = 1
[[attributes]]
name = "sex"
categories = ["F", "M"]
[[attributes]]
name = "smokes"
categories = ["yes", "no"]
"""


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for the survey's name that it signed itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (apt install openssl)")
    made, key = folder / "fullchain.pem", folder / "privkey.pem"
    asked = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}", "-days", "2"]
    subprocess.run([*asked, *named, "-keyout", key, "-out", made], check=True, capture_output=True)
    return made, key


def replaced(text: str, changes: dict[str, str]) -> str:
    """The text with this machine's places; each of them must be there."""
    for before, after in changes.items():
        assert before in text, before
        text = text.replace(before, after)
    return text


def nginx(folder: Path, collectors: list[int], secure: int, plain: int) -> tuple[list[str], Path]:
    """The command for deploy/nginx.conf, and the certificate; with one collector more, as the file's first lines say."""
    made, key = certificate(folder)
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    servers = "\n".join(f"    server 127.0.0.1:{port};" for port in collectors)
    places = {
        "    server 127.0.0.1:8000;": servers,
        "listen 443 ssl;": f"listen 127.0.0.1:{secure} ssl;",
        "listen 80;": f"listen 127.0.0.1:{plain};",
        f"/etc/letsencrypt/live/{NAME}/fullchain.pem": str(made),
        f"/etc/letsencrypt/live/{NAME}/privkey.pem": str(key),
    }
    (folder / "survey.conf").write_text(replaced(text, places), encoding="utf-8")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    main = f"pid {folder}/pid; daemon off; worker_processes 1; events {{}} http {{ {temporary} include survey.conf; }}"
    (folder / "main.conf").write_text(main, encoding="utf-8")
    # what it says before it has read its own log's name goes to standard error
    return ["nginx", "-p", str(folder), "-c", str(folder / "main.conf"), "-e", "stderr"], made


def caddy(folder: Path, collectors: list[int], secure: int, plain: int) -> tuple[list[str], Path]:
    """The command for deploy/Caddyfile, and the certificate, which Caddy's own authority signs where no other can be asked."""
    text = (DEPLOY / "Caddyfile").read_text(encoding="utf-8")
    options = ["admin off", "local_certs", "skip_install_trust", f"http_port {plain}", f"https_port {secure}"]
    options.append(f"storage file_system {folder}")
    # in containers the name leads to every collector
    places = {"collector:8000": " ".join(f"127.0.0.1:{port}" for port in collectors)}
    assert text.startswith("{\n")
    own = "\n".join(["{", *options, replaced(text, places).removeprefix("{\n")])
    (folder / "Caddyfile").write_text(own, encoding="utf-8")
    command = ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    return command, folder / "pki" / "authorities" / "local" / "root.crt"


PROXIES: dict[str, Callable[..., tuple[list[str], Path]]] = {"nginx": nginx, "caddy": caddy}


class Proxy:
    """A running proxy in front of two collectors that share a database."""

    def __init__(self, kind: str, folder: Path, collectors: list[int]) -> None:
        self.secure, self.plain = free_port(), free_port()
        command, self._authority = PROXIES[kind](folder, collectors, self.secure, self.plain)
        self.log, self.first_status = folder / "log", 0
        environment = {**os.environ, "SURVEY_HOST": NAME, "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)

    def wait(self) -> int:
        """The status of its first answer."""
        for _ in range(10 * PATIENCE):
            assert self.process.poll() is None, self.log.read_text()
            try:
                return self.ask("GET", "/health")[0]
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
        raise TimeoutError(self.log.read_text())

    def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> tuple[int, dict[str, str], bytes]:
        """A request over TLS, by whoever trusts the proxy's certificate: status, headers, body."""
        trusting = ssl.create_default_context(cafile=self._authority)
        bare = socket.create_connection(("127.0.0.1", self.secure), PATIENCE)
        connection = http.client.HTTPSConnection(NAME, context=trusting)
        connection.sock = trusting.wrap_socket(bare, server_hostname=NAME)
        connection.request(method, path, body, {"Content-Type": kind})
        answer = connection.getresponse()
        try:
            text = answer.read()
        except http.client.IncompleteRead as cut:
            # who refuses a body before it has come whole may hang up before the refusal has gone whole
            text = cut.partial
        connection.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("survey")


@pytest.fixture(scope="module")
def collectors(folder: Path) -> Iterator[list[Server]]:
    """Two that share a database."""
    source = folder / "questions.toml"
    source.write_text(SPECIFICATION)
    given = {"OPTRR_RESULTS_TOKEN": TOKEN, "OPTRR_DATABASE": str(folder / "survey.db")}
    running = [Server(source, f"--public-url=https://{NAME}/", port=free_port(), **given) for _ in range(2)]
    yield running
    assert [collector.stop() for collector in running] == [0, 0]
    assert all("127.0.0.1" not in collector.log.read_text() for collector in running)


@contextmanager
def started(kind: str, folder: Path, ports: list[int]) -> Iterator[Proxy]:
    """A proxy in front of collectors on these ports; it ends at the end."""
    if shutil.which(kind) is None:
        pytest.skip(f"{kind} is not installed (apt install {kind})")
    folder.mkdir()
    proxy = Proxy(kind, folder, ports)
    try:
        proxy.first_status = proxy.wait()
        yield proxy
    finally:
        proxy.process.terminate()
        proxy.process.wait(PATIENCE)


@pytest.fixture(scope="module", params=PROXIES)
def proxy(request: pytest.FixtureRequest, folder: Path, collectors: list[Server]) -> Iterator[Proxy]:
    with started(request.param, folder / request.param, [collector.port for collector in collectors]) as running:
        yield running


def test_what_the_proxy_passes_on_refuses_and_adds(proxy: Proxy) -> None:
    assert b"<noscript>" in proxy.ask("GET", "/")[2]
    status, headers, sampler = proxy.ask("GET", "/sampler.json")
    design, identifier = json.loads(sampler)["design"], os.urandom(16).hex()
    assert (status, headers["strict-transport-security"]) == (200, "max-age=31536000")
    # the collector's own headers, and its refusals, come through
    assert headers["x-content-type-options"] == "nosniff"
    refused = proxy.ask("POST", "/reports", report_body("0" * 64, identifier, ["F", "no"]))
    assert refused[0] == 422 and "design of another survey" in json.loads(refused[2])["error"]
    # each request may reach another collector; a report is kept once
    for _ in range(4):
        assert proxy.ask("POST", "/reports", report_body(design, identifier, ["F", "no"]))[0] == 200
    assert proxy.ask("POST", "/reports", report_body(design, identifier, ["M", "no"]))[0] == 409
    # Caddy is passing such a body on when the collector, which has refused it, hangs up, and then says 502
    assert proxy.ask("POST", "/reports", b" " * 2_000_000)[0] in (413, 502)
    # whoever has the token is admitted, by a cookie that goes over TLS alone
    admitted = proxy.ask("POST", "/results", f"token={TOKEN}".encode(), "application/x-www-form-urlencoded")
    assert admitted[0] == 303 and {"Secure", "HttpOnly"} <= set(admitted[1]["set-cookie"].split("; "))
    plain = http.client.HTTPConnection("127.0.0.1", proxy.plain, timeout=PATIENCE)
    plain.request("GET", "/", headers={"Host": NAME})
    moved = plain.getresponse()
    assert moved.status in (301, 308)
    assert re.fullmatch(f"https://{NAME}(:{proxy.secure})?/", moved.headers["Location"])
    # whatever name somebody asks for, nobody is led to it
    strange = http.client.HTTPConnection("127.0.0.1", proxy.plain, timeout=PATIENCE)
    strange.request("GET", "/results/", headers={"Host": "evil.example"})
    assert "evil" not in str(strange.getresponse().headers)


@pytest.mark.parametrize("kind", PROXIES)
def test_a_collector_that_is_gone_is_passed_over_and_no_address_is_written_down(kind, folder, collectors):
    with socket.socket() as nobody:
        # bound, so that nobody else takes it, and without a listener, so that it refuses
        nobody.bind(("127.0.0.1", 0))
        gone = int(nobody.getsockname()[1])
        with started(kind, folder / f"{kind}-one", [gone, collectors[0].port]) as proxy:
            assert {proxy.ask("GET", "/health")[0] for _ in range(4)} == {200}
        with started(kind, folder / f"{kind}-none", [gone]) as failing:
            assert failing.first_status in (502, 503)
    for running in (proxy, failing):
        # what a proxy says of itself at its start may name the places where it listens
        lines = [line for line in running.log.read_text().splitlines() if "127.0.0.1" in line]
        assert not [line for line in lines if "remote" in line or "client" in line]
        assert not [file for file in running.log.parent.rglob("*.log")]
