//! The admin listener: liveness, readiness, metrics, and staff commands for a running server.
//!
//! It is private (loopback by default). Probes and metrics need no token; staff commands need the
//! admin token. A separate listener can serve only the probes and metrics, for clients that must
//! not reach staff commands.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use domain::id::RequestId;
use domain::staff::Permission;
use identity::staff::{self, StaffCommand, StaffError, StaffTools};
use runtime::metrics::MetricSample;
use transport::ConnectionCounts;
use web::error::ApiError;
use web::middleware::request_id::RequestLabel;
use web::middleware::security_headers;
use web::request_log::{LineOnDrop, RequestRecord};

use crate::admin_access::{AdminListener, Refused, is_staff, limit_tries};
use crate::command_body::CommandBody;
use crate::operator_routes;
use crate::state::NodeState;

/// Its routes.
pub(crate) fn router(admin: AdminListener) -> Router {
    let staff = Router::new()
        .route("/commands", post(run_command))
        .route("/commands/operator", post(operator_routes::run_command))
        .route("/commands/operator/export", post(operator_routes::export_customer))
        .route("/reconcile", post(reconcile))
        .route_layer(from_fn_with_state(admin.clone(), limit_tries));
    served(probes().merge(staff), admin)
}

/// The routes of the listener for probes, which may be open to more clients than the admin
/// listener.
pub(crate) fn probe_router(admin: AdminListener) -> Router {
    served(probes(), admin)
}

/// Liveness, readiness and metrics.
fn probes() -> Router<AdminListener> {
    Router::new()
        .route("/health", get(get_health))
        .route("/ready", get(get_readiness))
        .route("/metrics", get(get_metrics))
}

fn served(routes: Router<AdminListener>, admin: AdminListener) -> Router {
    routes.layer(from_fn_with_state(admin.clone(), log_request)).with_state(admin)
}

#[derive(serde::Serialize)]
struct Liveness {
    status: &'static str,
    version: &'static str,
}

