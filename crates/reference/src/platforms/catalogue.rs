//! The catalogue in force, as pages show it.

use catalog::{PlatformCatalog, Route, RouteOperation};
use domain::platform::Platform;

use crate::markdown::render_inline;
use crate::operations::model::verb_class;
use crate::state::ReferenceState;

/// A platform in a table.
pub(crate) struct PlatformSummary {
    pub(crate) name: &'static str,
    pub(crate) routes: usize,
    /// The fields that an account is connected with.
    pub(crate) credentials: String,
    /// The parameters by which pages of its lists are asked for.
    pub(crate) paging: String,
    /// The lists that can be exported.
    pub(crate) datasets: usize,
}

/// A route in a list.
pub(crate) struct RouteRow {
    pub(crate) method: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) path: String,
    /// Its page.
    pub(crate) page: String,
    pub(crate) group: String,
    /// What it does, as HTML.
    pub(crate) about: String,
    /// What else a caller should know, as HTML.
    pub(crate) notes: String,
    /// What a search looks through, in lower case.
    pub(crate) text: String,
    /// The names of its query parameters.
    pub(crate) query: String,
    pub(crate) scopes: String,
    pub(crate) cost: i64,
}

/// The call that examples make.
pub(crate) struct ExampleCall {
    pub(crate) account: String,
    pub(crate) path: String,
    /// The name of the route in receipts.
    pub(crate) route: String,
}

/// The platforms that accounts can be connected of.
pub(crate) fn summaries(reference: &ReferenceState) -> Vec<PlatformSummary> {
    let offered = reference.config().platforms.offered();
    offered
        .map(|(platform, _)| {
            let catalog = reference.catalog().platform(platform);
            let fields = catalog.auth_fields().iter().filter(|field| field.required);
            let fields: Vec<&str> = fields.map(|field| field.name.as_str()).collect();
            PlatformSummary {
                name: platform.as_str(),
                routes: catalog.routes().len(),
                credentials: fields.join(", "),
                paging: paging(catalog).join(", "),
                datasets: catalog.datasets().len(),
            }
        })
        .collect()
}

/// The offered platform with this name, or with this as its name in the specification.
pub(crate) fn offered(reference: &ReferenceState, name: &str) -> Option<Platform> {
    let wanted: Platform = name.parse().ok()?;
    let mut offered = reference.config().platforms.offered().map(|(platform, _)| platform);
    offered.find(|platform| *platform == wanted)
}

/// The query parameters of its lists that turn pages.
fn paging(catalog: &PlatformCatalog) -> Vec<&'static str> {
    const USUAL: [&str; 10] = [
        "limit",
        "offset",
        "page",
        "size",
        "per_page",
        "cursor",
        "before",
        "after",
        "next",
        "page_token",
    ];
    let routes = catalog.routes();
    let has = |name: &str| {
        let uses = |route: &Route| route.query_parameters.iter().any(|known| known.name == name);
        routes.iter().filter(|route| uses(route)).count() > 1
    };
    USUAL.into_iter().filter(|name| has(name)).collect()
}

/// The page of a route.
pub(crate) fn page(platform: Platform, operation: &RouteOperation) -> String {
    format!("/docs/platforms/{platform}/{}", operation.id)
}

/// Every route with its page.
pub(crate) fn rows(reference: &ReferenceState, platform: Platform) -> Vec<RouteRow> {
    let costs = reference.config().credits.costs();
    let operations = reference.catalog().platform(platform).operations();
    operations
        .map(|(route, operation)| {
            let names: Vec<&str> =
                route.query_parameters.iter().map(|known| known.name.as_str()).collect();
            RouteRow {
                method: route.method.as_str(),
                verb: verb_class(route.method.as_str()),
                path: route.template.clone(),
                page: page(platform, operation),
                group: route.group.clone(),
                about: render_inline(&route.description),
                notes: render_inline(&route.notes),
                text: format!(
                    "{} {} {} {} {}",
                    route.template,
                    route.description,
                    route.group,
                    route.notes,
                    names.join(" ")
                )
                .to_lowercase(),
                query: names.join(", "),
                scopes: route.scopes.join(", "),
                cost: route.cost(&costs).whole(),
            }
        })
        .collect()
}

/// The route that the first example calls: who the creator is, on the first platform that has such
/// a route.
pub(crate) fn example(reference: &ReferenceState) -> ExampleCall {
    const WHO: [&str; 3] = ["me", "users/me", "account/me"];
    let platforms = || reference.config().platforms.offered().map(|(platform, _)| platform);
    let routes = |platform| reference.catalog().platform(platform).routes().iter();
    let plain = |route: &&Route| {
        route.is_native()
            && route.method.as_str() == "GET"
            && route.parameter_names().next().is_none()
    };
    let by_name = platforms().find_map(|platform| {
        let found =
            routes(platform).filter(plain).find(|route| WHO.contains(&route.template.as_str()));
        Some((platform, found?))
    });
    let any = || platforms().find_map(|platform| Some((platform, routes(platform).find(plain)?)));
    match by_name.or_else(any) {
        Some((platform, route)) => ExampleCall {
            account: account(platform.as_str()),
            path: route.template.clone(),
            route: route.name.clone(),
        },
        None => ExampleCall {
            account: "my_account".to_owned(),
            path: "me".to_owned(),
            route: "GET me".to_owned(),
        },
    }
}

/// A name for an account, as the sandbox names its own.
pub(crate) fn account(platform: &str) -> String {
    format!("demo_{}", platform.strip_prefix("platform_").unwrap_or(platform))
}
