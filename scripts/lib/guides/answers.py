"""Compares what a block printed with the answer that its guide shows.

A text is compared line by line, a JSON value by its members. `…` stands for anything: within a text for any characters, as
a member of an object for further members, as the last element of a list for further elements.
"""

import json
import re

ANYTHING = "…"


def difference(answer, printed):
    """None, or what differs."""
    shown = "\n".join(answer.lines)
    if answer.language == "text":
        return _texts(shown, printed)
    try:
        found = json.loads(printed)
    except ValueError:
        return f"printed no JSON, but the guide shows {shown}"
    return _values(json.loads(_quoted(shown)), found, "the value")


def _matches(shown, found):
    pattern = ".*".join(re.escape(part) for part in shown.split(ANYTHING))
    return re.fullmatch(pattern, found, re.DOTALL) is not None


def _texts(shown, printed):
    expected = [line.rstrip() for line in shown.splitlines()]
    found = [line.rstrip() for line in printed.splitlines()]
    for number, line in enumerate(expected):
        if line.strip() == ANYTHING and number == len(expected) - 1:
            return None
        if number >= len(found) or not _matches(line, found[number]):
            return f"line {number + 1} should be {line!r}, and printed was:"
    return None if len(found) == len(expected) else "more lines than the guide shows:"


def _quoted(shown):
    """The JSON with each `…` outside of a text as a text; in an object it is a member."""
    made, open_brackets, in_text, last = [], [], False, ""
    for position, letter in enumerate(shown):
        if in_text:
            in_text = not (letter == '"' and shown[position - 1] != "\\")
        elif letter == '"':
            in_text = True
        elif letter in "{[":
            open_brackets.append(letter)
        elif letter in "}]":
            open_brackets.pop()
        elif letter == ANYTHING:
            is_member = open_brackets and open_brackets[-1] == "{" and last in "{,"
            letter = f'"{ANYTHING}": 0' if is_member else f'"{ANYTHING}"'
        if letter.strip():
            last = letter[-1]
        made.append(letter)
    return "".join(made)


def _values(shown, found, where):
    if isinstance(shown, str):
        text = found if isinstance(found, str) else json.dumps(found)
        return None if _matches(shown, text) else f"{where} should be {shown!r}, and is {found!r}:"
    if isinstance(shown, dict) and isinstance(found, dict):
        return _members(shown, found, where)
    if isinstance(shown, list) and isinstance(found, list):
        return _elements(shown, found, where)
    is_same = type(shown) is type(found) and shown == found
    return None if is_same else f"{where} should be {shown!r}, and is {found!r}:"


def _members(shown, found, where):
    names = [name for name in shown if name != ANYTHING]
    missing = [name for name in names if name not in found]
    if missing:
        return f"{where} has no {missing[0]!r}:"
    more = [name for name in found if name not in shown]
    if more and ANYTHING not in shown:
        return f"{where} also has {more[0]!r}, which the guide does not show:"
    differences = (_values(shown[name], found[name], name) for name in names)
    return next((each for each in differences if each), None)


def _elements(shown, found, where):
    is_open = bool(shown) and shown[-1] == ANYTHING
    expected = shown[:-1] if is_open else shown
    if len(found) < len(expected) or (len(found) > len(expected) and not is_open):
        return f"{where} should have {len(expected)} elements, and has {len(found)}:"
    pairs = enumerate(zip(expected, found, strict=False))
    differences = (_values(*pair, f"{where}[{number}]") for number, pair in pairs)
    return next((each for each in differences if each), None)
