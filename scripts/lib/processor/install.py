"""Installs the payment processor's libraries and a browser driver, pinned, below the build
folder."""

import pathlib

import environments

HERE = pathlib.Path(__file__).resolve().parent
WHEELS = HERE.parent.parent / "processor-test.txt"


def python():
    """The Python of the environment with the library."""
    return environments.python("processor-test", WHEELS) / "python"


def node_modules():
    """The folder with the libraries for Node."""
    return environments.node("processor-node", HERE)
