//! Examples of responses, recorded from the simulated platforms.
//!
//! `examples/platform_*.json` has them by route, cut to a few rows and short texts; a test records
//! them (`just accept`).

use std::collections::HashMap;
use std::sync::LazyLock;

use catalog::Route;
use domain::platform::Platform;
use serde_json::Value;

/// The response to a call that succeeded.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct RouteExample {
    /// Its status.
    pub(crate) status: u16,
    /// Its body.
    pub(crate) body: Value,
}

/// By stored platform name, then route name.
static EXAMPLES: LazyLock<HashMap<&str, HashMap<String, RouteExample>>> = LazyLock::new(|| {
    let files = [
        ("platform_alpha", include_str!("../examples/platform_alpha.json")),
        ("platform_beta", include_str!("../examples/platform_beta.json")),
        ("platform_gamma", include_str!("../examples/platform_gamma.json")),
        ("platform_delta", include_str!("../examples/platform_delta.json")),
    ];
    files.map(|(name, text)| (name, serde_json::from_str(text).unwrap_or_default())).into()
});

/// The example of a route of a built-in platform, under whatever name.
pub(crate) fn of(platform: Platform, route: &Route) -> Option<&'static RouteExample> {
    EXAMPLES.get(platform.stored_name())?.get(&route.name)
}
