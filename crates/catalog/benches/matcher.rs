//! How long it takes to find the route of a path: `cargo bench -p catalog`.

use std::hint::black_box;

use catalog::{Catalog, CatalogError, PlatformCatalog};
use criterion::Criterion;
use domain::method::Method;
use domain::platform::Platform;

/// A path of literals, one with parameters, one that is nearly listed, and one that is not listed
/// at all.
const PATHS: [(&str, &str); 4] = [
    ("literals", "users/me"),
    ("parameters", "users/12345678/restrict"),
    ("nearly", "users/me/settings/messages/nowhere"),
    ("unlisted", "a/path/that/no/platform/lists"),
];

/// As many routes as the largest public documents have, shaped like theirs.
const MANY: usize = 1223;

/// Paths of the many routes: found early and late in a word's siblings, with text around a
/// parameter, and not listed.
const PATHS_OF_MANY: [(&str, &str); 4] = [
    ("literals", "collection-40/items-0"),
    ("parameters", "repos/ada/engine/collection-40/items-3/12345678"),
    ("affixed", "repos/ada/engine/collection-40/items-4/7.json"),
    ("unlisted", "repos/ada/engine/collection-40/nowhere/7"),
];

/// A catalogue file of many routes, of which every fourth has text around its parameter.
fn many_routes() -> String {
    let template = |index: usize| {
        let (collection, items) = (index / 12, index % 6);
        match index % 4 {
            0 => format!("collection-{collection}/items-{}", index % 12),
            1 => format!("collection-{collection}/items-{}/{{item}}", index % 12),
            2 => format!(
                "repos/{{owner}}/{{repo}}/collection-{collection}/items-{items}/{{id}}.json"
            ),
            _ => format!("repos/{{owner}}/{{repo}}/collection-{collection}/items-{items}/{{id}}"),
        }
    };
    let entries = (0..MANY).map(|index| {
        let method = if index % 24 < 12 { "GET" } else { "POST" };
        format!("[[routes]]\nmethod = \"{method}\"\ntemplate = \"{}\"\n", template(index))
    });
    entries.collect()
}

fn find_in_many(criterion: &mut Criterion, many: &PlatformCatalog) {
    let mut group = criterion.benchmark_group("find in 1223");
    for (name, path) in PATHS_OF_MANY {
        group.bench_function(name, |bencher| {
            bencher
                .iter(|| black_box(many.find(black_box(Method::Get), black_box(path))).is_some());
        });
    }
    group.finish();
}

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
    let many = many_routes();
    let replaced = Catalog::built_in()?.with_replacement(Platform::ALPHA, &many)?;
    find_in_many(&mut criterion, replaced.platform(Platform::ALPHA));
    build(&mut criterion);
    criterion.bench_function("read 1223 routes", |bencher| {
        bencher.iter_with_large_drop(|| catalog.clone().with_replacement(Platform::ALPHA, &many));
    });
    criterion.final_summary();
    Ok(())
}
