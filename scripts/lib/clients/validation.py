"""Checks OpenAPI documents: against the JSON Schemas that the OpenAPI Initiative publishes, and for what those cannot say.

    python validation.py DOCUMENT...

Those are: references that lead somewhere, ids and paths that are there once, parameters of paths, tags and security schemes
that are declared, and schemas that are JSON Schemas themselves. Runs in the environment that `install.py` makes.
"""

import importlib.util
import json
import pathlib
import re
import sys

import jsonschema_rs

METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace")
PROBLEMS_MAX = 20
# Members whose values are data and not part of the document.
DATA = ("example", "examples", "default", "enum", "const")


def published_schema(version):
    """The schema of documents in this version; the package has it as a file and is not imported."""
    package = pathlib.Path(importlib.util.find_spec("openapi_spec_validator").origin).parent
    return json.loads((package / f"resources/schemas/v{version}/schema.json").read_text())


def in_words(error):
    place = "/".join(map(str, error.instance_path))
    return f"{place}: {error.message[:300]}"


def nodes(value, path=()):
    """All objects of a document outside data, each with its path."""
    stack = [(value, path)]
    while stack:
        value, path = stack.pop()
        if isinstance(value, dict):
            yield value, path
            in_names = path and path[-1] in ("properties", "schemas")
            stack += [
                (inner, (*path, name))
                for name, inner in value.items()
                if in_names or not (name in DATA or name.startswith("x-"))
            ]
        elif isinstance(value, list):
            stack += [(inner, (*path, index)) for index, inner in enumerate(value)]


def target(document, reference):
    """What a reference leads to; None if it leads nowhere."""
    if not reference.startswith("#/"):
        return None
    place = document
    for name in reference[2:].split("/"):
        name = name.replace("~1", "/").replace("~0", "~")
        if not isinstance(place, dict) or name not in place:
            return None
        place = place[name]
    return place


def problems_of_references(document):
    for node, path in nodes(document):
        reference = node.get("$ref")
        in_names = path and path[-1] in ("properties", "schemas")
        if isinstance(reference, str) and not in_names and target(document, reference) is None:
            yield f"{'/'.join(map(str, path))}: {reference} leads nowhere"


def problems_of_operations(document):
    seen, shapes = set(), set()
    tags = {tag["name"] for tag in document.get("tags", [])}
    schemes = document.get("components", {}).get("securitySchemes", {})
    for path, item in document["paths"].items():
        shape = re.sub(r"\{[^}]*\}", "{}", path)
        if shape in shapes:
            yield f"{path}: another path differs in names only"
        shapes.add(shape)
        for method in METHODS:
            if method not in item:
                continue
            operation, place = item[method], f"{method} {path}"
            word = operation.get("operationId", "").replace("_", "").lower()
            if not word or word in seen:
                yield f"{place}: the operationId {operation.get('operationId')} is missing or like another"
            seen.add(word)
            every = [*item.get("parameters", []), *operation.get("parameters", [])]
            every = [target(document, each["$ref"]) if "$ref" in each else each for each in every]
            of_path = [each["name"] for each in every if each and each["in"] == "path"]
            if sorted(of_path) != sorted(re.findall(r"\{([^}]*)\}", path)):
                yield f"{place}: has the path parameters {of_path}"
            names = [(each["in"], each["name"].lower()) for each in every if each]
            if len(names) != len(set(names)):
                yield f"{place}: a parameter is there twice"
            if not set(operation.get("tags", [])) <= tags:
                yield f"{place}: a tag of {operation['tags']} is not declared"
            for wanted in operation.get("security", document.get("security", [])):
                if not set(wanted) <= set(schemes):
                    yield f"{place}: a security scheme of {list(wanted)} is not declared"


def problems_of_schemas(document):
    """3.1 leaves schemas to JSON Schema; in 3.0 they are part of the published schema."""
    own = list(document.get("components", {}).get("schemas", {}).items())
    own += [("/".join(map(str, path)), node["schema"]) for node, path in nodes(document) if "schema" in node and path[-1] != "properties"]
    for place, schema in own:
        try:
            jsonschema_rs.meta.validate(schema)
        except jsonschema_rs.ValidationError as error:
            yield f"{place}: {in_words(error)}"


def problems(document):
    version = document["openapi"].rsplit(".", 1)[0]
    validator = jsonschema_rs.validator_for(published_schema(version))
    yield from map(in_words, validator.iter_errors(document))
    yield from problems_of_references(document)
    yield from problems_of_operations(document)
    if version != "3.0":
        yield from problems_of_schemas(document)


def main():
    found = False
    for path in sys.argv[1:]:
        document = json.loads(pathlib.Path(path).read_text())
        for count, problem in enumerate(problems(document)):
            if count == PROBLEMS_MAX:
                print(f"{path}: and more")
                break
            print(f"{path}: {problem}")
            found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
