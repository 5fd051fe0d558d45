//! The page of one route: what it does, costs and needs, and how it is called.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use catalog::{AuthField, Route, RouteParameter, SchemaText};
use domain::platform::Platform;
use http::HeaderMap;

use super::catalogue::{self, account};
use crate::first_call::CallExamples;
use crate::markdown::render_inline;
use crate::operations::model::verb_class;
use crate::shell::{DocsFrame, show};
use crate::state::ReferenceState;

pub(super) fn router() -> Router<ReferenceState> {
    Router::new().route("/docs/platforms/{platform}/{route}", get(route))
}

/// A parameter of the path, the query or the head; a member of a body; a credential.
pub(super) struct RouteField {
    pub(super) name: String,
    place: &'static str,
    pub(super) kind: String,
    pub(super) is_required: bool,
    /// What it means, as HTML.
    pub(super) about: String,
}

impl From<&AuthField> for RouteField {
    fn from(field: &AuthField) -> Self {
        Self {
            name: field.name.clone(),
            place: "",
            kind: field.kind.as_str().to_owned(),
            is_required: field.required,
            about: render_inline(&field.description),
        }
    }
}

#[derive(Template)]
#[template(path = "reference/route.html")]
struct RoutePage<'a> {
    frame: DocsFrame,
    platform: &'static str,
    route: &'a Route,
    verb: &'static str,
    /// What it does, as HTML.
    about: String,
    /// What else a caller should know, as HTML.
    notes: String,
    cost: i64,
    /// Its path from `/v1/` on.
    full_path: String,
    /// The query that lists the routes of its group.
    group_query: String,
    scopes: String,
    rewrites_to: Option<String>,
    defaults: String,
    paging: Option<String>,
    is_deprecated: bool,
    parameters: Vec<RouteField>,
    body_type: String,
    body: Vec<RouteField>,
    response: Vec<RouteField>,
    /// Only reads have an example: a copied write would change something.
    example: Option<CallExamples>,
}

async fn route(
    State(reference): State<ReferenceState>,
    Path((name, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let Some(platform) = catalogue::offered(&reference, &name) else {
        return crate::shell::nothing_here();
    };
    let mut operations = reference.catalog().platform(platform).operations();
    let Some((route, _)) = operations.find(|(_, operation)| operation.id == id) else {
        return crate::shell::nothing_here();
    };
    let here = format!("/docs/platforms/{platform}/{id}");
    show(&page(&reference, platform, route, DocsFrame::new(&reference, &headers, &here)))
}

fn page<'a>(
    reference: &ReferenceState,
    platform: Platform,
    route: &'a Route,
    frame: DocsFrame,
) -> RoutePage<'a> {
    let docs = route.docs.as_deref();
    let method = route.method.as_str();
    let full_path = if route.is_native() {
        format!("/v1/{{account}}/native/{}", route.template)
    } else {
        "/v1/{account}/media/upload".to_owned()
    };
    let address = full_path.replace("{account}", &account(platform.as_str()));
    let body = docs.and_then(|docs| docs.body.as_ref());
    let response = docs.and_then(|docs| docs.response.as_ref());
    let defaults = route.default_query.iter().map(|(name, value)| format!("{name}={value}"));
    RoutePage {
        frame,
        platform: platform.as_str(),
        verb: verb_class(method),
        about: render_inline(&route.description),
        notes: render_inline(&route.notes),
        cost: route.cost(&reference.config().credits.costs()).whole(),
        group_query: form_urlencoded::Serializer::new(String::new())
            .append_pair("group", &route.group)
            .finish(),
        scopes: route.scopes.join(", "),
        rewrites_to: route.shorthand().map(|shorthand| format!("/{}", shorthand.target)),
        defaults: defaults.collect::<Vec<_>>().join(", "),
        paging: docs.and_then(|docs| docs.paging.as_ref()).map(paging),
        is_deprecated: docs.is_some_and(|docs| docs.deprecated),
        parameters: parameters(route),
        body_type: body.map(|body| body.content_type.clone()).unwrap_or_default(),
        body: members(body.and_then(|body| body.schema.as_ref())),
        response: members(response.and_then(|response| response.schema.as_ref())),
        example: (method == "GET")
            .then(|| CallExamples::get(&format!("{}{address}", reference.base()))),
        full_path,
        route,
    }
}

/// How its pages are asked for, in a sentence.
fn paging(known: &catalog::RoutePaging) -> String {
    let by = known.parameter.as_ref().map(|name| format!(" with {name}")).unwrap_or_default();
    let size = known.size_parameter.as_ref().map(|name| format!(", {name} rows a page"));
    format!("{}{by}{}", known.style.as_str(), size.unwrap_or_default())
}

fn parameters(route: &Route) -> Vec<RouteField> {
    let docs = route.docs.as_deref();
    let documented = docs.map(|docs| docs.path_parameters.as_slice()).unwrap_or_default();
    let in_path = route.parameter_names().map(|name| {
        let known = documented.iter().find(|known| known.name == name);
        let field = known.map(|known| field(known, "path"));
        field.map_or_else(|| plain(name), |field| RouteField { is_required: true, ..field })
    });
    let in_query = route.query_parameters.iter().map(|known| field(known, "query"));
    let in_head = docs.map(|docs| docs.headers.as_slice()).unwrap_or_default();
    in_path.chain(in_query).chain(in_head.iter().map(|known| field(known, "header"))).collect()
}

fn plain(name: &str) -> RouteField {
    RouteField {
        name: name.to_owned(),
        place: "path",
        kind: "string".to_owned(),
        is_required: true,
        about: String::new(),
    }
}

fn field(known: &RouteParameter, place: &'static str) -> RouteField {
    RouteField {
        name: known.name.clone(),
        place,
        kind: known.schema.as_ref().map_or_else(|| "string".to_owned(), SchemaText::summary),
        is_required: known.required,
        about: render_inline(&known.description),
    }
}

fn members(schema: Option<&SchemaText>) -> Vec<RouteField> {
    let members = schema.map(SchemaText::members).unwrap_or_default();
    let field = |member: catalog::SchemaMember| RouteField {
        name: member.name,
        place: "",
        kind: member.summary,
        is_required: member.required,
        about: String::new(),
    };
    members.into_iter().map(field).collect()
}
