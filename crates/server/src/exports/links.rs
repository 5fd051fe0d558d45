//! Signed links to finished files: good for one file, for five minutes, for GET and HEAD alone, on every node.

use domain::id::ExportId;
use domain::time::{MICROS_PER_SECOND, Timestamp};

use crate::app::App;

/// So long a link is good, in seconds.
pub(crate) const VALID_FOR_S: i64 = 300;
/// What the signing key is derived for.
const PURPOSE: &str = "creator-gateway export link";

/// What a link says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    /// The export.
    pub(crate) export: ExportId,
    /// The claim that made its file.
    pub(crate) token: i64,
    /// When it ends, in whole seconds since 1970.
    pub(crate) ends_at_s: i64,
}

impl Link {
    /// A link that is good from now on.
    pub(crate) fn new(export: ExportId, token: i64, now: Timestamp) -> Self {
        Self { export, token, ends_at_s: now.unix_seconds().saturating_add(VALID_FOR_S) }
    }

    /// When it ends.
    pub(crate) const fn ends_at(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.ends_at_s.saturating_mul(MICROS_PER_SECOND))
    }

    /// The address.
    pub(crate) fn url(&self, app: &App) -> Option<String> {
        let Self { export, token, ends_at_s } = *self;
        let signature = app.vault.keyring().sign(PURPOSE, &self.text("GET"))?;
        let base = app.config.http.public_base_url.trim_end_matches('/');
        Some(format!(
            "{base}/v1/exports/{export}/download?token={token}&exp={ends_at_s}&signature={signature}"
        ))
    }

    /// Whether the signature is ours, and the link has not ended. Only GET and HEAD come to a download.
    pub(crate) fn is_good(&self, app: &App, signature: &str) -> bool {
        let is_signed = app.vault.keyring().is_signed(PURPOSE, &self.text("GET"), signature);
        is_signed && app.clock.now() < self.ends_at()
    }

    fn text(&self, method: &str) -> String {
        let Self { export, token, ends_at_s } = self;
        format!("v1\n{method}\n{export}\n{token}\n{ends_at_s}")
    }
}
