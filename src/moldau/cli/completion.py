"""`moldau completion SHELL`: the script that makes Tab work."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

VARIABLE: Final = "_MOLDAU_COMPLETE"
HOW: Final = {
    "bash": "echo 'eval \"$(moldau completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(moldau completion zsh)\"' >> ~/.zshrc",
    "fish": "moldau completion fish > ~/.config/fish/completions/moldau.fish",
}


@click.command(
    help="Print a script that completes verbs, topics and groups.",
    epilog="bash: " + HOW["bash"] + "; zsh and fish likewise: the script says how.",
)
@click.argument("shell", type=click.Choice(list(HOW)))
def completion(shell: str) -> None:
    from moldau.cli.main import root

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(f"# {HOW[shell]}")
    click.echo(kind(root, {}, "moldau", VARIABLE).source())
