//! The settings of the simulated platforms.

/// All settings of the simulated platforms.
#[derive(Clone, Debug)]
pub struct PlatformSettings {
    /// The number of newest requests of each platform that are kept in memory for the control
    /// interface. With a data folder older ones are read from there.
    pub requests_kept: usize,
    /// The number of subscribers of each demo account, up to 5,000,000. They are computed on
    /// demand, so a large number costs no memory.
    pub subscribers: u64,
    /// The key of `platform_beta`'s signatures.
    pub beta_signing_key: String,
    /// The only `X-Client-Id` that `platform_beta` accepts.
    pub beta_client_id: String,
    /// The only `X-Client-Version` that `platform_beta` accepts.
    pub beta_client_version: String,
    /// The only `X-Api-Version` that `platform_delta` accepts.
    pub delta_version: String,
    /// The OAuth client that may exchange refresh tokens on `platform_delta`, and its secret.
    pub delta_client_id: String,
    /// See `delta_client_id`.
    pub delta_client_secret: String,
    /// How long an access token of `platform_delta` is valid, in seconds.
    pub delta_access_token_s: u32,
}

impl Default for PlatformSettings {
    fn default() -> Self {
        Self {
            requests_kept: 65_536,
            subscribers: 240,
            beta_signing_key: "sandbox-signing-key".to_owned(),
            beta_client_id: "sandbox-client".to_owned(),
            beta_client_version: "1.0.0".to_owned(),
            delta_version: "2025-06-26".to_owned(),
            delta_client_id: "creator-gateway".to_owned(),
            delta_client_secret: "sandbox-secret".to_owned(),
            delta_access_token_s: 3600,
        }
    }
}
