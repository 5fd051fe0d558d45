//! What every call pays before and after its way to a platform: the check of path and query, and taking off the
//! envelope. `cargo bench -p clients`.

use std::hint::black_box;

use clients::platform::envelope::{self, EnvelopeContent};
use clients::platform::path::{self, PathProblem};
use criterion::{Criterion, Throughput};
use serde_json::json;

/// Rows of the enveloped answers: a small one, and one of some hundred kilobytes.
const ROWS: [usize; 2] = [10, 2_000];
const PATHS: [(&str, &str); 3] = [
    ("short", "users/me"),
    ("long", "chats/123456789/messages/987654321/attachments/1/previews/large/of/the/first/page"),
    ("encoded", "lists/caf%C3%A9/users/%E6%97%A5%E6%9C%AC"),
];
const QUERY: &str =
    "limit=100&offset=200&order=desc&filter%5Bstate%5D=active&before=2026-01-01T00%3A00%3A00Z";

fn hygiene(criterion: &mut Criterion) -> Result<(), PathProblem> {
    let mut group = criterion.benchmark_group("check");
    for (name, raw) in PATHS {
        path::check_path(raw)?;
        group.bench_function(format!("{name} path"), |bencher| {
            bencher.iter(|| path::check_path(black_box(raw)).is_ok());
        });
    }
    path::check_query(QUERY)?;
    group.bench_function("query", |bencher| {
        bencher.iter(|| path::check_query(black_box(QUERY)).is_ok());
    });
    group.finish();
    Ok(())
}

fn answer(rows: usize) -> Vec<u8> {
    let row = |id| json!({"id": id, "text": "some words \u{e9} and \"quotes\"", "price": 4.99, "tags": ["a", "b"]});
    let list: Vec<_> = (0..rows).map(row).collect();
    json!({"success": true, "response": {"list": list, "hasMore": true}}).to_string().into_bytes()
}

fn unwrapping(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("take off the envelope");
    for rows in ROWS {
        let body = answer(rows);
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(format!("{rows} rows"), |bencher| {
            bencher
                .iter(|| matches!(envelope::unwrap(black_box(&body)), EnvelopeContent::Inner(_)));
        });
    }
    group.finish();
}

fn main() -> Result<(), PathProblem> {
    let mut criterion = Criterion::default().configure_from_args();
    hygiene(&mut criterion)?;
    unwrapping(&mut criterion);
    criterion.final_summary();
    Ok(())
}
