//! The state of the data plane, as one core sees it: what all cores share, and what the core has
//! for itself.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use accounts::AccountsState;
use catalog::{Catalog, Route};
use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId};
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use foldhash::fast::RandomState;
use http::HeaderValue;
use platform_client::breaker::RetryBudget;
use runtime::clock::{Clock, Random};
use runtime::tasks::{CallTracker, Tasks};
use runtime::vault::Vault;
use settings::Config;
use store::Store;
use store::metering::Meter;
use transport::{LoadCounter, LoadMap};
use web::WebState;
use web::middleware::budget::MemoryBudget;
use web::middleware::rate_limit::{RateLimiter, RateQuota};

use crate::account_cookies::CookieBook;
use crate::account_entry::HealthBook;
use crate::cache::{EntryCache, EntryCaches};
use crate::in_flight::{InFlight, InFlightLimits};
use crate::routes::KnownRoute;
use crate::unlisted::UnlistedShapes;
use crate::upload::spool::UploadSpool;

/// The number of keys with a rate limit of their own; further keys share one.
const LIMITED_KEYS_MAX: usize = 100_000;

/// The data plane as one core sees it. Counters and caches that each call uses belong to the core
/// where possible. Cloning it is cheap.
#[derive(Clone)]
pub struct GatewayState(Arc<GatewayCore>);

/// Routes by platform and name.
type RouteTable = PerPlatform<HashMap<String, Arc<KnownRoute>, RandomState>>;

struct GatewayCore {
    shared: Arc<SharedGateway>,
    accounts: AccountsState,
    meter: Meter,
    calls: CallTracker,
    /// Recently used keys and accounts.
    remembered: Arc<EntryCache>,
    routes: RouteTable,
    /// The policy of the rate limit for keys, as a response header.
    rate_policy: HeaderValue,
}

/// What [`SharedGateway`] is built from.
pub struct GatewayParts {
    /// Stores keys, accounts and calls.
    pub store: Store,
    /// Holds and settles credits.
    pub meter: Meter,
    /// The routes of each platform.
    pub catalog: Arc<Catalog>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// Tells the time.
    pub clock: Clock,
    /// Generates ids.
    pub random: Random,
    /// Opens credentials and seals stored responses.
    pub vault: Arc<Vault>,
    /// The HTTP edge.
    pub web: WebState,
    /// The caches of keys and accounts on all cores.
    pub cache: Arc<EntryCaches>,
    /// Stores the files of uploads until they are sent.
    pub spool: UploadSpool,
    /// Runs background tasks.
    pub tasks: Tasks,
    /// The platforms, as work beside the listener reaches them.
    pub beside: AccountsState,
    /// Routes that had a successful call before this start.
    pub verified: HashSet<(Platform, String)>,
}

/// What all cores share.
pub struct SharedGateway {
    /// Stores keys, accounts and calls.
    pub store: Store,
    /// Holds and settles credits.
    pub meter: Meter,
    /// The routes of each platform.
    pub catalog: Arc<Catalog>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// Tells the time.
    pub clock: Clock,
    /// Generates ids.
    pub random: Random,
    /// Opens credentials and seals stored responses.
    pub vault: Arc<Vault>,
    /// The HTTP edge.
    pub web: WebState,
    /// The caches of keys and accounts on all cores.
    pub cache: Arc<EntryCaches>,
    /// The health of accounts: breakers, pauses and refreshes.
    pub(crate) health: HealthBook,
    /// The cookies of accounts whose platforms set some.
    pub(crate) cookies: CookieBook,
    /// The names of paths that the catalogue does not list.
    pub(crate) unlisted: UnlistedShapes,
    /// Calls in flight.
    pub in_flight: InFlight<CustomerId, (CustomerId, CreatorId)>,
    /// The rate limit of each key.
    pub rate_limiter: RateLimiter<KeyId>,
    /// Limits the retries of reads.
    pub(crate) retry_budget: RetryBudget,
    /// Stores the files of uploads until they are sent.
    pub spool: UploadSpool,
    /// Bytes of responses buffered for their envelope.
    pub(crate) envelopes: MemoryBudget,
    /// Each customer's share of those bytes.
    envelope_holders: LoadMap<CustomerId>,
    /// Runs background tasks.
    pub tasks: Tasks,
    /// The platforms, as work reaches them that goes on when the cores have stopped.
    pub(crate) beside: AccountsState,
    /// Routes that had a successful call before this start.
    verified: HashSet<(Platform, String)>,
}

/// A customer's share of the memory budgets.
#[derive(Debug)]
pub struct BuffersOf {
    /// Its share for request bodies.
    pub bodies: Arc<LoadCounter>,
    /// Its share for responses that are buffered for their envelope.
    pub envelopes: Arc<LoadCounter>,
}

