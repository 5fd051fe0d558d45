//! What the simulators are started with.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::clock::Clock;

/// Everything that can be chosen about the simulated platforms.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where the mail sink listens for SMTP; port 0 takes a free one.
    pub mail_listen: SocketAddr,
    /// The folder of the request logs and journals; it is made if it is missing. `None` keeps
    /// both in memory, and all that was written is gone when the process ends.
    pub data: Option<PathBuf>,
    /// How many requests of each platform are kept in memory for the control interface; the newest.
    /// With a data folder older ones are read from there.
    pub requests_kept: usize,
    /// What the world is generated from: the same seed gives the same world.
    pub seed: u64,
    /// How many subscribers each demo account has, up to 5,000,000. They are computed when they
    /// are asked for, so a large number costs no memory.
    pub subscribers: u64,
    /// The key that `platform_beta` signatures are made with.
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
    /// How many seconds an access token of `platform_delta` lasts after it was issued.
    pub delta_access_token_s: u32,
    /// The key with which a server asks the payment processor.
    pub processor_secret_key: String,
    /// The key with which a browser does.
    pub processor_publishable_key: String,
    /// What the payment processor's events are signed with, its prefix included.
    pub processor_webhook_secret: String,
    /// Where its events go at first; see [`crate::Running::set_processor_webhook`].
    pub processor_webhook_url: Option<String>,
    /// Whether its events wait until `POST /control/processor/deliver` asks for them.
    pub processor_events_held: bool,
    /// Where the time comes from.
    pub clock: Clock,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            mail_listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            data: None,
            requests_kept: 65_536,
            seed: 1,
            subscribers: 240,
            beta_signing_key: "sandbox-signing-key".to_owned(),
            beta_client_id: "sandbox-client".to_owned(),
            beta_client_version: "1.0.0".to_owned(),
            delta_version: "2025-06-26".to_owned(),
            delta_client_id: "creator-gateway".to_owned(),
            delta_client_secret: "sandbox-secret".to_owned(),
            delta_access_token_s: 3600,
            processor_secret_key: "sk_test_sandboxSecretKey".to_owned(),
            processor_publishable_key: "pk_test_sandboxPublishableKey".to_owned(),
            processor_webhook_secret: "whsec_sandboxWebhookSecretOfThePaymentProcessor".to_owned(),
            processor_webhook_url: None,
            processor_events_held: false,
            clock: Clock::system(),
        }
    }
}
