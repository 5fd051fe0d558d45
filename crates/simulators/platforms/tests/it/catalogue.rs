//! The routes of a platform in the gateway's catalogue. The file is read as data: the simulators
//! share no types with the gateway.

use std::collections::BTreeSet;

use toml::{Table, Value};

use crate::kit::Kit;

/// A route of the catalogue.
pub(crate) struct Entry {
    pub(crate) method: String,
    /// The path as customers write it.
    pub(crate) template: String,
    /// The path on the platform; it differs for shorthands only.
    target: String,
}

impl Entry {
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.template)
    }
}

/// All entries of a platform, in the order of the file.
pub(crate) fn entries(platform: &str) -> Vec<Entry> {
    let path = format!("{}/../../catalog/data/{platform}.toml", env!("CARGO_MANIFEST_DIR"));
    let file: Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let entry = |route: &Value| {
        let template = text(&route["template"]);
        let target = route.get("shorthand").map_or(template.clone(), |it| text(&it["target"]));
        Entry { method: text(&route["method"]), template, target }
    };
    file["routes"].as_array().unwrap().iter().map(entry).collect()
}

/// The names of the routes that are not reads.
pub(crate) fn writes(platform: &str) -> BTreeSet<String> {
    let writes = entries(platform).into_iter().filter(|entry| entry.method != "GET");
    writes.map(|entry| entry.name()).collect()
}

/// A route with the names of its parameters removed.
fn nameless(route: &str) -> String {
    let segments = route.split('/').map(|it| if it.starts_with('{') { "{}" } else { it });
    segments.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn the_simulators_have_every_route_of_the_catalogue() {
    let kit = Kit::new();
    for platform in ["platform_alpha", "platform_beta", "platform_gamma", "platform_delta"] {
        let routes = kit.routes(platform).await;
        let known: BTreeSet<String> = routes.iter().map(|route| nameless(route)).collect();
        let entries = entries(platform);
        assert!(entries.len() > 60, "{platform}");
        for entry in entries {
            let asked = format!("{} {}", entry.method, nameless(&entry.target));
            assert!(known.contains(&asked), "{platform} has no {asked}");
        }
    }
}
