//! The operator's commands on the admin listener, and who may run them: whoever has the admin
//! token, and staff whose key belongs to a customer with the permissions that the command needs.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use domain::customer::CustomerRef;
use domain::id::CustomerId;
use domain::key::{KeyScope, KeySecret};
use domain::staff::{OperatorName, Permission};
use failures::Failure;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, StatusCode};
use http_body::Frame;
use operators::{CustomerArchive, IncompleteArchive, OperatorCommand, OperatorIdentity};
use web::error::ApiError;

use crate::admin_access::{AdminListener, Refused, is_staff};
use crate::command_body::CommandBody;
use crate::start::operators_error;
use crate::state::NodeState;

/// The name of the person who works with the admin token, for audit lists.
const X_OPERATOR: HeaderName = HeaderName::from_static("x-operator");
/// The permissions with which a key is accepted here at all.
const OPERATING: [Permission; 3] =
    [Permission::CustomersRead, Permission::CustomersWrite, Permission::BillingWrite];

/// Who sent a command.
pub(crate) enum AdminCaller {
    /// Someone with the admin token.
    Operator(OperatorIdentity),
    /// A customer with permissions, by its key.
    Staff {
        /// The customer.
        customer: CustomerId,
        /// What it may do.
        permissions: Vec<Permission>,
        /// Whether its key may only read.
        is_read_only: bool,
    },
}

impl AdminCaller {
    /// Who it is, for audit lists.
    pub(crate) fn identity(&self) -> OperatorIdentity {
        match self {
            Self::Operator(identity) => identity.clone(),
            Self::Staff { customer, .. } => OperatorIdentity::Staff(*customer),
        }
    }

    /// Refuses staff without one of these permissions; `None` needs the admin token.
    #[expect(clippy::result_large_err, reason = "the refusal is sent as it is, once")]
    pub(crate) fn check(&self, needs: Option<&'static [Permission]>) -> Result<(), Response> {
        let Self::Staff { permissions, is_read_only, .. } = self else { return Ok(()) };
        let Some(needs) = needs else { return Err(unauthorized()) };
        if *is_read_only && needs != Permission::TO_VIEW_CUSTOMERS {
            return Err(refused(Failure::ReadOnlyKey));
        }
        if needs.iter().all(|needed| permissions.contains(needed)) {
            return Ok(());
        }
        Err(refused(Failure::MissingPermission(needs)))
    }
}

/// Identifies who sent a command, before the command is read.
pub(crate) async fn identify(
    state: &NodeState,
    headers: &HeaderMap,
) -> Result<AdminCaller, Response> {
    if is_staff(state, headers) {
        let name = match headers.get(X_OPERATOR) {
            Some(value) => Some(operator_name(value).ok_or_else(bad_name)?),
            None => None,
        };
        return Ok(AdminCaller::Operator(OperatorIdentity::of(name)));
    }
    match staff(state, headers).await {
        Ok(Some(staff)) => Ok(staff),
        Ok(None) => Err(unauthorized()),
        Err(error) => Err(refused(error.into())),
    }
}

fn operator_name(value: &http::HeaderValue) -> Option<OperatorName> {
    std::str::from_utf8(value.as_bytes()).ok()?.parse().ok()
}

/// The member of the staff whose key was sent.
async fn staff(
    state: &NodeState,
    headers: &HeaderMap,
) -> Result<Option<AdminCaller>, store::StoreError> {
    let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = sent.and_then(|text| text.strip_prefix("Bearer "));
    let Some(secret) = token.and_then(|text| KeySecret::parse(text).ok()) else { return Ok(None) };
    let found = store::keys::find_by_hash(&state.store, &secret.hash()).await?;
    let usable = found.filter(|it| it.is_usable(state.clock.now()) && !it.key.is_limited());
    let Some(key) = usable.map(|it| it.key) else { return Ok(None) };
    let permissions = store::customer_notices::permissions(&state.store, key.customer).await?;
    let is_operating = permissions.iter().any(|permission| OPERATING.contains(permission));
    Ok(is_operating.then_some(AdminCaller::Staff {
        customer: key.customer,
        permissions,
        is_read_only: key.scope != KeyScope::Full,
    }))
}

/// Runs a command.
pub(crate) async fn run_command(
    State(admin): State<AdminListener>,
    headers: HeaderMap,
    CommandBody(sent): CommandBody<OperatorCommand>,
) -> Response {
    let caller = match identify(&admin.state, &headers).await {
        Ok(caller) => caller,
        Err(refused) => return refused,
    };
    let command = match sent {
        Ok(command) => command,
        Err(unreadable) => return unreadable.into_response(),
    };
    if let Err(refused) = caller.check(Some(command.needs())) {
        return refused;
    }
    let (state, who) = (admin.state.operators.clone(), caller.identity());
    let work = async move { Box::pin(operators::run(&state, &who, command)).await };
    match admin.state.tasks.on_control(work).await {
        Ok(Ok(done)) => axum::Json(done).into_response(),
        Ok(Err(failure)) => refused(failure),
        Err(lost) => refused(lost.into()),
    }
}

/// The customer to be exported.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportRequest {
    customer: CustomerRef,
}

/// Sends everything that is stored about a customer, as an archive.
pub(crate) async fn export_customer(
    State(admin): State<AdminListener>,
    headers: HeaderMap,
    CommandBody(sent): CommandBody<ExportRequest>,
) -> Response {
    let caller = match identify(&admin.state, &headers).await {
        Ok(caller) => caller,
        Err(refused) => return refused,
    };
    let wanted = match sent {
        Ok(wanted) => wanted.customer,
        Err(unreadable) => return unreadable.into_response(),
    };
    if let Err(refused) = caller.check(Some(Permission::TO_VIEW_CUSTOMERS)) {
        return refused;
    }
    let state = &admin.state;
    let spawn = |work| state.tasks.spawn_control(work);
    match operators::export(&state.operators, &caller.identity(), &wanted, spawn).await {
        Ok(archive) => {
            let body = Body::new(ArchiveBody(archive));
            ([(CONTENT_TYPE, "application/zip")], body).into_response()
        }
        Err(failure) => refused(failure),
    }
}

/// An archive as the body of a response. One that stays incomplete breaks the connection off.
struct ArchiveBody(CustomerArchive);

impl http_body::Body for ArchiveBody {
    type Data = Bytes;
    type Error = IncompleteArchive;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, IncompleteArchive>>> {
        self.0.pieces.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

fn unauthorized() -> Response {
    let error = "the admin token is missing or wrong".to_owned();
    (StatusCode::UNAUTHORIZED, axum::Json(Refused { error })).into_response()
}

fn bad_name() -> Response {
    let error = format!("X-Operator: {}", domain::staff::InvalidOperatorName);
    (StatusCode::UNPROCESSABLE_ENTITY, axum::Json(Refused { error })).into_response()
}

/// A refusal with the code and the status that the failure has everywhere.
#[derive(serde::Serialize)]
struct RefusedCommand {
    code: &'static str,
    error: String,
}

fn refused(failure: Failure) -> Response {
    let error = operators_error(&failure);
    let row = ApiError::Failure(failure).row();
    if row.status.is_server_error() {
        tracing::error!(code = row.code, %error, "an operator's command failed");
    }
    (row.status, axum::Json(RefusedCommand { code: row.code, error })).into_response()
}
