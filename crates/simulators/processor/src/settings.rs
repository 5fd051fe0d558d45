//! What the payment processor is started with.

/// Everything that can be chosen about the payment processor.
#[derive(Clone, Debug)]
pub struct ProcessorSettings {
    /// The key with which a server asks it.
    pub secret_key: String,
    /// The key with which a browser does.
    pub publishable_key: String,
    /// What its events are signed with, the prefix included.
    pub webhook_secret: String,
    /// Where its events go at first; see [`crate::ProcessorSimulator::set_webhook`].
    pub webhook_url: Option<String>,
    /// Whether its events wait until `POST /control/processor/deliver` asks for them.
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
