//! The HTTP edge that the control plane, the console and the data plane share: who is calling, what a request says, how
//! much of it is taken, and how failures become responses.
//!
//! This is the only place where a failure gets a status and a code.

pub mod auth;
pub mod control_limits;
pub mod created;
pub mod error;
pub mod extract;
pub mod fields;
pub mod idempotency;
pub mod idempotency_key;
pub mod middleware;
pub mod own_requests;
pub mod request_log;
pub mod trial;

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use catalog::Catalog;
use domain::id::CustomerId;
use runtime::clock::{Clock, Random};
use runtime::tasks::Tasks;
use runtime::vault::Vault;
use settings::Config;
use store::Store;
use transport::{IpNetwork, LoadCounter, LoadMap, site_of};

use crate::auth::cookie::CookiePolicy;
use crate::auth::csrf::OwnPages;
use crate::control_limits::ControlLimits;

pub use crate::error::ApiError;
use crate::middleware::body::{self, BodyLimits, BodyPlace};
use crate::middleware::budget::{BudgetRoom, MemoryBudget};
use crate::middleware::real_ip::ClientAddress;
pub use transport::network_of;

/// What the HTTP edge uses. A clone is another handle to the same.
#[derive(Clone)]
pub struct WebState(Arc<EdgeParts>);

/// What only the start knows of [`WebState`].
pub struct WebParts {
    /// Where keys, sessions and stored responses are.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Makes ids.
    pub random: Random,
    /// Where look-ups run that a core does not do itself.
    pub tasks: Tasks,
    /// Seals stored responses.
    pub vault: Arc<Vault>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// What fields of requests are checked against.
    pub catalog: Arc<Catalog>,
    /// Proxies that are believed.
    pub trusted_proxies: Vec<IpNetwork>,
}

/// The parts of [`WebState`].
pub struct EdgeParts {
    /// Where keys, sessions and stored responses are.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Makes ids.
    pub random: Random,
    /// Where look-ups run that a core does not do itself.
    pub tasks: Tasks,
    /// Seals stored responses.
    pub vault: Arc<Vault>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// What fields of requests are checked against.
    pub catalog: Arc<Catalog>,
    /// Requests of the control plane.
    pub control_limits: ControlLimits,
    /// How sessions travel.
    pub cookies: CookiePolicy,
    /// Bytes of buffered request bodies of customers.
    pub bodies: MemoryBudget,
    /// The same for requests without a known caller, on open routes.
    pub open_bodies: MemoryBudget,
    /// Who holds buffered bodies.
    body_holders: LoadMap<BodyHolder>,
}

/// Who holds buffered request bodies: an IPv4 address or an IPv6 /48 where no customer is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BodyHolder {
    Customer(CustomerId),
    Network(IpAddr),
}

/// Whose the body of a request is, once its caller is known.
#[derive(Debug, Clone, Copy)]
pub struct BodyOf(pub CustomerId);

impl WebState {
    /// The edge with these parts.
    pub fn new(parts: WebParts) -> Self {
        let WebParts { store, clock, random, tasks, vault, config, catalog, trusted_proxies } =
            parts;
        let limits = &config.http.limits;
        let edge = EdgeParts {
            control_limits: ControlLimits::new(&config.rate_limits, trusted_proxies),
            cookies: CookiePolicy::of(&config.http.public_base_url),
            bodies: MemoryBudget::new(
                limits.native_bodies_bytes_max,
                limits.native_bodies_per_customer_bytes_max,
            ),
            open_bodies: MemoryBudget::new(
                limits.open_bodies_bytes_max,
                limits.open_bodies_per_network_bytes_max,
            ),
            body_holders: LoadMap::new(),
            store,
            clock,
            random,
            tasks,
            vault,
            config,
            catalog,
        };
        Self(Arc::new(edge))
    }

    /// What a customer holds of the room for request bodies.
    pub fn bodies_of(&self, customer: CustomerId) -> Arc<LoadCounter> {
        self.body_holders.of(BodyHolder::Customer(customer))
    }

    /// The pages that may use a session.
    pub fn own_pages(&self) -> OwnPages<'_> {
        OwnPages {
            public_base_url: &self.config.http.public_base_url,
            allowed_hosts: &self.config.http.allowed_hosts,
        }
    }

    /// What a request's body of at most so many bytes may be.
    pub fn body_limits(&self, bytes_max: usize) -> BodyLimits {
        let timeouts = &self.config.http.timeouts;
        BodyLimits {
            bytes_max,
            grace: Duration::from_millis(timeouts.body_grace_ms),
            total: Duration::from_millis(timeouts.body_ms),
            kept: BodyPlace::InMemory,
        }
    }

    /// The same for an upload, which has more time.
    pub fn upload_limits(&self, bytes_max: usize) -> BodyLimits {
        let total = Duration::from_millis(self.config.http.timeouts.upload_ms);
        BodyLimits { total, kept: BodyPlace::OnDisk, ..self.body_limits(bytes_max) }
    }

    /// Reads the body of a request of the control plane, in the room of its caller: of the customer if one is known, and
    /// otherwise of its network.
    pub async fn read_body(
        &self,
        extensions: &http::Extensions,
        body: axum::body::Body,
        bytes_max: usize,
    ) -> Result<bytes::Bytes, ApiError> {
        let (budget, holder) = if let Some(BodyOf(customer)) = extensions.get() {
            (&self.bodies, BodyHolder::Customer(*customer))
        } else {
            let ip = extensions
                .get::<ClientAddress>()
                .map_or(Ipv4Addr::UNSPECIFIED.into(), |client| client.ip);
            (&self.open_bodies, BodyHolder::Network(site_of(ip).unwrap_or(ip)))
        };
        let holder = self.body_holders.of(holder);
        let room = BudgetRoom { budget, holder: &holder };
        Ok(body::read_body(body, &self.body_limits(bytes_max), room).await?.bytes)
    }
}

impl Deref for WebState {
    type Target = EdgeParts;

    fn deref(&self) -> &EdgeParts {
        &self.0
    }
}
