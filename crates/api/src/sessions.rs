//! Sessions: logging in, logging out, and listing the devices that are logged in.

use axum::Extension;
use axum::extract::State;
use axum::response::{AppendHeaders, IntoResponse};
use domain::customer::Email;
use domain::id::SessionId;
use domain::time::Timestamp;
use failures::Failure;
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use identity::devices::RECOGNIZED_FOR_S;
use identity::login::{self, NewLogin};
use store::sessions::{Session, SessionLifetime};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::SignedIn;
use web::auth::device::SessionDevice;
use web::error::ApiError;
use web::extract::{Json, NoQuery, Path};
use web::fields::RequestBody;
use web::request_log::KnownCaller;

use super::me::CustomerOut;
use crate::ApiState;

pub(crate) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(log_in))
        .routes(routes!(log_out))
        .routes(routes!(list_sessions))
        .routes(routes!(end_session))
}

/// The credentials of a login.
#[derive(serde::Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginIn {
    /// The email address; letter case does not matter.
    #[schema(value_type = String, format = Email, example = "ada@example.com")]
    email: Email,
    /// The password, exactly as it was set.
    #[schema(max_length = 128, format = Password)]
    password: String,
}

impl RequestBody for LoginIn {}

/// A new session. Its token is in the cookie.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct LoggedIn {
    customer: CustomerOut,
    #[schema(value_type = String)]
    session_id: SessionId,
    /// When it ends, however often it is used.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// When it ends if it is not used before; never later than `expires_at`.
    #[schema(value_type = String, format = DateTime)]
    idle_expires_at: Timestamp,
}

/// Responds with a session: its description in the body, its token in the cookie, and a cookie by
/// which the browser is recognized at the next login.
pub(super) fn handed_over(api: &ApiState, begun: NewLogin) -> impl IntoResponse + use<> {
    let lifetime = api.config.sessions.lifetime();
    let cookies = AppendHeaders([
        (SET_COOKIE, api.web.cookies.hand_over(&begun.token, lifetime.age_s)),
        (SET_COOKIE, device_cookie(api, &begun.device_cookie)),
    ]);
    let body = LoggedIn {
        customer: begun.customer.into(),
        session_id: begun.session.id,
        expires_at: lifetime.latest_end(begun.session.created_at),
        idle_expires_at: lifetime.idle_end(begun.session.created_at, begun.session.created_at),
    };
    let caller = KnownCaller { customer: begun.session.customer, key: None };
    (Extension(caller), cookies, axum::Json(body))
}

/// `Set-Cookie` with the device cookie.
pub(super) fn device_cookie(api: &ApiState, value: &str) -> HeaderValue {
    api.web.cookies.hand_over_device(value, RECOGNIZED_FOR_S)
}

/// Starts a session in this browser. A previous session of the browser ends.
#[utoipa::path(
    post, path = "/v1/auth/login", tag = "auth", request_body = LoginIn,
    responses(
        (status = 200, body = LoggedIn),
    )
)]
async fn log_in(
    State(api): State<ApiState>,
    device: SessionDevice,
    headers: HeaderMap,
    Json(form): Json<LoginIn>,
) -> Result<impl IntoResponse, ApiError> {
    api.web.own_pages().check_if_said(&headers)?;
    let begun = login::log_in(&api.identity, form.email, form.password, &device).await?;
    Ok(handed_over(&api, begun))
}

/// What tells a browser to forget the pages that it keeps, also those behind "back".
const FORGET_PAGES: (HeaderName, HeaderValue) =
    (HeaderName::from_static("clear-site-data"), HeaderValue::from_static("\"cache\""));

/// Ends the session of this browser. It needs no body and no `Content-Type`.
#[utoipa::path(
    post, path = "/v1/auth/logout", tag = "auth",
    responses(
        (status = 204, description = "the session has ended",
            headers(("Clear-Site-Data" = String, description = "`\"cache\"`: browsers forget the pages that they keep"))),
    )
)]
async fn log_out(
    State(api): State<ApiState>,
    signed_in: SignedIn,
    _: NoQuery,
) -> Result<impl IntoResponse, ApiError> {
    store::sessions::end(&api.store, signed_in.customer, signed_in.session).await?;
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, api.web.cookies.take_away()), FORGET_PAGES]))
}

/// The devices that are logged in.
#[derive(serde::Serialize, utoipa::ToSchema)]
pub(crate) struct Sessions {
    /// The most recently used first.
    sessions: Vec<SessionOut>,
}

/// A device that is logged in.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct SessionOut {
    #[schema(value_type = String)]
    session_id: SessionId,
    /// Whether it is the session of this request.
    current: bool,
    /// The browser's `User-Agent`.
    user_agent: String,
    /// The network in which it started: the address without its last part.
    #[schema(example = "192.0.2.0/24")]
    network: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// Accurate to the minute.
    #[schema(value_type = String, format = DateTime)]
    last_used_at: Timestamp,
    /// When it ends, however often it is used.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// When it ends if it is not used before; never later than `expires_at`.
    #[schema(value_type = String, format = DateTime)]
    idle_expires_at: Timestamp,
}

impl SessionOut {
    fn of(session: Session, lifetime: SessionLifetime, current: SessionId) -> Self {
        Self {
            session_id: session.id,
            current: session.id == current,
            expires_at: lifetime.latest_end(session.created_at),
            idle_expires_at: session.ends_at(lifetime),
            user_agent: session.user_agent,
            network: session.network,
            created_at: session.created_at,
            last_used_at: session.last_used_at,
        }
    }
}

/// Lists the devices that are logged in.
#[utoipa::path(
    get, path = "/v1/auth/sessions", tag = "auth", responses((status = 200, body = Sessions))
)]
async fn list_sessions(
    State(api): State<ApiState>,
    signed_in: SignedIn,
    _: NoQuery,
) -> Result<axum::Json<Sessions>, ApiError> {
    let (now, lifetime) = (api.clock.now(), api.config.sessions.lifetime());
    let stored = store::sessions::list(&api.store, signed_in.customer).await?;
    let running = stored.into_iter().filter(|session| now < session.ends_at(lifetime));
    let sessions = running.map(|session| SessionOut::of(session, lifetime, signed_in.session));
    Ok(axum::Json(Sessions { sessions: sessions.collect() }))
}

/// Logs a device out.
#[utoipa::path(
    delete, path = "/v1/auth/sessions/{session_id}", tag = "auth",
    params(("session_id" = String, Path, description = "the session")),
    responses(
        (status = 204, description = "the session has ended"),
    )
)]
async fn end_session(
    State(api): State<ApiState>,
    signed_in: SignedIn,
    Path(session): Path<SessionId>,
    _: NoQuery,
) -> Result<StatusCode, ApiError> {
    if store::sessions::end(&api.store, signed_in.customer, session).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ApiError::Failure(Failure::NotFound("there is no session with that id")))
    }
}
