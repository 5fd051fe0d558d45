"""A guide as a document: its code blocks, what they should print, and the programs made of them."""

import re

from processes import check

LANGUAGES = ("bash", "python", "typescript")
ANSWERS = ("json", "text")
# What a program prints at the end of a block, by the block's first line.
MARK = "@@ end of the block of line"
END = {
    "bash": 'printf "\\n{mark} {line}\\n"',
    "python": 'print("\\n{mark} {line}", flush=True)',
    "typescript": 'console.log("\\n{mark} {line}");',
}
NOT_RUN = re.compile(r"<!-- not run: .+ -->")


class Block:
    """A code block. `line` is the number of its first line, below the fence."""

    def __init__(self, language, line, is_run):
        self.language, self.line, self.is_run = language, line, is_run
        self.lines = []
        # The block with what it prints, if the guide shows that.
        self.answer = None


class Guide:
    def __init__(self, name, blocks, length):
        self.name, self.blocks, self.length = name, blocks, length
        self.not_run = sum(not block.is_run for block in blocks)

    def _run(self, language):
        return [block for block in self.blocks if block.language == language and block.is_run]

    def languages(self):
        return [language for language in LANGUAGES if self._run(language)]

    def count(self, language):
        return len(self._run(language))

    def program(self, language):
        """All blocks of a language. Each line has the number that it has in the guide, so that messages name that."""
        lines = [""] * self.length
        for block in self._run(language):
            lines[block.line - 1 : block.line - 1 + len(block.lines)] = block.lines
            lines[block.line - 1 + len(block.lines)] = END[language].format(mark=MARK, line=block.line)
        return "\n".join(lines) + "\n"


def read(path):
    """The guide in a file. A json or text block belongs to the blocks before it, at most one of each language."""
    blocks, group = [], []
    inside, before = None, ""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines, start=1):
        if inside is None and line.startswith("```"):
            inside = Block(line[3:].strip(), number + 1, not NOT_RUN.fullmatch(before))
        elif inside is not None and line == "```":
            group = _add(path, blocks, group, inside)
            inside, before = None, ""
        elif inside is not None:
            inside.lines.append(line)
        elif line.strip():
            before = line.strip()
    check(inside is None, f"{path.name}: a block does not end")
    guide = Guide(path.stem, blocks, len(lines))
    has_both = guide.count("python") == guide.count("typescript")
    check(has_both, f"{path.name}: what is shown in Python is shown in TypeScript too, and the other way round")
    return guide


def _add(path, blocks, group, block):
    """Takes a block that has ended; returns the blocks that the next answer belongs to."""
    where = f"{path.name}, line {block.line}"
    if block.language in ANSWERS:
        if block.is_run:
            check(group, f"{where}: there is no code block that could print this")
            for each in group:
                each.answer = block
        return []
    known = block.language in LANGUAGES
    check(known or not block.is_run, f"{where}: a block of {block.language!r} cannot be run; mark it with a reason")
    blocks.append(block)
    if not block.is_run:
        return []
    is_new = any(each.language == block.language for each in group)
    return [block] if is_new else [*group, block]


def split_output(printed):
    """What each block printed, by its line."""
    outputs, lines = {}, []
    for line in printed.splitlines():
        if line.startswith(MARK):
            outputs[int(line.removeprefix(MARK))] = "\n".join(lines).strip()
            lines = []
        else:
            lines.append(line)
    return outputs
