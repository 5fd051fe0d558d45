//! All routes and layers of the public listener, in order.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use failures::Failure;
use http::HeaderMap;
use transport::{ExplainingHandler, RequestHandler};
use web::control_limits::ReportedLimits;
use web::error::ApiError;
use web::extract::NoQuery;
use web::own_requests;
use web::request_log::RequestRecord;

use crate::contract::ServedDocument;
use crate::state::{CoreState, NodeState};
use crate::{openapi, pipeline};

/// The whole public service as one core serves it. Native calls are the majority, so they bypass
/// the router of the other routes.
pub(crate) fn service(core: CoreState) -> impl RequestHandler {
    let (control, explaining) = (control(&core), core.node.clone());
    ExplainingHandler {
        serve: move |arrived| pipeline::serve(core.clone(), control.clone(), arrived),
        explain: move |peer, status| pipeline::unread(&explaining, peer, status),
    }
}

/// All routes except native calls.
fn control(core: &CoreState) -> Router {
    let (api, _) = api::router().split_for_parts();
    let once = from_fn_with_state(core.node.web.clone(), own_requests::once);
    let documents = Router::new()
        .route("/openapi.json", get(openapi_document))
        .route("/docs/errors", get(error_reference));
    let upload = Router::new().route("/v1/{account}/media/upload", post(gateway::upload_media));
    api.route_layer(once)
        .with_state(core.api())
        .merge(documents.with_state(core.node.clone()))
        .merge(console::router().with_state(core.console()))
        .layer(from_fn_with_state(core.node.clone(), on_control))
        .merge(upload.with_state(core.gateway.clone()))
        .fallback(nothing_here)
        .method_not_allowed_fallback(method_not_allowed)
}

/// Counts the request and runs it on the control runtime, where the store lives. The work completes
/// even if the caller disconnects.
async fn on_control(State(node): State<NodeState>, mut request: Request, next: Next) -> Response {
    RequestRecord::note_route(request.extensions());
    let reported = ReportedLimits::default();
    let (cookie, now) = (node.web.cookies.cookie(), node.clock.now());
    let mut response = match node.web.control_limits.admit(&request, cookie, &reported, now) {
        Ok(()) => {
            request.extensions_mut().insert(reported.clone());
            let done = node.tasks.on_control(async move { next.run(request).await }).await;
            done.unwrap_or_else(|lost| ApiError::from(lost).into_response())
        }
        Err(refused) => refused.into_response(),
    };
    reported.put_headers(response.headers_mut());
    response
}

async fn nothing_here() -> ApiError {
    ApiError::Failure(Failure::NotFound(
        "nothing is at this path; `GET /openapi.json` lists what there is",
    ))
}

async fn method_not_allowed(request: Request) -> ApiError {
    RequestRecord::note_route(request.extensions());
    ApiError::MethodNotAllowed
}

/// The contract, for tools.
async fn openapi_document(
    State(node): State<NodeState>,
    _: NoQuery,
    headers: HeaderMap,
) -> Response {
    let contract = node.contract.get_or_init(|| {
        ServedDocument::of(&openapi::document(&node.catalog, &node.config.credits.costs()))
    });
    contract.response(&headers)
}

/// The meaning of each error code, for people who follow the `type` of an error.
async fn error_reference(_: NoQuery) -> impl IntoResponse {
    ([(http::header::CONTENT_TYPE, "text/markdown; charset=utf-8")], crate::error_reference())
}
