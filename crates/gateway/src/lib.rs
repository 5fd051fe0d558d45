//! The data plane: the life of a native call, one file per phase, in order.
//!
//! admit → hold → prepare → forward → receive → settle. A call owns its hold from the reservation
//! to the settlement. The handler runs the call until its response head is ready. A call that takes
//! longer, or whose caller disconnects, continues as a task of its own, so a caller that leaves
//! changes nothing in the ledger.

pub mod account_cookies;
mod account_entry;
mod admit;
mod answer;
mod balance;
pub mod cache;
mod call;
mod call_context;
mod drift;
mod encoded_path;
mod fetch;
mod forward;
mod hold;
mod idempotency;
pub mod in_flight;
mod inbound;
pub mod limits;
mod observe;
mod owned;
mod pacing;
mod prepare;
pub mod read;
mod receive;
mod reconnect;
mod refresh;
mod refresh_watch;
mod resealing;
pub mod routes;
mod settle;
pub mod state;
mod token_exchange;
mod token_pauses;
pub mod unlisted;
pub mod upload;

use std::net::IpAddr;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use failures::Failure;
use futures_util::FutureExt;
use tokio::time::Instant;
use web::error::ApiError;
use web::middleware::real_ip::ClientAddress;
use web::middleware::request_id::RequestLabel;
use web::request_log::RequestRecord;

use self::admit::CallEntrance;
use self::inbound::InboundRequest;
use crate::state::GatewayState;

/// Whether a path is a native call, `/v1/{account}/native/{path}` (specification 4.2).
pub fn is_native(path: &str) -> bool {
    let account = path.strip_prefix("/v1/").and_then(|rest| rest.split_once('/'));
    account.is_some_and(|(account, rest)| {
        !account.is_empty() && rest.strip_prefix("native/").is_some_and(|native| !native.is_empty())
    })
}

/// Whether responses of a path say what they cost: native calls, uploads and the creation of an
/// export.
pub fn is_metered(method: &http::Method, path: &str) -> bool {
    let account = path.strip_prefix("/v1/").and_then(|rest| rest.split_once('/'));
    account.is_some_and(|(_, rest)| match rest {
        "media/upload" => true,
        "exports" => method == http::Method::POST,
        _ => is_native(path),
    })
}

/// A native call.
pub fn proxy_call(
    gateway: GatewayState,
    request: Request,
    label: RequestLabel,
    client_ip: IpAddr,
) -> impl Future<Output = Response> {
    relay(gateway, (CallEntrance::Native, label, client_ip), request)
}

/// An upload (specification 4.3).
pub async fn upload_media(
    State(gateway): State<GatewayState>,
    Extension(label): Extension<RequestLabel>,
    Extension(client): Extension<ClientAddress>,
    Extension(record): Extension<RequestRecord>,
    request: Request,
) -> Response {
    record.is_call();
    relay(gateway, (CallEntrance::Upload, label, client.ip), request).await
}

/// Runs the call and returns its response head. The body of a long response follows from the call's
/// own task.
fn relay(
    gateway: GatewayState,
    (entrance, label, client_ip): (CallEntrance, RequestLabel, IpAddr),
    request: Request,
) -> impl Future<Output = Response> {
    let (method, started) = (request.method().clone(), Instant::now());
    let inbound = InboundRequest { entrance, label, client_ip, method, started };
    let (sender, receiver) = answer::channel();
    let place = gateway.calls().place();
    let call = Box::pin(call::run(gateway, inbound, request, sender));
    owned::OwnedCall::new((call, place), receiver).map(|answer| {
        answer.unwrap_or_else(|| {
            ApiError::Failure(Failure::Internal("a call ended without a response".to_owned()))
                .into_response()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_calls_uploads_and_new_exports_are_metered() {
        let (get, post) = (http::Method::GET, http::Method::POST);
        for (method, path, is) in [
            (&get, "/v1/ada/native/users/me", true),
            (&post, "/v1/ada/media/upload", true),
            (&post, "/v1/ada/exports", true),
            (&get, "/v1/ada/exports", false),
            (&get, "/v1/exports/exp_1", false),
            (&post, "/v1/connect/import", false),
            (&get, "/health", false),
        ] {
            assert_eq!(is_metered(method, path), is, "{method} {path}");
        }
    }

    #[test]
    fn native_path_needs_an_account_and_a_platform_path() {
        for path in ["/v1/ada/native/users/me", "/v1/ada/native//x", "/v1/a%20b/native/x/"] {
            assert!(is_native(path), "{path}");
        }
        for path in [
            "/v1/ada/native",
            "/v1/ada/native/",
            "/v1//native/x",
            "/v1//ada/native/x",
            "/V1/ada/native/x",
            "/v1/ada/b/native/x",
            "/v1/ada/exports",
            "/v1/native/x",
            "/",
        ] {
            assert!(!is_native(path), "{path}");
        }
    }
}
