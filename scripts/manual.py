"""Writes the man page and the shell completions of `fm` from what `fm help` says.

    python scripts/manual.py FM FOLDER

writes man/man1/fm.1, bash-completion/completions/fm, zsh/site-functions/_fm and
fish/vendor_completions.d/fm.fish in FOLDER. The program is the only source: a new command or option
is in all four without a change here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path

OPTION = re.compile(r"^  (?:-(\w), |    )(--[\w-]+)(?: ([A-Z][\w:|.\[\]-]*))?(?:  +(.*))?$")
FILE_VALUES = {"PATH", "FILE", "FOLDER", "SCHEMA"}


@dataclass
class Option:
    short: str
    name: str
    value: str
    help: str


@dataclass
class Topic:
    """What one `fm help COMMAND` says."""

    name: str
    summary: str = ""
    usage: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    paragraphs: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """What may come first after the command, where that is one of some words."""
        found = [re.match(rf"fm {self.name} ([a-z][\w-]*)\b", line) for line in self.usage]
        return [match[1] for match in found if match]


def run(fm: str, *arguments: str) -> str:
    return subprocess.run([fm, *arguments], check=True, capture_output=True, text=True).stdout


def topic(name: str, text: str) -> Topic:
    result = Topic(name)
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        lines = block.splitlines()
        title = lines[0].strip()
        if title.startswith("Usage:"):
            first = title.removeprefix("Usage:").strip()
            result.usage += [first] if first else []
            result.usage += [line.strip() for line in lines[1:]]
        elif any(OPTION.match(line) for line in lines):
            for line in lines:
                found = OPTION.match(line)
                if found:
                    short, long, value, help_text = (part or "" for part in found.groups())
                    result.options.append(Option(short, long, value, help_text))
                elif result.options and line.startswith("   "):
                    last = result.options[-1]
                    last.help = f"{last.help} {line.strip()}".strip()
        elif not result.summary:
            result.summary = " ".join(line.strip() for line in lines)
        elif lines[1:] and all(line.startswith("  ") for line in lines[1:]):
            result.paragraphs.append(block)
        else:
            result.paragraphs.append(" ".join(line.strip() for line in lines))
    return result


def read(fm: str) -> tuple[Topic, list[Topic]]:
    overview = topic("fm", run(fm, "help"))
    names: list[str] = []
    for line in overview.usage:
        found = re.match(r"fm ([a-z][\w-]*)", line)
        if found and found[1] not in names:
            names.append(found[1])
    commands = [topic(name, run(fm, "help", name)) for name in names if name != "help"]
    return overview, commands


# ---- The man page


def roff(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in text.split("\n"))


def paragraph(text: str) -> str:
    if "\n" not in text:
        return f".PP\n{roff(text)}"
    title, *rest = text.split("\n")
    example = textwrap.dedent("\n".join(rest))
    return f".PP\n{roff(title)}\n.PP\n.RS\n.nf\n{roff(example)}\n.fi\n.RE"


def man_page(overview: Topic, commands: list[Topic], version: str) -> str:
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0")) or time.time()
    date = time.strftime("%Y-%m-%d", time.gmtime(epoch))
    lines = [
        f'.TH FM 1 "{date}" "OpenFM {version}" "User Commands"',
        ".SH NAME",
        "fm \\- ask a language model about texts and pictures",
        ".SH SYNOPSIS",
    ]
    for line in overview.usage:
        lines += [".nf", roff(re.sub(r"\s{2,}.*", "", line)), ".fi"]
    lines += [".SH DESCRIPTION", roff(overview.summary)]
    sections = {
        "Environment:": "ENVIRONMENT",
        "Exit codes:": "EXIT STATUS",
        "Examples:": "EXAMPLES",
    }
    last: list[str] = []
    shared = set()
    for text in overview.paragraphs:
        title = next((title for title in sections if text.startswith(title)), None)
        if title is None:
            lines.append(paragraph(text))
        else:
            shared.add(text)
            body = text.removeprefix(title).strip("\n")
            last.append(f".SH {sections[title]}")
            if "\n" in text:
                last += [".nf", roff(textwrap.dedent(body)), ".fi"]
            else:
                last.append(roff(body.strip()))
    lines.append(".SH COMMANDS")
    for command in commands:
        lines += [f".SS {roff(command.usage[0] if command.usage else 'fm ' + command.name)}"]
        lines.append(roff(command.summary))
        for option in command.options:
            left = f"\\fB\\-{option.short}\\fR, " if option.short else ""
            left += f"\\fB{roff(option.name)}\\fR"
            left += f" \\fI{roff(option.value)}\\fR" if option.value else ""
            lines += [".TP", left, roff(option.help)]
        lines += [paragraph(text) for text in command.paragraphs if text not in shared]
    return "\n".join([*lines, *last, ""])


# ---- Completions


def bash(commands: list[Topic]) -> str:
    cases = []
    for command in commands:
        words = " ".join(
            word
            for option in command.options
            for word in ([f"-{option.short}"] if option.short else []) + [option.name]
        )
        files = "|".join(
            word
            for option in command.options
            if option.value in FILE_VALUES
            for word in ([f"-{option.short}"] if option.short else []) + [option.name]
        )
        others = "|".join(
            word
            for option in command.options
            if option.value and option.value not in FILE_VALUES
            for word in ([f"-{option.short}"] if option.short else []) + [option.name]
        )
        case = [f"    {command.name})", '      case "$previous" in']
        if files:
            case.append(f"        {files}) list -f; return ;;")
        if others:
            case.append(f"        {others}) return ;;")
        case.append("      esac")
        if not (files or others):
            case = case[:1]
        if command.words:
            # Elsewhere, nothing is a file here.
            names = " ".join(command.words)
            case.append(f'      [ "$COMP_CWORD" != 2 ] || list -W "{names}"')
            case.append(f'      case "$current" in -*) words="{words}" ;; *) return ;; esac ;;')
        else:
            case.append(f'      words="{words}" ;;')
        cases += case
    names = " ".join([*(command.name for command in commands), "help"])
    return "\n".join(
        [
            "# bash completion for fm",
            "_fm() {",
            '  list() { mapfile -t COMPREPLY < <(compgen "$@" -- "${COMP_WORDS[COMP_CWORD]}"); }',
            '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
            '  local words=""',
            "  COMPREPLY=()",
            '  if [ "$COMP_CWORD" = 1 ] || [ "$COMP_CWORD $previous" = "2 help" ]; then',
            f'    list -W "{names} --help --version"',
            "    return",
            "  fi",
            '  case "${COMP_WORDS[1]}" in',
            *cases,
            "  esac",
            '  case "$current" in',
            '    -*) list -W "$words" ;;',
            "    *) list -f ;;",
            "  esac",
            "}",
            "complete -o filenames -F _fm fm",
            "",
        ]
    )


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(commands: list[Topic]) -> str:
    def spec(option: Option) -> list[str]:
        help_text = option.help.replace("[", "(").replace("]", ")")
        action = ""
        if option.value:
            action = f":{option.value.lower().replace(':', ' ')}:"
            action += "_files" if option.value in FILE_VALUES else ""
        names = [option.name] + ([f"-{option.short}"] if option.short else [])
        return [quoted(f"*{name}[{help_text}]{action}") for name in names]

    lines = [
        "#compdef fm",
        "local -a commands",
        "commands=(",
        *(
            f"  {quoted(command.name + ':' + command.summary.partition('.')[0])}"
            for command in commands
        ),
        "  'help:what a command does'",
        ")",
        "if (( CURRENT == 2 )); then",
        "  _describe command commands",
        "  return",
        "fi",
        'case "$words[2]" in',
        "  help) (( CURRENT == 3 )) && _describe command commands ;;",
    ]
    for command in commands:
        specs = [text for option in command.options for text in spec(option)]
        lines += [f"  {command.name})", "    shift words; (( CURRENT-- ))"]
        lines += ["    _arguments -S \\", *(f"      {text} \\" for text in specs)]
        if command.words:
            lines += [f"      '1:what to do:({' '.join(command.words)})' ;;"]
        else:
            lines += ["      '*:file:_files' ;;"]
    return "\n".join([*lines, "esac", ""])


def fish(commands: list[Topic]) -> str:
    lines = ["# fish completion for fm", "complete -c fm -f"]
    for command in [*commands, Topic("help", "what a command does")]:
        summary = quoted(command.summary.partition(".")[0])
        lines.append(f"complete -c fm -n __fish_use_subcommand -a {command.name} -d {summary}")
    names = " ".join(command.name for command in commands)
    lines.append(f"complete -c fm -n '__fish_seen_subcommand_from help' -a '{names}'")
    for command in commands:
        seen = quoted(f"__fish_seen_subcommand_from {command.name}")
        if command.words:
            words = " ".join(command.words)
            first = quoted(
                f"__fish_seen_subcommand_from {command.name}; "
                f"and not __fish_seen_subcommand_from {words}"
            )
            lines.append(f"complete -c fm -n {first} -a {quoted(words)}")
        else:
            lines.append(f"complete -c fm -n {seen} -F")
        for option in command.options:
            line = f"complete -c fm -n {seen} -l {option.name.removeprefix('--')}"
            line += f" -s {option.short}" if option.short else ""
            if option.value:
                line += " -r" + (" -F" if option.value in FILE_VALUES else " -f")
            lines.append(f"{line} -d {quoted(option.help)}")
    return "\n".join([*lines, ""])


def main(fm: str, folder: Path) -> None:
    overview, commands = read(fm)
    if not commands or not all(command.options for command in commands):
        sys.exit("manual.py: fm help tells of no commands, or of one without options")
    version = run(fm, "--version").split()[-1]
    for path, text in {
        "man/man1/fm.1": man_page(overview, commands, version),
        "bash-completion/completions/fm": bash(commands),
        "zsh/site-functions/_fm": zsh(commands),
        "fish/vendor_completions.d/fm.fish": fish(commands),
    }.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: manual.py FM FOLDER")
    main(sys.argv[1], Path(sys.argv[2]))
