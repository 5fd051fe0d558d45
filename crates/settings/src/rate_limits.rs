//! `[rate_limits]`: how often a key, a customer, a network or an address may make requests.

use super::problem::ConfigProblem;

/// `[rate_limits]`: how often a key, a customer, a network or an address may make requests. Each
/// node counts by itself.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitsSection {
    /// Average requests per second of one key.
    pub per_key_per_second: u32,
    /// The burst of one key.
    pub per_key_burst: u32,
    /// Average control-plane requests per second of one key or session.
    pub control_per_key_per_second: u32,
    /// The burst of the same.
    pub control_per_key_burst: u32,
    /// Average control-plane requests per second from one network.
    pub control_per_network_per_second: u32,
    /// The burst of the same.
    pub control_per_network_burst: u32,
    /// Imports of accounts per minute of one customer.
    pub imports_per_minute: u32,
    /// Changes of keys and of support access per minute of one customer.
    pub key_changes_per_minute: u32,
    /// Requests per minute of one customer that reach the payment processor.
    pub payment_requests_per_minute: u32,
    /// Requests per minute of one customer to the service's own routes that have an
    /// `Idempotency-Key`.
    pub idempotency_keys_per_minute: u32,
    /// Registrations per hour from one network.
    pub registrations_per_hour: u32,
    /// Wrong passwords per hour for one email address from one network.
    pub wrong_passwords_per_hour: u32,
    /// Failed logins per hour from one network, to any address.
    pub failed_logins_per_network_per_hour: u32,
    /// Failed logins per hour to one address, from any network.
    pub failed_logins_per_address_per_hour: u32,
    /// Emails of one purpose per hour that one network (or, for a change of address, one customer)
    /// may cause to be sent to one address.
    pub mails_per_address_per_hour: u32,
    /// Emails of one purpose per hour to one address, whatever the source of the requests.
    pub mails_per_address_in_all_per_hour: u32,
    /// Emails of one purpose per hour that one network may request.
    pub mails_per_network_per_hour: u32,
    /// Free trials that start from one network per UTC day.
    pub trials_per_network_per_day: u32,
    /// Free trials that start under one email domain per UTC day.
    pub trials_per_domain_per_day: u32,
}

impl RateLimitsSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let positive = [
            ("per_key_per_second", self.per_key_per_second),
            ("per_key_burst", self.per_key_burst),
            ("control_per_key_per_second", self.control_per_key_per_second),
            ("control_per_key_burst", self.control_per_key_burst),
            ("control_per_network_per_second", self.control_per_network_per_second),
            ("control_per_network_burst", self.control_per_network_burst),
            ("imports_per_minute", self.imports_per_minute),
            ("key_changes_per_minute", self.key_changes_per_minute),
            ("payment_requests_per_minute", self.payment_requests_per_minute),
            ("idempotency_keys_per_minute", self.idempotency_keys_per_minute),
            ("registrations_per_hour", self.registrations_per_hour),
            ("wrong_passwords_per_hour", self.wrong_passwords_per_hour),
            ("failed_logins_per_network_per_hour", self.failed_logins_per_network_per_hour),
            ("failed_logins_per_address_per_hour", self.failed_logins_per_address_per_hour),
            ("mails_per_network_per_hour", self.mails_per_network_per_hour),
        ];
        for (key, value) in positive {
            if value == 0 {
                problems
                    .push(ConfigProblem::new(format!("rate_limits.{key}"), "must be above zero"));
            }
        }
        if self.mails_per_address_per_hour < 2 {
            let message = "must be 2 or more, so that the previous link still works when the limit stops an email";
            problems.push(ConfigProblem::new("rate_limits.mails_per_address_per_hour", message));
        }
        if self.mails_per_address_in_all_per_hour < self.mails_per_address_per_hour {
            let message = "must be at least mails_per_address_per_hour";
            problems
                .push(ConfigProblem::new("rate_limits.mails_per_address_in_all_per_hour", message));
        }
    }
}
