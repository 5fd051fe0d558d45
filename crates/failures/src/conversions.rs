//! Conversions from the errors of lower layers.

use processor_client::ProcessorError;
use runtime::VaultError;
use runtime::tasks::LostTask;
use storage::StorageError;

use crate::{ExportProblem, Failure, FieldProblem};

impl From<LostTask> for Failure {
    fn from(lost: LostTask) -> Self {
        Self::Internal(lost.to_string())
    }
}

impl From<VaultError> for Failure {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Store(error) => Self::Store(error),
            VaultError::NoDataKey => Self::CredentialError,
            other => Self::Internal(other.to_string()),
        }
    }
}

impl From<FieldProblem> for Failure {
    fn from(problem: FieldProblem) -> Self {
        Self::Invalid(vec![problem])
    }
}

impl From<ProcessorError> for Failure {
    fn from(error: ProcessorError) -> Self {
        Self::Payment(error.into())
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Export(ExportProblem::Storage(error))
    }
}
