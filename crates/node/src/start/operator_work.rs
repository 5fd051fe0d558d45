//! The operator's commands without a running service.

use domain::customer::CustomerRef;
use failures::Failure;
use operators::{OperatorCommand, OperatorIdentity, OperatorOutcome};
use settings::Config;
use store::StoreError;

use super::error::StartError;
use super::open;

/// Runs an operator's command on the database, which must exist and not be held by a server.
pub async fn run_operator_command(
    config: Config,
    who: &OperatorIdentity,
    command: OperatorCommand,
) -> Result<OperatorOutcome, OperatorFailure> {
    let state = open::operators(config).await?;
    let done = Box::pin(operators::run(&state, who, command)).await;
    state.store.close().await;
    Ok(done?)
}

/// Exports a customer from the database, which must exist and not be held by a server. `write` gets
/// the pieces of the archive in order.
pub async fn export_customer(
    config: Config,
    who: &OperatorIdentity,
    customer: &CustomerRef,
    mut write: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), OperatorFailure> {
    let state = open::operators(config).await?;
    let tasks = state.billing.tasks.clone();
    let exported = async {
        let spawn = |work| tasks.spawn_control(work);
        let mut archive = operators::export(&state, who, customer, spawn).await?;
        while let Some(piece) = archive.pieces.recv().await {
            let piece = piece.map_err(|incomplete| Failure::Internal(incomplete.to_string()))?;
            write(&piece).map_err(|error| Failure::Internal(error.to_string()))?;
        }
        Ok::<_, Failure>(())
    };
    let exported = exported.await;
    tasks.control_ended().await;
    state.store.close().await;
    Ok(exported?)
}

/// Why an operator's command failed.
#[derive(Debug, thiserror::Error)]
pub enum OperatorFailure {
    /// The service's parts could not be opened.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The command was refused.
    #[error("{}", operators_error(.0))]
    Refused(#[from] Failure),
}

/// What the operator reads: all wrong fields, or the failure's own words.
pub(crate) fn operators_error(failure: &Failure) -> String {
    match failure {
        Failure::Invalid(problems) => {
            let named = |problem: &failures::FieldProblem| {
                format!("{}: {}", problem.loc.last().map_or("", String::as_str), problem.msg)
            };
            problems.iter().map(named).collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}

impl OperatorFailure {
    /// Whether a running server holds the embedded database; then send the command to that server.
    pub const fn is_held_by_a_server(&self) -> bool {
        matches!(self, Self::Start(StartError::Store(StoreError::InUse { .. })))
    }
}
