"""Compares parameters with the types that the processor's library for Python declares for them."""

import importlib
import typing

import typing_extensions

# Parameters of the pinned version of the interface that the library, which is newer, names otherwise.
OLDER = ("payment_method_types",)


class Misfit(Exception):
    """A parameter that the library does not have, or with a word that it does not know."""


def params(package, name):
    """The class of the parameters of a request, such as `SessionCreateParams` of `checkout`."""
    path = "stripe.params" + (f".{package}" if package else "")
    return getattr(importlib.import_module(path), name)


def fits(given, expected, path=""):
    """Fails unless `given` has the declared type: known names, known words, the right kinds of values."""
    origin, inner = typing_extensions.get_origin(expected), typing_extensions.get_args(expected)
    if origin is not None and str(origin).endswith("NotRequired"):
        return fits(given, inner[0], path)
    if expected is typing.Any:
        return None
    if origin is typing.Union:
        return one_of(given, [one for one in inner if one is not type(None)], path)
    if origin in (typing.Literal, typing_extensions.Literal):
        if given not in inner:
            raise Misfit(f"{path} is {given!r}, not one of {', '.join(map(repr, inner))}")
    elif origin is list:
        if not isinstance(given, list):
            raise Misfit(f"{path} is not a list")
        for place, one in enumerate(given):
            fits(one, inner[0], f"{path}[{place}]")
    elif origin is dict:
        for name, one in given.items():
            fits(one, inner[1], f"{path}[{name}]")
    elif typing_extensions.is_typeddict(expected):
        if not isinstance(given, dict):
            raise Misfit(f"{path} is not an object")
        known = hints(expected)
        for name, one in given.items():
            if name in OLDER:
                continue
            if name not in known:
                raise Misfit(f"{path}[{name}] is unknown to {expected.__name__}")
            fits(one, known[name], f"{path}[{name}]")
    elif isinstance(expected, type) and not is_of(given, expected):
        raise Misfit(f"{path} is {given!r}, not of the type {expected.__name__}")
    return None


def is_of(given, expected):
    """Whether a value has a simple type, as it is or as a form writes it."""
    if isinstance(given, str) and expected is bool:
        return given in ("true", "false")
    if isinstance(given, str) and expected in (int, float):
        return given.removeprefix("-").isdigit()
    return isinstance(given, expected)


def hints(declared):
    """The types of a class of parameters. Names that exist only for type checkers stand for anything."""
    unknown = {}
    while True:
        try:
            return typing_extensions.get_type_hints(declared, localns=unknown, include_extras=True)
        except NameError as error:
            unknown[error.name] = getattr(typing_extensions, error.name, typing.Any)


def nested(flat):
    """Parameters as a form writes them, such as `items[0][id]`, as objects and lists."""
    whole = {}
    for name, value in flat.items():
        first, *rest = name.replace("]", "").split("[")
        place = whole
        for part, following in zip([first, *rest], rest):
            place = place.setdefault(part, {})
        place[([first, *rest])[-1]] = value
    return listed(whole)


def listed(value):
    """The same with lists where all names are numbers."""
    if not isinstance(value, dict):
        return value
    inner = {name: listed(one) for name, one in value.items()}
    if inner and all(name.isdigit() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def one_of(given, several, path):
    misfits = []
    for one in several:
        try:
            return fits(given, one, path)
        except Misfit as misfit:
            misfits.append(misfit)
    # The deepest one says most.
    raise max(misfits, key=lambda misfit: len(str(misfit)))
