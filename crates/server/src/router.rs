//! Every route and every layer, in order: what a connection of the public listener is served with.

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use crate::app::App;
use crate::error::ApiError;
use crate::listener::Answers;
use crate::{api, console, gateway, openapi, pipeline};

/// The whole public service as one core serves it. Native calls are most of what comes, so they do not pass the
/// router of the rest.
pub(crate) fn service(app: App) -> impl Answers {
    let control = control(app.clone());
    move |arrived| pipeline::serve(app.clone(), control.clone(), arrived)
}

/// Everything but native calls.
fn control(app: App) -> Router {
    let (api, _) = api::router().split_for_parts();
    let control = api
        .route("/openapi.json", get(openapi_document))
        .route("/docs/errors", get(error_reference))
        .merge(console::router())
        .layer(from_fn_with_state(app.clone(), on_control))
        .route("/v1/{account}/media/upload", post(gateway::upload_media));
    control.fallback(nothing_here).method_not_allowed_fallback(method_not_allowed).with_state(app)
}

/// Runs the control plane's work where the store lives, to its end even if the caller hangs up.
async fn on_control(State(app): State<App>, request: Request, next: Next) -> Response {
    match app.tasks.on_control(async move { next.run(request).await }).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}

async fn nothing_here() -> ApiError {
    ApiError::NotFound("nothing is at this path; `GET /openapi.json` lists what there is")
}

async fn method_not_allowed() -> ApiError {
    ApiError::MethodNotAllowed
}

/// The contract, for tools.
async fn openapi_document(State(app): State<App>) -> axum::Json<serde_json::Value> {
    axum::Json(openapi::document(&app.catalog, &app.config.credits.costs()))
}

/// What each error code means, for people who follow an error's `type`.
async fn error_reference() -> impl IntoResponse {
    ([(http::header::CONTENT_TYPE, "text/markdown; charset=utf-8")], crate::error_reference())
}
