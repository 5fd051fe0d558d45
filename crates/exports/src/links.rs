//! Signed links to finished files: good for one file, for five minutes, for GET and HEAD alone, on every node.

use domain::id::ExportId;
use domain::time::{MICROS_PER_SECOND, Timestamp};

use crate::ExportsState;

/// So long a link is good, in seconds.
pub const VALID_FOR_S: i64 = 300;
/// What the signing key is derived for.
const PURPOSE: &str = "creator-gateway export link";

/// What a link says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownloadLink {
    /// The export.
    pub export: ExportId,
    /// The claim that made its file.
    pub token: i64,
    /// When it ends, in whole seconds since 1970.
    pub ends_at_s: i64,
}

impl DownloadLink {
    /// A link that is good from now on.
    pub fn new(export: ExportId, token: i64, now: Timestamp) -> Self {
        Self { export, token, ends_at_s: now.unix_seconds().saturating_add(VALID_FOR_S) }
    }

    /// When it ends.
    pub const fn ends_at(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.ends_at_s.saturating_mul(MICROS_PER_SECOND))
    }

    /// The address.
    pub fn url(&self, exports: &ExportsState) -> Option<String> {
        let Self { export, token, ends_at_s } = *self;
        let signature = exports.vault.keyring().sign(PURPOSE, &self.text("GET"))?;
        let base = exports.config.http.public_base_url.trim_end_matches('/');
        Some(format!(
            "{base}/v1/exports/{export}/download?token={token}&exp={ends_at_s}&signature={signature}"
        ))
    }

    /// Whether the signature is ours, and the link has not ended. Only GET and HEAD come to a download.
    pub fn is_good(&self, exports: &ExportsState, signature: &str) -> bool {
        let is_signed = exports.vault.keyring().is_signed(PURPOSE, &self.text("GET"), signature);
        is_signed && exports.clock.now() < self.ends_at()
    }

    fn text(&self, method: &str) -> String {
        let Self { export, token, ends_at_s } = self;
        format!("v1\n{method}\n{export}\n{token}\n{ends_at_s}")
    }
}
