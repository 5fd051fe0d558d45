//! How the merchant's account is set up: webhook endpoints, tax, and the mode of its keys.

use serde::Deserialize;

use super::{ObjectMetadata, or_default};

/// A destination of events.
#[derive(Debug, Clone, Deserialize)]
pub struct WebhookEndpoint {
    /// `we_…`
    pub id: String,
    /// Where events are sent.
    #[serde(default, deserialize_with = "or_default")]
    pub url: String,
    /// `enabled` or `disabled`.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
    /// The types of events that are sent; `*` is all of them.
    #[serde(default, deserialize_with = "or_default")]
    pub enabled_events: Vec<String>,
    /// The version in which events are written; none: the account's.
    #[serde(default)]
    pub api_version: Option<String>,
    /// The signing secret, only in the response that made it.
    #[serde(default)]
    pub secret: Option<String>,
    /// What we know it by.
    #[serde(default, deserialize_with = "or_default")]
    pub metadata: ObjectMetadata,
}

/// The merchant's money. Only the mode is read.
#[derive(Debug, Clone, Deserialize)]
pub struct MerchantBalance {
    /// Whether the key that read it is for real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
}

/// Whether the processor can compute tax.
#[derive(Debug, Clone, Deserialize)]
pub struct TaxSettings {
    /// `active`, or `pending` while something is missing.
    #[serde(default, deserialize_with = "or_default")]
    pub status: String,
}
