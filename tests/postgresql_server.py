"""A PostgreSQL server of our own for tests: a new cluster in a temporary folder, on a free port, trusted on loopback alone."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Seconds for a server to start on a busy machine.
_STARTING = 60


def binaries() -> Path | None:
    """The folder with initdb and postgres, where they are installed (Debian keeps them off the path)."""
    folders = [Path(p).parent for p in [shutil.which("initdb")] if p]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


def reason_to_skip() -> str | None:
    """Why there can be no server here, or None."""
    if binaries() is None:
        return "PostgreSQL's server is not installed"
    try:
        import psycopg  # noqa: F401, PLC0415
    except ImportError:
        return "psycopg is not installed"
    return None


@contextmanager
def postgresql() -> Iterator[str]:
    """A running server's address, ``postgresql://…``; it stops and its data go at the end."""
    folder = binaries()
    assert folder is not None
    # the server refuses to run as root, so there it runs as the user that Debian's package makes
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    home = Path(tempfile.mkdtemp(prefix="optrr-pg-"))
    if user:
        shutil.chown(home, "postgres", "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        making = [folder / "initdb", "-D", home / "data", "-U", "optrr", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(making, check=True, capture_output=True, cwd=home, **user)
        options = ["-k", home, "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=16MB"]
        with (home / "log").open("wb") as log:
            server = subprocess.Popen(
                [folder / "postgres", "-D", home / "data", *options], stderr=log, cwd=home, **user
            )
        try:
            _wait(port, server)
            yield f"postgresql://optrr@127.0.0.1:{port}/postgres"
        finally:
            server.send_signal(signal.SIGINT)  # ends connections that are still open
            server.wait(_STARTING)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _wait(port: int, server: "subprocess.Popen[bytes]") -> None:
    import psycopg  # noqa: PLC0415

    for _ in range(10 * _STARTING):
        assert server.poll() is None, "the PostgreSQL server ended"
        try:
            psycopg.connect(f"postgresql://optrr@127.0.0.1:{port}/postgres", connect_timeout=5).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("PostgreSQL did not start")
