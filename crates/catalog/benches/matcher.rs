//! How long it takes to find the route of a path: `cargo bench -p catalog`.

use std::hint::black_box;

use catalog::{Catalog, CatalogError, PlatformCatalog};
use criterion::Criterion;
use domain::method::Method;
use domain::platform::Platform;

/// A path of literals, one with parameters, one that is nearly listed, and one that is not listed at all.
const PATHS: [(&str, &str); 4] = [
    ("literals", "users/me"),
    ("parameters", "users/12345678/restrict"),
    ("nearly", "users/me/settings/messages/nowhere"),
    ("unlisted", "a/path/that/no/platform/lists"),
];

fn find(criterion: &mut Criterion, alpha: &PlatformCatalog) {
    let mut group = criterion.benchmark_group("find");
    for (name, path) in PATHS {
        for method in [Method::Get, Method::Post] {
            let name = format!("{method} {name}");
            group.bench_function(name, |bencher| {
                bencher
                    .iter(|| black_box(alpha.find(black_box(method), black_box(path))).is_some());
            });
        }
    }
    group.finish();
}

fn build(criterion: &mut Criterion) {
    criterion.bench_function("build all catalogues", |bencher| {
        bencher.iter_with_large_drop(Catalog::built_in);
    });
}

fn main() -> Result<(), CatalogError> {
    let catalog = Catalog::built_in()?;
    let mut criterion = Criterion::default().configure_from_args();
    find(&mut criterion, catalog.platform(Platform::ALPHA));
    build(&mut criterion);
    criterion.final_summary();
    Ok(())
}
