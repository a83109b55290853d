"""Workers on other hosts over SSH: real sshd processes on loopback, each host with a checkout of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from plugin_project import good_cases, stable

if TYPE_CHECKING:
    from plugin_project import Project

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
HOSTS = ("h1", "h2")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SSHD and shutil.which("ssh")), reason="needs OpenSSH: sshd and ssh"),
]

CONFTEST = """
import pytest


class Engine:
    name = "noting"
    version = "1"

    async def extract(self, conversation, ctx):
        with open("asked.txt", "a", encoding="utf-8") as file:
            file.write(ctx.case_id + "\\n")
        dimensions, _, content = conversation[0].content.partition(": ")
        return [{"content": content, "dimensions": dimensions.split("+"), "memory_type": "persona", "priority": 80,
                 "time_velocity": "static"}]


@pytest.fixture(scope="session")
def memeval_engine():
    return Engine()
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int) -> None:
    limit = time.monotonic() + 20
    while time.monotonic() < limit:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail("sshd did not start")


@pytest.fixture
def ssh_config(tmp_path: Path) -> Iterator[Path]:
    """A configuration of ``ssh`` with the hosts h1 and h2, each a server of its own with this checkout's package."""
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    (folder / "authorized").chmod(0o600)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where the server's unprivileged part lives
    package = Path(__file__).parents[2]
    servers, config = [], []
    try:
        for host in HOSTS:
            port = free_port()
            lines = (
                f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'host'}", "StrictModes no",
                f"AuthorizedKeysFile {folder / 'authorized'}", "PasswordAuthentication no", "UsePAM no",
                f"PidFile {folder / host}.pid", f"SetEnv PYTHONPATH={package}",
            )  # fmt: skip
            (folder / f"{host}.sshd").write_text("\n".join(lines) + "\n", encoding="utf-8")
            servers.append(
                subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(folder / f"{host}.sshd")], stderr=subprocess.DEVNULL)
            )
            config.append(
                f"Host {host}\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder / 'user'}\n"
                "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n  IdentitiesOnly yes\n"
            )
            wait_for(port)
        path = folder / "config"
        path.write_text("\n".join(config), encoding="utf-8")
        yield path
    finally:
        for server in servers:
            server.terminate()
            server.wait(10)


@pytest.fixture
def hosts(project: Project, ssh_config: Path) -> Project:
    """The project, and a checkout of it for each host."""
    project.write("conftest.py", CONFTEST)
    project.write("pytest.ini", "[pytest]\ntestpaths = cases\n")
    project.cases(good_cases(24))
    for host in HOSTS:
        checkout = project.path / "hosts" / host
        checkout.mkdir(parents=True)
        for name in ("conftest.py", "pytest.ini"):
            shutil.copy(project.path / name, checkout / name)
        shutil.copytree(project.path / "cases", checkout / "cases")
    return project


def remotes(project: Project, config: Path) -> list[str]:
    found = ["--dist", "worksteal"]
    for host in HOSTS:
        checkout = project.path / "hosts" / host
        found += ["--tx", f"ssh=-F {config} {host}//python={sys.executable}//chdir={checkout}"]
    return found


def run(project: Project, config: Path, *options: str) -> pytest.RunResult:
    # An option's value that is a word of its own and exists as a path would be taken for a path to run.
    return project.pytester.runpytest_subprocess("-pno:randomly", *remotes(project, config), *options)


def asked(project: Project, host: str) -> list[str]:
    path = project.path / "hosts" / host / "asked.txt"
    found = path.read_text(encoding="utf-8").split() if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def test_two_hosts_give_one_report(hosts: Project, ssh_config: Path) -> None:
    """Both work, each case once; the report is that of one process. A second run takes all from the first's journal,
    which no host has."""
    run(hosts, ssh_config, "--memeval-output=out").assert_outcomes(passed=24)
    first, second = (asked(hosts, host) for host in HOSTS)
    assert first
    assert second
    assert sorted([*first, *second]) == [f"eval-{n:03}" for n in range(1, 25)]
    run(hosts, ssh_config, "--memeval-output=again", "--memeval-resume=out").assert_outcomes(passed=24)
    assert [asked(hosts, host) for host in HOSTS] == [[], []]
    resumed = hosts.report("again")
    assert resumed["environment"]["resumed"]["cases"] == 24
    hosts.run("--memeval-output", "here", fresh=True).assert_outcomes(passed=24)
    assert stable(hosts.report()) == stable(resumed) == stable(hosts.report("here"))


def test_a_case_that_kills_its_host_s_worker_is_an_error(hosts: Project, ssh_config: Path) -> None:
    for folder in (hosts.path, *(hosts.path / "hosts" / host for host in HOSTS)):
        text = CONFTEST.replace(
            "        dimensions, _",
            "        if ctx.case_id == 'eval-007':\n            import os; os._exit(1)\n        dimensions, _",
        )
        (folder / "conftest.py").write_text(text, encoding="utf-8")
    run(hosts, ssh_config, "--memeval-output=out")
    outcomes = hosts.outcomes()
    assert outcomes.pop("eval-007") == "errored"
    assert set(outcomes.values()) == {"scored"}
    assert len(outcomes) == 23
