//! How the merchant's account is set up, and the one thing that is set up by request: the endpoint
//! for events.

use super::error::ProcessorError;
use super::form::FormParameters;
use super::objects::{
    ListPage, MerchantBalance, PortalConfiguration, TaxSettings, WebhookEndpoint,
};
use super::settings::API_VERSION;
use super::transport::{IdempotencyKey, ProcessorClient};

impl ProcessorClient {
    /// Lists the endpoints, newest first. The processor allows 16, so one page has all of them.
    pub async fn list_webhook_endpoints(&self) -> Result<Vec<WebhookEndpoint>, ProcessorError> {
        let form = FormParameters::new().with("limit", 100);
        let page: ListPage<WebhookEndpoint> = self.get(&["webhook_endpoints"], form).await?;
        Ok(page.data)
    }

    /// Makes an endpoint for events of these types, written in the version that this client speaks.
    /// Only this response has its signing secret.
    pub async fn create_webhook_endpoint(
        &self,
        url: &str,
        events: &[&str],
        key: &IdempotencyKey,
    ) -> Result<WebhookEndpoint, ProcessorError> {
        let form = of_events(FormParameters::new().with("url", url), events)
            .with("api_version", API_VERSION)
            .with("description", "creator-gateway");
        self.post(&["webhook_endpoints"], form, key).await
    }

    /// Switches an endpoint on, for events of these types instead of the ones before.
    pub async fn update_webhook_endpoint(
        &self,
        id: &str,
        events: &[&str],
        key: &IdempotencyKey,
    ) -> Result<WebhookEndpoint, ProcessorError> {
        let form = of_events(FormParameters::new().with("disabled", false), events);
        self.post(&["webhook_endpoints", id], form, key).await
    }

    /// Deletes an endpoint for good; no events are sent to it any more. One that is gone already is
    /// [`ProcessorError::Missing`].
    pub async fn delete_webhook_endpoint(
        &self,
        id: &str,
    ) -> Result<WebhookEndpoint, ProcessorError> {
        self.delete(&["webhook_endpoints", id]).await
    }

    /// Reads the mode of the secret key.
    pub async fn retrieve_balance(&self) -> Result<MerchantBalance, ProcessorError> {
        self.get(&["balance"], FormParameters::new()).await
    }

    /// Reads whether tax can be computed.
    pub async fn retrieve_tax_settings(&self) -> Result<TaxSettings, ProcessorError> {
        self.get(&["tax", "settings"], FormParameters::new()).await
    }

    /// Reads a configuration of the portal.
    pub async fn retrieve_portal_configuration(
        &self,
        id: &str,
    ) -> Result<PortalConfiguration, ProcessorError> {
        self.get(&["billing_portal", "configurations", id], FormParameters::new()).await
    }
}

fn of_events(form: FormParameters, events: &[&str]) -> FormParameters {
    events
        .iter()
        .enumerate()
        .fold(form, |form, (place, event)| form.with(format!("enabled_events[{place}]"), event))
}
