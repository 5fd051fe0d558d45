//! Signed links to finished files. Each is valid for one file, for five minutes, for GET and HEAD
//! only, on every node.

use domain::id::ExportId;
use domain::time::{MICROS_PER_SECOND, Timestamp};

use crate::ExportsState;

/// How long a link is valid, in seconds.
pub const VALID_FOR_S: i64 = 300;
/// The purpose from which the signing key is derived.
const PURPOSE: &str = "creator-gateway export link";

/// The content of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DownloadLink {
    /// The export.
    pub export: ExportId,
    /// The claim that wrote its file.
    pub token: i64,
    /// When it expires, in whole seconds since 1970.
    pub ends_at_s: i64,
}

impl DownloadLink {
    /// A link that is valid from now on.
    pub fn new(export: ExportId, token: i64, now: Timestamp) -> Self {
        Self { export, token, ends_at_s: now.unix_seconds().saturating_add(VALID_FOR_S) }
    }

    /// When it expires.
    pub const fn ends_at(&self) -> Timestamp {
        Timestamp::from_unix_micros(self.ends_at_s.saturating_mul(MICROS_PER_SECOND))
    }

    /// The address of the link.
    pub fn url(&self, exports: &ExportsState) -> Option<String> {
        let Self { export, token, ends_at_s } = *self;
        let signature = exports.vault.keyring().sign(PURPOSE, &self.text("GET"))?;
        let base = exports.config.http.public_base_url.trim_end_matches('/');
        Some(format!(
            "{base}/v1/exports/{export}/download?token={token}&exp={ends_at_s}&signature={signature}"
        ))
    }

    /// Whether the signature is valid and the link has not expired. Only GET and HEAD are routed to
    /// downloads.
    pub fn is_good(&self, exports: &ExportsState, signature: &str) -> bool {
        let is_signed = exports.vault.keyring().is_signed(PURPOSE, &self.text("GET"), signature);
        is_signed && exports.clock.now() < self.ends_at()
    }

    fn text(&self, method: &str) -> String {
        let Self { export, token, ends_at_s } = self;
        format!("v1\n{method}\n{export}\n{token}\n{ends_at_s}")
    }
}
