"""The command line."""

import argparse
import pathlib

from .common import ROOT

WORKS = ("reads", "writes", "slow", "large", "start", "nodes", "growth")
# Growth needs 8 GB of disk and some minutes only to fill a database, so it is measured only on
# request.
USUAL_WORKS = WORKS[:-1]
CALLS_MIN = 100_000
PEERS = ("p0", "p1", "haproxy", "p3", "p3dur", "fastify")


def _names(allowed):
    def parse(text):
        names = [name.strip().lower() for name in text.split(",") if name.strip()]
        unknown = [name for name in names if name not in allowed]
        if unknown or not names:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown) or 'nothing'}: choose from {', '.join(allowed)}")
        return names

    return parse


def read_options(description):
    """The parsed options."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = ROOT / "target" / "dist" / "creator-gateway"
    parser.add_argument(
        "--binary",
        action="append",
        metavar="[NAME=]PATH",
        help="may be given more than once, to compare builds with each other (reads and writes only)",
    )
    parser.add_argument("--commit", help="the commit of the binary; by default that of this repository")
    parser.add_argument("--only", type=_names(WORKS), default=list(USUAL_WORKS), help=f"of {','.join(WORKS)}")
    parser.add_argument("--peers", type=_names(PEERS), default=list(PEERS), help=f"of {','.join(PEERS)}; P1 always is")
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    parser.add_argument("--connections", type=int, nargs="+", default=[32, 256], help="for reads and writes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of each round")
    parser.add_argument("--repeats", type=int, default=3, help="how often a disturbed round is repeated")
    parser.add_argument("--rate", type=int, default=2_000, help="requests/s if the platform takes 50 ms")
    parser.add_argument("--calls", type=int, default=10_000_000, help="the most that growth generates; at least 100,000")
    parser.add_argument("--short", action="store_true", help="3 rounds of 3 s, none repeated")
    parser.add_argument("--publish", action="store_true", help="write docs/performance.md, .json and .svg")
    options = parser.parse_args()
    if options.short:
        options.rounds, options.seconds, options.repeats = 3, 3, 0
    if options.calls < CALLS_MIN:
        parser.error(f"--calls: at least {CALLS_MIN:,}")
    if options.rounds < 1 or options.seconds < 1 or options.repeats < 0 or min(options.connections) < 2:
        parser.error("at least 1 round of 1 s, and 2 connections")
    options.binaries = []
    for text in options.binary or [str(default)]:
        name, _, path = text.rpartition("=")
        found = pathlib.Path(path).resolve()
        if not found.exists():
            parser.error(f"there is no {found}; build it with cargo build --profile dist")
        options.binaries.append((name, found))
    return options
