//! Failures of what the service stands on, which knows nothing of responses.

use runtime::VaultError;
use runtime::tasks::LostTask;

use super::ApiError;

impl From<LostTask> for ApiError {
    fn from(lost: LostTask) -> Self {
        Self::Internal(lost.to_string())
    }
}

impl From<VaultError> for ApiError {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Store(error) => Self::Store(error),
            VaultError::NoDataKey => Self::CredentialError,
            other => Self::Internal(other.to_string()),
        }
    }
}
