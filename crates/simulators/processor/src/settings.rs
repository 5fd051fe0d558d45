//! The settings of the payment processor.

/// All settings of the payment processor.
#[derive(Clone, Debug)]
pub struct ProcessorSettings {
    /// The secret key, which servers use.
    pub secret_key: String,
    /// The publishable key, which browsers use.
    pub publishable_key: String,
    /// The secret that signs its events, including its prefix.
    pub webhook_secret: String,
    /// The initial URL for its events; see [`crate::ProcessorSimulator::set_webhook`].
    pub webhook_url: Option<String>,
    /// Whether its events wait until `POST /control/processor/deliver` sends them.
    pub events_held: bool,
}

impl Default for ProcessorSettings {
    fn default() -> Self {
        Self {
            secret_key: "sk_test_sandboxSecretKey".to_owned(),
            publishable_key: "pk_test_sandboxPublishableKey".to_owned(),
            webhook_secret: "whsec_sandboxWebhookSecretOfThePaymentProcessor".to_owned(),
            webhook_url: None,
            events_held: false,
        }
    }
}
