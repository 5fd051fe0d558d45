"""Compares files with published schemas; run by the Python that has them (see tools.py).

    schemas.py kubernetes FILE …        schemas.py compose|workflow|sbom FILE …

With `load`, prints all documents of a YAML file as JSON.
"""

import functools
import json
import pathlib
import sys
import sysconfig

import jsonschema
import kubernetes_validate
import referencing
import yaml

KUBERNETES = "1.31"
SCHEMAS = {
    "compose": ("check_jsonschema", "builtin_schemas/vendor/compose-spec.json"),
    "workflow": ("check_jsonschema", "builtin_schemas/vendor/github-workflows.json"),
    "sbom": ("cyclonedx", "schema/_res/bom-1.5.SNAPSHOT.schema.json"),
}
# What the schema of CycloneDX refers to.
REFERRED = {
    "http://cyclonedx.org/schema/spdx.schema.json": "schema/_res/spdx.SNAPSHOT.schema.json",
    "http://cyclonedx.org/schema/jsf-0.82.schema.json": "schema/_res/jsf-0.82.SNAPSHOT.schema.json",
}


class StrictLoader(yaml.SafeLoader):
    """YAML in which a key appears once, and `on` is a word."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len(keys) != len(set(keys)):
            raise yaml.YAMLError(f"a key appears twice at {node.start_mark}")
        return super().construct_mapping(node, deep)


StrictLoader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in resolvers if not (tag == "tag:yaml.org,2002:bool" and letter in "oOyYnN")]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def documents(path):
    with open(path) as file:
        return [each for each in yaml.load_all(file, StrictLoader) if each is not None]


def _read(package, path):
    # The package itself is not imported: it would need more than its schemas do.
    return json.loads((pathlib.Path(sysconfig.get_path("purelib")) / package / path).read_text())


@functools.cache
def _validator(kind):
    package, path = SCHEMAS[kind]
    schema = _read(package, path)
    resources = [(uri, _read("cyclonedx", file)) for uri, file in REFERRED.items()] if kind == "sbom" else []
    registry = referencing.Registry().with_resources(
        [(uri, referencing.Resource.from_contents(each)) for uri, each in resources]
    )
    return jsonschema.validators.validator_for(schema)(schema, registry=registry)


def problems(kind, path):
    for document in documents(path):
        if kind == "kubernetes":
            try:
                kubernetes_validate.validate(document, KUBERNETES, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{path}: {document.get('kind')}: {error.message}"
        else:
            for error in _validator(kind).iter_errors(document):
                yield f"{path}: {error.json_path}: {error.message}"


def main(kind, *paths):
    if kind == "load":
        json.dump([each for path in paths for each in documents(path)], sys.stdout)
        return 0
    found = [each for path in paths for each in problems(kind, path)]
    for each in found:
        print(each)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
