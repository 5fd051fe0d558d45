//! The data plane: the life of a native call, one file per phase, in order.
//!
//! admit → hold → prepare → forward → receive → settle. A call is run by a task of its own that owns its
//! hold from the reservation to the settlement; the handler only relays what the task sends. So a caller who
//! hangs up changes nothing in the books.

pub(crate) mod accounts;
mod admit;
mod answer;
pub(crate) mod cache;
mod call;
mod forward;
mod hold;
mod idempotency;
pub(crate) mod limits;
mod prepare;
mod receive;
mod reconnect;
mod refresh;
mod settle;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::any;

use crate::app::App;
use crate::error::ApiError;

/// The one route of the data plane (specification 4.2).
pub(crate) fn router() -> Router<App> {
    Router::new().route("/v1/{account}/native/{*path}", any(proxy_call))
}

/// Starts the call and relays its head; the body follows from the call's own task.
async fn proxy_call(State(app): State<App>, request: Request) -> Response {
    let (sender, receiver) = answer::channel();
    let task = call::run(app.clone(), request, sender);
    app.tasks.spawn_call(Box::pin(task));
    match receiver.await {
        Ok(response) => response,
        Err(_) => ApiError::Internal("a call ended without an answer".to_owned()).into_response(),
    }
}
