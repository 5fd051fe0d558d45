//! Every route and every layer, in order: what a connection of the public listener is served with.

use web::own_requests;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use failures::Failure;
use http::HeaderMap;
use transport::{Answers, Explaining};
use web::control_limits::Reported;
use web::error::ApiError;
use web::extract::NoQuery;
use web::request_log::RequestRecord;

use crate::app::App;
use crate::contract::Contract;
use crate::{api, console, gateway, openapi, pipeline};

/// The whole public service as one core serves it. Native calls are most of what comes, so they do not pass the
/// router of the rest.
pub(crate) fn service(app: App) -> impl Answers {
    let (control, explaining) = (control(app.clone()), app.clone());
    Explaining {
        serve: move |arrived| pipeline::serve(app.clone(), control.clone(), arrived),
        explain: move |peer, status| pipeline::unread(&explaining, peer, status),
    }
}

/// Everything but native calls.
fn control(app: App) -> Router {
    let (api, _) = api::router().split_for_parts();
    let control = api
        .route_layer(from_fn_with_state(app.clone(), own_requests::once))
        .route("/openapi.json", get(openapi_document))
        .route("/docs/errors", get(error_reference))
        .merge(console::router())
        .layer(from_fn_with_state(app.clone(), on_control))
        .route("/v1/{account}/media/upload", post(gateway::upload_media));
    control.fallback(nothing_here).method_not_allowed_fallback(method_not_allowed).with_state(app)
}

/// Counts the request, and runs the control plane's work where the store lives, to its end even if the caller hangs up.
async fn on_control(State(app): State<App>, mut request: Request, next: Next) -> Response {
    RequestRecord::note_route(request.extensions());
    let reported = Reported::default();
    let (cookie, now) = (app.web.cookies.cookie(), app.clock.now());
    let mut response = match app.web.control_limits.admit(&request, cookie, &reported, now) {
        Ok(()) => {
            request.extensions_mut().insert(reported.clone());
            let done = app.tasks.on_control(async move { next.run(request).await }).await;
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
async fn openapi_document(State(app): State<App>, _: NoQuery, headers: HeaderMap) -> Response {
    let contract = app.contract.get_or_init(|| {
        Contract::of(&openapi::document(&app.catalog, &app.config.credits.costs()))
    });
    contract.response(&headers)
}

/// What each error code means, for people who follow an error's `type`.
async fn error_reference(_: NoQuery) -> impl IntoResponse {
    ([(http::header::CONTENT_TYPE, "text/markdown; charset=utf-8")], crate::error_reference())
}
