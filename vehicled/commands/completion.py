"""`vehicled completion`: a script by which a shell completes commands, options, names and files."""

import argparse
import sys

HELP = "Print the script by which a shell completes commands, options, shipped configurations and files."

EPILOG = """\
bash    vehicled completion bash > ~/.local/share/bash-completion/completions/vehicled
zsh     vehicled completion zsh > FOLDER/_vehicled       a folder of $fpath, before compinit
fish    vehicled completion fish > ~/.config/fish/completions/vehicled.fish

The script is complete in itself: vehicled is not started when a key is pressed. Make it anew after an update."""

_SHELLS = ("bash", "zsh", "fish")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled completion`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=", ".join(_SHELLS))


def run(args: argparse.Namespace) -> int:
    """Print the script; returns the exit status."""
    from vehicled.commands.shells import bash, fish, zsh
    from vehicled.commands.shells.arguments import read_commands

    shell = {"bash": bash, "zsh": zsh, "fish": fish}[args.shell]
    sys.stdout.write(shell.make_script(read_commands()))
    return 0