/// Liveness: the process responds. A supervisor checks it before it starts another process.
async fn get_health() -> axum::Json<Liveness> {
    axum::Json(Liveness { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Gives each request an id, a log line and the headers of every response, as the public listener
/// does.
async fn log_request(
    State(admin): State<AdminListener>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let state = &admin.state;
    let make = || RequestId::new(state.clock.now(), state.random.bytes());
    let label = RequestLabel::of(request.headers(), make);
    let mut line = LineOnDrop::new(&mut request, &label, peer.ip().to_canonical());
    RequestRecord::note_route(request.extensions());
    let mut response = next.run(request).await;
    line.respond(&response);
    label.put(response.headers_mut());
    security_headers::put(response.headers_mut(), false);
    response
}

#[derive(serde::Serialize)]
struct Readiness {
    ready: bool,
    database: bool,
    stopping: bool,
    holds_waiting: usize,
    resolutions_waiting: usize,
    oldest_waiting_ms: u64,
}

/// The time that a probe waits for the database.
const READINESS_TIMEOUT: Duration = Duration::from_millis(900);
/// A node whose metering has waited longer than this for the database is not ready.
const METERING_AGE_MAX: Duration = Duration::from_secs(5);

/// Whether this node should receive requests: the database accepts holds, and the node is not
/// stopping. Responds within a second, whatever the database does.
async fn get_readiness(State(admin): State<AdminListener>) -> Response {
    let state = &admin.state;
    let metering = state.meter.stats();
    let database = state.store.is_healthy() && metering.oldest < METERING_AGE_MAX && {
        let read = store::nodes::setting(&state.store, "ready");
        matches!(tokio::time::timeout(READINESS_TIMEOUT, read).await, Ok(Ok(_)))
    };
    let stopping = state.is_stopping();
    let ready = database && !stopping;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = Readiness {
        ready,
        database,
        stopping,
        holds_waiting: metering.holds_waiting,
        resolutions_waiting: metering.resolutions_waiting,
        oldest_waiting_ms: u64::try_from(metering.oldest.as_millis()).unwrap_or(u64::MAX),
    };
    (status, axum::Json(body)).into_response()
}

async fn get_metrics(State(admin): State<AdminListener>) -> Response {
    runtime::metrics::sample(&sample(&admin.state, admin.connections.counts()));
    match &admin.metrics {
        Some(handle) => handle.render().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn run_command(
    State(admin): State<AdminListener>,
    headers: HeaderMap,
    CommandBody(sent): CommandBody<StaffCommand>,
) -> Response {
    let caller = match operator_routes::identify(&admin.state, &headers).await {
        Ok(caller) => caller,
        Err(refused) => return refused,
    };
    let command = match sent {
        Ok(command) => command,
        Err(unreadable) => return unreadable.into_response(),
    };
    let needs = match &command {
        StaffCommand::GrantCredits { .. } => Some(Permission::TO_MOVE_MONEY),
        _ => None,
    };
    if let Err(refused) = caller.check(needs) {
        return refused;
    }
    let actor = caller.identity().actor();
    let state = admin.state.clone();
    let work = async move {
        let desk = StaffTools {
            actor: &actor,
            store: &state.store,
            vault: &state.vault,
            clock: &state.clock,
            random: &state.random,
            key_file: state.key_file.as_deref(),
            gift_days: state.config.credits.expiry.gift_days,
        };
        let done = staff::run(&desk, command).await;
        state.cache.forget_keys();
        done
    };
    match admin.state.tasks.on_control(work).await {
        Ok(Ok(done)) => axum::Json(done).into_response(),
        Ok(Err(error)) => refused(&error),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The hours that a reconciliation covers.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ReconcileRequest {
    hours: i64,
}

/// Compares the payment processor's last hours with the ledger.
async fn reconcile(
    State(admin): State<AdminListener>,
    headers: HeaderMap,
    CommandBody(sent): CommandBody<ReconcileRequest>,
) -> Response {
    let refused =
        |status: StatusCode, error: String| (status, axum::Json(Refused { error })).into_response();
    if !is_staff(&admin.state, &headers) {
        let error = "the admin token is missing or wrong".to_owned();
        return refused(StatusCode::UNAUTHORIZED, error);
    }
    let hours = match sent {
        Ok(wanted) => wanted.hours,
        Err(unreadable) => return unreadable.into_response(),
    };
    let state = admin.state.clone();
    let work = async move { billing::reconcile::run(&state.billing, hours).await };
    match admin.state.tasks.on_control(work).await {
        Ok(Ok(report)) => axum::Json(report).into_response(),
        Ok(Err(error)) => {
            let error = ApiError::from(error);
            refused(error.row().status, error.to_string())
        }
        Err(lost) => refused(StatusCode::INTERNAL_SERVER_ERROR, lost.to_string()),
    }
}

fn refused(error: &StaffError) -> Response {
    let status = match error {
        StaffError::EmailTaken
        | StaffError::Erased(_)
        | StaffError::OtherAmount { .. }
        | StaffError::ReferenceTaken(_) => StatusCode::CONFLICT,
        StaffError::NoCustomer(_)
        | StaffError::NoEmail(_)
        | StaffError::NoPermission(..)
        | StaffError::NoKey(_) => StatusCode::NOT_FOUND,
        StaffError::Amount(_) | StaffError::TooMany(_) => StatusCode::UNPROCESSABLE_ENTITY,
        StaffError::Store(_) | StaffError::Vault(_) | StaffError::KeyFile(_) => {
            tracing::error!(%error, "a staff command failed");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    (status, axum::Json(Refused { error: error.to_string() })).into_response()
}

/// The current values for the metrics.
fn sample(state: &NodeState, connections: ConnectionCounts) -> MetricSample {
    let metered = state.meter.stats();
    MetricSample {
        queued_operations: metered.holds_waiting + metered.resolutions_waiting,
        late_resolutions: metered.late_resolution_total,
        calls_in_flight: state.gateway.in_flight.running(),
        body_bytes: state.web.bodies.bytes_used(),
        spool_bytes: state.gateway.spool.bytes_used(),
        limited_keys: state.gateway.rate_limiter.keys(),
        connections_open: connections.open,
        connections_accepted: connections.accepted,
        connections_refused: connections.refused,
        connections_refused_by_address: connections.refused_by_ip,
        connections_closed_idle: connections.closed_idle,
        connections_closed_stalled: connections.closed_stalled,
    }
}
