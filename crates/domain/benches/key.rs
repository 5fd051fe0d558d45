//! The cost of checking a key's form and computing the hash that is looked up: `cargo bench -p
//! domain`.

use std::hint::black_box;

use criterion::Criterion;
use domain::key::{KeySecret, MalformedKey};

fn main() -> Result<(), MalformedKey> {
    let mut place = 0_u8;
    let secret = KeySecret::generate(|bound| {
        place = (place + 7) % bound;
        place
    });
    let text = secret.expose().to_owned();
    KeySecret::parse(&text)?;
    let mistyped = text.replace(secret.shown_suffix(), "0000");

    let mut criterion = Criterion::default().configure_from_args();
    criterion.bench_function("check a key", |bencher| {
        bencher.iter(|| KeySecret::parse(black_box(&text)).is_ok());
    });
    criterion.bench_function("refuse a mistyped key", |bencher| {
        bencher.iter(|| KeySecret::parse(black_box(&mistyped)).is_ok());
    });
    criterion.bench_function("hash a key", |bencher| bencher.iter(|| black_box(&secret).hash()));
    criterion.final_summary();
    Ok(())
}
