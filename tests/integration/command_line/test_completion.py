"""Tab in a shell: verbs, options, and names that only the cluster knows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.command_line.shell import moldau


@pytest.fixture(scope="module")
def names(bootstrap: str) -> None:
    moldau("topic", "create", "orders", "orders-eu", "views", "-b", bootstrap)
    moldau("group", "seek", "readers", "--to", "start", "-t", "orders", "--execute", "-b", bootstrap)


def completed(line: str, bootstrap: str = "", *, after: str = "") -> list[str]:
    """What bash is offered where the line ends, or before what stands after the cursor."""
    words = f"moldau {line}"
    env = {
        "COMP_WORDS": f"{words} {after}".rstrip() if after else words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_MOLDAU_COMPLETE": "bash_complete",
    }
    if bootstrap:
        env["MOLDAU_BOOTSTRAP"] = bootstrap
    return [row.partition(",")[2] for row in moldau(env=env).stdout.split()]


@pytest.mark.usefixtures("names")
def test_names_of_the_cluster(bootstrap: str) -> None:
    assert completed("topic describe or", bootstrap) == ["orders", "orders-eu"]
    assert completed("consume ", bootstrap) == ["orders", "orders-eu", "views"]
    assert completed(f"produce -b {bootstrap} v") == ["views"]
    assert completed("topic describe __con", bootstrap) == ["__consumer_offsets"]
    assert completed("group describe r", bootstrap) == ["readers"]
    assert completed("consume orders --group r", bootstrap) == ["readers"]
    assert completed("config get topic v", bootstrap) == ["views"]
    assert completed("group seek readers -t or", bootstrap) == ["orders", "orders-eu"]
    assert completed("group offset-delete readers --topic v", bootstrap) == ["views"]


def test_words_that_need_no_cluster() -> None:
    assert completed("comp") == ["completion"]
    assert completed("topic desc") == ["describe"]
    assert "retention.ms=" in completed("config set topic t retention.")
    assert completed("explain MD-100") == [f"MD-100{number}" for number in range(1, 7)]
    assert completed("topic describe o", "127.0.0.1:1") == []


@pytest.mark.usefixtures("names")
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_works_in_bash(bootstrap: str, tmp_path: Path) -> None:
    script = moldau("completion", "bash").stdout
    command = tmp_path / "moldau"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m moldau "$@"\n')
    command.chmod(0o755)
    use = f'''
COMP_WORDS=(moldau consume -b {bootstrap} ord) COMP_CWORD=4
_moldau_completion "{command}"
printf '%s\\n' "${{COMPREPLY[@]}}"
'''
    done = subprocess.run(["bash", "-c", script + use], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["orders", "orders-eu"], done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_scripts_of_other_shells(shell: str) -> None:
    done = moldau("completion", shell)
    assert (done.returncode, "_MOLDAU_COMPLETE" in done.stdout) == (0, True)


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    "after", ["-b {}", "--bootstrap-server {}", "--bootstrap-server={}", "-o start --brokers {} -e"]
)
def test_an_address_after_the_cursor_counts(bootstrap: str, after: str) -> None:
    assert completed("consume v", after=after.format(bootstrap)) == ["views"]


@pytest.mark.usefixtures("names")
def test_bash_takes_an_address_to_pieces(bootstrap: str) -> None:
    """COMP_WORDBREAKS holds a colon, so that bash makes three words of HOST:PORT."""
    assert completed("consume v", after=f"-b {bootstrap.replace(':', ' : ')}") == ["views"]
    assert completed(f"consume -b {bootstrap.replace(':', ' : ')} v") == ["views"]
