# Every daily command; CI runs the same scripts. `just` lists them. (`just` comes with `scripts/tools`.)

tools := `scripts/tools`
export PATH := tools + ":" + env("PATH")

_default:
    @just --list --unsorted

# What CI checks: what has changed since the last full run
check:
    scripts/test

# Every step, and every test on both databases
check-all:
    scripts/test --all

# Format the code
fmt:
    cargo fmt --all

# What CI says about style and habits
lint:
    scripts/test lint

# All tests on SQLite (all of it, or those that match): nothing needs to be installed
test *filter:
    cargo nextest run --no-tests=fail --workspace {{ filter }}

# All tests on a PostgreSQL started for them, also those that need it
test-postgres *filter:
    CREATOR_GATEWAY_TEST_DATABASE=postgresql scripts/postgres run -- \
        cargo nextest run --no-tests=fail --workspace --run-ignored all {{ filter }}

# Write openapi.json and docs/errors.md anew; then read the diff
accept:
    UPDATE_CONTRACT=1 cargo nextest run --no-tests=fail --package node --test it contract

# The sandbox, started, called, restarted and killed
smoke:
    scripts/test smoke

# The service killed under load, and its books compared with what really happened
kill-test *arguments:
    scripts/kill-test {{ arguments }}

# The service killed between charges and their grants, and its books compared with the processor's
charge-kill-test *arguments:
    scripts/charge-kill-test {{ arguments }}

# Three nodes and their PostgreSQL that fail under load
cluster-test *arguments:
    scripts/cluster-test {{ arguments }}

# Power cuts under load, on SQLite
power-loss *arguments:
    scripts/power-loss {{ arguments }}

# The build for production: target/dist/creator-gateway
dist:
    cargo build --profile dist --locked

# The same, arranged by counts of calls: target/optimized/creator-gateway
optimized:
    scripts/build-optimized

# The code's documentation
doc:
    cargo doc --workspace --no-deps --open

# Which dependencies are allowed, and to whom
deny:
    scripts/test dependencies

# Spelling
typos:
    scripts/test spelling

# The gateway with simulated platforms on this machine
sandbox *arguments:
    cargo run -- sandbox {{ arguments }}

# The service
serve *arguments:
    cargo run -- serve {{ arguments }}

# Bring a database up to date
migrate *arguments:
    cargo run -- migrate {{ arguments }}

# The speed beside its peers, on a quiet machine (`just bench --short --only reads` for a first look)
bench *arguments:
    cargo build --profile dist
    benches/gateway {{ arguments }}

# The packages of a release, in target/packages
package *arguments:
    scripts/package {{ arguments }}
