//! All routes and layers of the public listener, in order.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use console_kit::service::ServiceRoutes;
use domain::platform::Platform;
use failures::Failure;
use gateway::state::GatewayState;
use http::HeaderMap;
use tower::ServiceExt;
use transport::{ExplainingHandler, RequestHandler};
use web::WebState;
use web::control_limits::ReportedLimits;
use web::error::ApiError;
use web::extract::{Path, Query};
use web::fields::RequestQuery;
use web::middleware::real_ip::ClientAddress;
use web::middleware::request_id::RequestLabel;
use web::own_requests;
use web::request_log::RequestRecord;

use crate::openapi::{DocumentScope, OpenapiVersion};
use crate::state::{CoreState, NodeState};
use crate::{contract, front_page, pipeline};

/// How much later a network above its limit gets its refusal: four a second on each connection.
const NETWORK_REFUSAL_PAUSE: Duration = Duration::from_millis(250);

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
        .route("/v1/platforms/{platform}/openapi.json", get(platform_document))
        .route("/", get(front_page::show));
    let upload = Router::new().route("/v1/{account}/media/upload", post(gateway::upload_media));
    let api: Router = api.route_layer(once).with_state(core.api());
    let routes = Arc::new(OwnRoutes { api: api.clone(), gateway: core.node.beside.clone() });
    api.merge(documents.with_state(core.node.clone()))
        .merge(console::router().merge(billing_pages::router()).with_state(core.console(routes)))
        .merge(reference::router().with_state(core.node.reference.clone()))
        .layer(from_fn_with_state(core.node.clone(), on_control))
        .merge(upload.with_state(core.gateway.clone()))
        .fallback(nothing_here)
        .method_not_allowed_fallback(method_not_allowed)
}

/// The routes that pages use, inside the process.
struct OwnRoutes {
    api: Router,
    gateway: GatewayState,
}

impl ServiceRoutes for OwnRoutes {
    fn serve(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + Send>> {
        if !gateway::is_native(request.uri().path()) {
            let served = self.api.clone().oneshot(request);
            return Box::pin(async move { served.await.unwrap_or_else(|never| match never {}) });
        }
        let extensions = request.extensions();
        let label = extensions.get::<RequestLabel>().cloned();
        let client = extensions.get::<ClientAddress>().copied();
        let (Some(label), Some(client)) = (label, client) else {
            let lost = Failure::Internal("a page's call has no id or no sender".to_owned());
            return Box::pin(async move { ApiError::Failure(lost).into_response() });
        };
        Box::pin(gateway::proxy_call(self.gateway.clone(), request, label, client.ip))
    }
}

/// Counts the request and runs it on the control runtime, where the store lives. The work completes
/// even if the caller disconnects.
async fn on_control(State(node): State<NodeState>, mut request: Request, next: Next) -> Response {
    RequestRecord::note_route(request.extensions());
    let reported = ReportedLimits::default();
    let (limits, now) = (&node.web.control_limits, node.clock.now());
    let admitted = match limits.admit_network(&request, &reported, now) {
        Ok(()) => limits.admit_credential(&request, node.web.cookies.cookie(), &reported, now),
        Err(refused) => {
            // A loop that does not obey it would take the cores from those whose calls are metered.
            tokio::time::sleep(NETWORK_REFUSAL_PAUSE).await;
            Err(refused)
        }
    };
    let mut response = match admitted {
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

/// Which document, in which version of OpenAPI.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DocumentParams {
    /// `all` adds the routes of all platforms.
    #[param(inline)]
    platforms: Option<IncludedPlatforms>,
    /// `3.1` or `3.0`.
    #[param(inline)]
    version: Option<WantedVersion>,
}

impl RequestQuery for DocumentParams {}

/// In which version of OpenAPI.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PlatformDocumentParams {
    /// `3.1` or `3.0`.
    #[param(inline)]
    version: Option<WantedVersion>,
}

impl RequestQuery for PlatformDocumentParams {}

/// The platforms whose routes are added.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum IncludedPlatforms {
    All,
}

/// The version of OpenAPI that is asked for.
#[derive(serde::Deserialize, utoipa::ToSchema)]
enum WantedVersion {
    #[serde(rename = "3.1")]
    Current,
    #[serde(rename = "3.0")]
    Older,
}

impl WantedVersion {
    const fn version(wanted: Option<&Self>) -> OpenapiVersion {
        match wanted {
            None | Some(Self::Current) => OpenapiVersion::Current,
            Some(Self::Older) => OpenapiVersion::Older,
        }
    }
}

/// The contract, for tools: the service's own routes, or everything.
async fn openapi_document(
    State(node): State<NodeState>,
    Query(params): Query<DocumentParams>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let scope = match params.platforms {
        None => DocumentScope::Own,
        Some(IncludedPlatforms::All) => DocumentScope::Whole,
    };
    let version = WantedVersion::version(params.version.as_ref());
    contract::respond(&node, scope, version, &headers).await
}

/// The contract of one platform's routes, for tools.
async fn platform_document(
    State(node): State<NodeState>,
    Path(platform): Path<Platform>,
    Query(params): Query<PlatformDocumentParams>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let version = WantedVersion::version(params.version.as_ref());
    contract::respond(&node, DocumentScope::Platform(platform), version, &headers).await
}

impl FromRef<NodeState> for WebState {
    fn from_ref(node: &NodeState) -> Self {
        node.web.clone()
    }
}
