//! The HTTP edge that the control plane, the console and the data plane share: it identifies the
//! caller, checks and limits the request, and turns failures into responses.
//!
//! This is the only place where a failure gets a status and a code.

pub mod auth;
pub mod byte_range;
pub mod control_limits;
pub mod created;
pub mod daily_tags;
pub mod error;
pub mod extract;
pub mod fields;
pub mod idempotency;
pub mod idempotency_key;
pub mod metered_headers;
pub mod middleware;
pub mod own_requests;
pub mod page;
pub mod request_log;
pub mod trial;
pub mod words;

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
use crate::daily_tags::DailyTags;

pub use crate::error::ApiError;
use crate::middleware::body::{self, BodyLimits, BodyPlace};
use crate::middleware::budget::{BudgetRoom, MemoryBudget};
use crate::middleware::real_ip::ClientAddress;
pub use transport::network_of;

/// The state of the HTTP edge. Clones share it.
#[derive(Clone)]
pub struct WebState(Arc<EdgeParts>);

/// The parts of [`WebState`] that the start provides.
pub struct WebParts {
    /// Holds keys, sessions and stored responses.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Makes ids.
    pub random: Random,
    /// Runs lookups off the data plane's cores.
    pub tasks: Tasks,
    /// Seals stored responses.
    pub vault: Arc<Vault>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The catalogue that fields of requests are checked against.
    pub catalog: Arc<Catalog>,
    /// Proxies whose forwarding headers are trusted.
    pub trusted_proxies: Vec<IpNetwork>,
}

/// The parts of [`WebState`].
pub struct EdgeParts {
    /// Holds keys, sessions and stored responses.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// Makes ids.
    pub random: Random,
    /// Runs lookups off the data plane's cores.
    pub tasks: Tasks,
    /// Seals stored responses.
    pub vault: Arc<Vault>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The catalogue that fields of requests are checked against.
    pub catalog: Arc<Catalog>,
    /// Rate limits of the control plane.
    pub control_limits: ControlLimits,
    /// How sessions are carried.
    pub cookies: CookiePolicy,
    /// Memory for buffered request bodies of customers.
    pub bodies: MemoryBudget,
    /// The same for requests without an identified caller, on open routes.
    pub open_bodies: MemoryBudget,
    /// How much each customer or network holds of that memory.
    body_holders: LoadMap<BodyHolder>,
    /// The tags that customers have used today.
    pub daily_tags: DailyTags,
}

/// Who holds buffered request bodies. Without an identified customer it is an IPv4 address or an
/// IPv6 /48.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BodyHolder {
    Customer(CustomerId),
    Network(IpAddr),
}

/// The customer that a request's body counts against, once its caller is identified.
#[derive(Debug, Clone, Copy)]
pub struct BodyOf(pub CustomerId);

impl WebState {
    /// Builds the edge from its parts.
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
            daily_tags: DailyTags::new(config.metering.tags_per_day_max),
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

    /// The memory that a customer's request bodies use.
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

    /// The limits for a body of at most `bytes_max` bytes.
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

    /// Reads the body of a control-plane request. It counts against the customer if one is
    /// identified, otherwise against the caller's network.
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