impl SharedGateway {
    /// Builds the shared state.
    pub fn new(parts: GatewayParts) -> Self {
        let config = parts.config;
        let (limits, rates) = (&config.http.limits, &config.rate_limits);
        Self {
            health: HealthBook::new(),
            cookies: CookieBook::new(),
            unlisted: UnlistedShapes::new(config.http.unlisted_shapes_max),
            in_flight: InFlight::new(InFlightLimits {
                process_max: limits.calls_in_flight_max,
                customer_max: limits.calls_per_customer_max,
                account_max: limits.calls_per_account_max,
            }),
            rate_limiter: RateLimiter::new(
                RateQuota::per_second(rates.per_key_per_second, rates.per_key_burst),
                LIMITED_KEYS_MAX,
            ),
            retry_budget: RetryBudget::default(),
            envelopes: MemoryBudget::new(
                limits.envelopes_bytes_max,
                limits.envelopes_per_customer_bytes_max,
            ),
            envelope_holders: LoadMap::new(),
            store: parts.store,
            meter: parts.meter,
            catalog: parts.catalog,
            clock: parts.clock,
            random: parts.random,
            vault: parts.vault,
            web: parts.web,
            cache: parts.cache,
            spool: parts.spool,
            tasks: parts.tasks,
            beside: parts.beside,
            verified: parts.verified,
            config,
        }
    }

    /// A customer's share of the memory for request bodies and for buffered responses.
    pub fn buffers_of(&self, customer: CustomerId) -> BuffersOf {
        BuffersOf {
            bodies: self.web.bodies_of(customer),
            envelopes: self.envelope_holders.of(customer),
        }
    }

    /// Stores the first success of a route.
    pub fn mark_verified(&self, platform: Platform, route: &Arc<KnownRoute>) {
        if !route.is_news() {
            return;
        }
        let (store, now, route) = (self.store.clone(), self.clock.now(), Arc::clone(route));
        self.tasks.spawn_control(async move {
            let name = route.name();
            if let Err(error) = store::routes::mark_verified(&store, platform, name, now).await {
                tracing::warn!(%error, "a verified route could not be recorded");
            }
        });
    }
}

fn known_routes(catalog: &Catalog, verified: &HashSet<(Platform, String)>) -> RouteTable {
    let of_platform = |platform: Platform| {
        let routes = catalog.platform(platform).routes().iter();
        let known = |(index, route): (usize, &Route)| {
            let is_verified = verified.contains(&(platform, route.name.clone()));
            (route.name.clone(), Arc::new(KnownRoute::listed(route, index, is_verified)))
        };
        routes.enumerate().map(known).collect()
    };
    PerPlatform::of_all(of_platform)
}

impl Deref for GatewayState {
    type Target = SharedGateway;

    fn deref(&self) -> &SharedGateway {
        &self.0.shared
    }
}

impl GatewayState {
    /// The data plane for work that does not belong to a listener's core.
    pub fn new(shared: Arc<SharedGateway>, accounts: AccountsState) -> Self {
        let meter = shared.meter.clone();
        Self::with_meter(shared, accounts, meter)
    }

    /// The data plane for a core with a runtime of its own. Call this on that runtime: it
    /// dispatches the outcomes of holds there.
    pub fn on_core(shared: Arc<SharedGateway>, accounts: AccountsState) -> Self {
        let (meter, dispatcher) = shared.meter.on_one_runtime();
        runtime::tasks::spawn_for_good(dispatcher.run());
        Self::with_meter(shared, accounts, meter)
    }

    fn with_meter(shared: Arc<SharedGateway>, accounts: AccountsState, meter: Meter) -> Self {
        Self(Arc::new(GatewayCore {
            accounts,
            meter,
            calls: shared.tasks.calls_of_a_core(),
            remembered: shared.cache.of_a_core(),
            routes: known_routes(&shared.catalog, &shared.verified),
            rate_policy: shared.rate_limiter.policy(),
            shared,
        }))
    }

    /// The platforms, as this core reaches them.
    pub fn accounts(&self) -> &AccountsState {
        &self.0.accounts
    }

    /// This core's cache of keys and accounts.
    pub(crate) fn remembered(&self) -> &EntryCache {
        &self.0.remembered
    }

    /// The shared entry of a route, so that calls need no copy.
    pub(crate) fn known_route(&self, platform: Platform, route: &Route) -> Arc<KnownRoute> {
        let known = self.0.routes.get(platform).and_then(|routes| routes.get(&route.name));
        known.map_or_else(|| Arc::new(KnownRoute::new(&route.name, false)), Arc::clone)
    }

    /// The policy of the rate limit for keys, as a response header.
    pub(crate) fn rate_policy(&self) -> HeaderValue {
        self.0.rate_policy.clone()
    }

    /// Holds and settles credits, for calls that run on this core.
    pub(crate) fn meter(&self) -> &Meter {
        &self.0.meter
    }

    /// The calls running on this core.
    pub(crate) fn calls(&self) -> &CallTracker {
        &self.0.calls
    }
}

impl axum::extract::FromRef<GatewayState> for WebState {
    fn from_ref(gateway: &GatewayState) -> Self {
        gateway.web.clone()
    }
}
