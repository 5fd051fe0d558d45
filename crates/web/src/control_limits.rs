//! Rate limits of the control plane on this node: for each network, for each key or session, and,
//! for costly requests, for each customer: imports (which call a platform), changes of keys (which
//! stay in the audit list forever), requests to the payment processor, and requests with an
//! `Idempotency-Key` (whose responses are kept for a day).
//!
//! The first two are counted before any lookup. They count the credential as it was sent, so an
//! invalid one is limited as well.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use domain::id::{CustomerId, KeyId};
use domain::key::KeyHash;
use domain::time::Timestamp;
use domain::token::TokenHash;
use failures::Failure;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method};
use parking_lot::Mutex;
use settings::RateLimitsSection;
use transport::{IpNetwork, is_trusted};

use crate::auth::PresentedCredential;
use crate::error::ApiError;
use crate::middleware::network_limit::NetworkLimiter;
use crate::middleware::rate_limit::{NamedDecision, RateDecision, RateLimiter, RateQuota};
use crate::middleware::real_ip::ClientAddress;

/// The number of networks, credentials and customers to remember.
const REMEMBERED_MAX: usize = 100_000;
/// Not limited: load balancers call it.
const HEALTH: &str = "/health";

/// The limits.
pub struct ControlLimits {
    networks: NetworkLimiter,
    credentials: RateLimiter<Credential>,
    imports: RateLimiter<CustomerId>,
    key_changes: RateLimiter<QuotaShare>,
    payments: RateLimiter<CustomerId>,
    previews: RateLimiter<CustomerId>,
    keyed: RateLimiter<QuotaShare>,
    trusted_proxies: Vec<IpNetwork>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Credential {
    Key(KeyHash),
    Session(TokenHash),
}

/// Work that is limited for each customer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitedWork {
    /// It asks a platform to verify credentials.
    Import,
    /// It writes to the audit list, and makes every node read the customer's keys again.
    KeyChange,
    /// It changes something at the payment processor.
    Payment,
    /// It asks the payment processor for a price, or for the state of one payment.
    Preview,
}

/// Whose quota a request counts against. Sessions and keys without limits share the customer's. A
/// limited key has its own, so that it cannot use up the customer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QuotaShare {
    /// Who pays.
    pub customer: CustomerId,
    /// The key, if it is limited.
    pub limited_key: Option<KeyId>,
}

/// The limit that the response reports: the last one checked, which is the narrowest. It is in the
/// request's extensions, so that the code that identifies the caller can add to it.
#[derive(Debug, Clone, Default)]
pub struct ReportedLimits(Arc<Mutex<Option<NamedDecision>>>);

impl ReportedLimits {
    fn set(&self, named: NamedDecision) {
        *self.0.lock() = Some(named);
    }

    /// Writes it to the response headers.
    pub fn put_headers(&self, headers: &mut HeaderMap) {
        if let Some(named) = self.0.lock().take() {
            named.put_headers(headers);
        }
    }
}

impl ControlLimits {
    /// Creates the limits from these rates. Requests through these proxies count for the client
    /// behind them.
    pub fn new(rates: &RateLimitsSection, trusted_proxies: Vec<IpNetwork>) -> Self {
        let of_key =
            RateQuota::per_second(rates.control_per_key_per_second, rates.control_per_key_burst);
        let of_network = RateQuota::per_second(
            rates.control_per_network_per_second,
            rates.control_per_network_burst,
        );
        let of_customer =
            |per_minute| RateLimiter::new(RateQuota::per_minute(per_minute), REMEMBERED_MAX);
        let of_share =
            |per_minute| RateLimiter::new(RateQuota::per_minute(per_minute), REMEMBERED_MAX);
        Self {
            networks: NetworkLimiter::new(of_network, REMEMBERED_MAX),
            credentials: RateLimiter::new(of_key, REMEMBERED_MAX),
            imports: of_customer(rates.imports_per_minute),
            key_changes: of_share(rates.key_changes_per_minute),
            payments: of_customer(rates.payment_requests_per_minute),
            previews: of_customer(rates.payment_requests_per_minute),
            keyed: of_share(rates.idempotency_keys_per_minute),
            trusted_proxies,
        }
    }

    /// Counts a request for the network that it comes from, before any lookup.
    pub fn admit_network(
        &self,
        request: &Request,
        reported: &ReportedLimits,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        if request.uri().path() == HEALTH {
            return Ok(());
        }
        let client = request.extensions().get::<ClientAddress>();
        let counted = client.and_then(|client| self.counted_ip(*client));
        let Some(decision) = counted.and_then(|ip| self.networks.check(ip, now)) else {
            return Ok(());
        };
        judge(reported, decision, "network", self.networks.policy("network"))
    }

    /// Counts a request for its key or session, before any lookup.
    pub fn admit_credential(
        &self,
        request: &Request,
        cookie: &str,
        reported: &ReportedLimits,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        if request.uri().path() == HEALTH {
            return Ok(());
        }
        let credential = match PresentedCredential::of(request.headers(), cookie) {
            None => return Ok(()),
            Some(PresentedCredential::Key(hash)) => Credential::Key(hash),
            Some(PresentedCredential::Session(hash)) => Credential::Session(hash),
        };
        let decision = self.credentials.check(credential, 1, now);
        judge(reported, decision, "default", self.credentials.policy())
    }

