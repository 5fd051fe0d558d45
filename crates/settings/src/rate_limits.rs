//! `[rate_limits]`: how often a key, a customer, a network or an address may ask for something.

use super::ConfigProblem;

/// `[rate_limits]`: how often a key or an address may call; each node counts for itself.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitsSection {
    /// Requests of one key for each second, on average.
    pub per_key_per_second: u32,
    /// Requests of one key at once.
    pub per_key_burst: u32,
    /// Requests of the control plane with one key or session for each second, on average.
    pub control_per_key_per_second: u32,
    /// The same in one burst.
    pub control_per_key_burst: u32,
    /// Requests of the control plane from one network for each second, on average.
    pub control_per_network_per_second: u32,
    /// The same in one burst.
    pub control_per_network_burst: u32,
    /// Imports of accounts of one customer for each minute.
    pub imports_per_minute: u32,
    /// Changes of keys and of support access of one customer for each minute.
    pub key_changes_per_minute: u32,
    /// Requests of one customer that reach the payment processor for each minute.
    pub payment_requests_per_minute: u32,
    /// Requests of one customer to the service's own routes that come with an `Idempotency-Key`, for each minute.
    pub idempotency_keys_per_minute: u32,
    /// Registrations from one network for each hour.
    pub registrations_per_hour: u32,
    /// Wrong passwords for one mail address from one network for each hour.
    pub wrong_passwords_per_hour: u32,
    /// Logins from one network that fail for each hour, whatever the address.
    pub failed_logins_per_network_per_hour: u32,
    /// Logins to one address that fail for each hour, whatever the network.
    pub failed_logins_per_address_per_hour: u32,
    /// Emails of one purpose that one network (or, for a change of address, one customer) may cause to be sent to one
    /// address, for each hour.
    pub mails_per_address_per_hour: u32,
    /// Emails of one purpose to one address, whoever asks, for each hour.
    pub mails_per_address_in_all_per_hour: u32,
    /// Emails of one purpose that one network may ask for, for each hour.
    pub mails_per_network_per_hour: u32,
    /// Free trials that begin in one network on one UTC day.
    pub trials_per_network_per_day: u32,
    /// Free trials that begin under one mail domain on one UTC day.
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
            let message = "must be 2 or more: when an email is left out, the link of the one before must still work";
            problems.push(ConfigProblem::new("rate_limits.mails_per_address_per_hour", message));
        }
        if self.mails_per_address_in_all_per_hour < self.mails_per_address_per_hour {
            let message = "must be at least mails_per_address_per_hour";
            problems
                .push(ConfigProblem::new("rate_limits.mails_per_address_in_all_per_hour", message));
        }
    }
}