    /// Counts the work that a request is about to do, if that is limited. Payment requests of
    /// limited keys are refused later and are not counted.
    pub fn admit_work(
        &self,
        parts: &Parts,
        share: QuotaShare,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let customer = share.customer;
        match LimitedWork::of(&parts.method, parts.uri.path()) {
            None => Ok(()),
            Some(LimitedWork::Payment | LimitedWork::Preview) if share.limited_key.is_some() => {
                Ok(())
            }
            Some(LimitedWork::Import) => count(parts, &self.imports, customer, "imports", now),
            Some(LimitedWork::KeyChange) => {
                count(parts, &self.key_changes, share, "key-changes", now)
            }
            Some(LimitedWork::Payment) => count(parts, &self.payments, customer, "payments", now),
            Some(LimitedWork::Preview) => count(parts, &self.previews, customer, "previews", now),
        }
    }

    /// Counts a request with an `Idempotency-Key`, whose response is kept for a day.
    pub fn admit_keyed(
        &self,
        parts: &Parts,
        share: QuotaShare,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        count(parts, &self.keyed, share, "idempotency-keys", now)
    }

    /// A proxy that does not name its client is not counted: all its clients would share one quota.
    fn counted_ip(&self, client: ClientAddress) -> Option<IpAddr> {
        (!is_trusted(client.ip, &self.trusted_proxies)).then_some(client.ip)
    }

    /// Removes the entries whose quota is full again. Called by housekeeping.
    pub fn forget_idle(&self, now: Timestamp) {
        self.networks.forget_idle(now);
        self.credentials.forget_idle(now);
        for customers in [&self.imports, &self.payments, &self.previews] {
            customers.forget_idle(now);
        }
        for shares in [&self.key_changes, &self.keyed] {
            shares.forget_idle(now);
        }
    }
}

/// Counts one against a quota, and reports the limit in the response.
fn count<K: Clone + Eq + Hash>(
    parts: &Parts,
    limiter: &RateLimiter<K>,
    taker: K,
    name: &'static str,
    now: Timestamp,
) -> Result<(), ApiError> {
    let reported = parts.extensions.get::<ReportedLimits>().cloned().unwrap_or_default();
    let decision = limiter.check(taker, 1, now);
    judge(&reported, decision, name, limiter.policy_named(name))
}

fn judge(
    reported: &ReportedLimits,
    decision: RateDecision,
    name: &'static str,
    policy: HeaderValue,
) -> Result<(), ApiError> {
    let retry_after_ms = decision.retry_after_ms;
    reported.set(NamedDecision { name, policy, decision });
    retry_after_ms.map_or(Ok(()), |retry_after_ms| {
        Err(ApiError::Failure(Failure::RateLimited { retry_after_ms }))
    })
}

impl LimitedWork {
    fn of(method: &Method, path: &str) -> Option<Self> {
        let below = |root: &str| {
            path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_change = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if is_change && path == "/v1/connect/import" {
            Some(Self::Import)
        } else if is_change && (below("/v1/auth/keys") || below("/v1/support-access")) {
            Some(Self::KeyChange)
        } else if path == "/v1/billing/estimate" {
            // Nothing is asked of the payment processor.
            None
        } else if below("/v1/billing") && is_change {
            Some(Self::Payment)
        } else if below("/v1/billing") && path.ends_with("/preview")
            || path.starts_with("/v1/billing/orders/")
        {
            Some(Self::Preview)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_requests_are_limited_for_each_customer() {
        let of = |method: Method, path: &str| LimitedWork::of(&method, path);

        assert_eq!(of(Method::POST, "/v1/connect/import"), Some(LimitedWork::Import));
        assert_eq!(of(Method::POST, "/v1/billing/estimate"), None);
        for (method, path) in [
            (Method::POST, "/v1/auth/keys"),
            (Method::POST, "/v1/auth/keys/rotate"),
            (Method::PATCH, "/v1/auth/keys/key_1"),
            (Method::DELETE, "/v1/auth/keys/key_1"),
            (Method::POST, "/v1/support-access"),
        ] {
            assert_eq!(of(method, path), Some(LimitedWork::KeyChange), "{path}");
        }
        for (method, path) in
            [(Method::POST, "/v1/billing/checkout"), (Method::DELETE, "/v1/billing/card")]
        {
            assert_eq!(of(method, path), Some(LimitedWork::Payment), "{path}");
        }
        for path in ["/v1/billing/slots/preview", "/v1/billing/orders/ord_1"] {
            assert_eq!(of(Method::GET, path), Some(LimitedWork::Preview), "{path}");
        }
        for path in
            ["/v1/auth/keys", "/v1/billing", "/v1/billing/orders", "/v1/accounts", "/v1/authkeys"]
        {
            assert_eq!(of(Method::GET, path), None, "{path}");
        }
        assert_eq!(of(Method::POST, "/v1/auth/keysmith"), None);
    }
}
