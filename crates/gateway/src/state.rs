//! What the data plane uses, as one core sees it: what all cores share, and what the core has for itself.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::Arc;

use accounts::AccountsState;
use catalog::{Catalog, Route};
use clients::platform::breaker::RetryBudget;
use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId};
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use foldhash::fast::RandomState;
use http::HeaderValue;
use runtime::clock::{Clock, Random};
use runtime::tasks::{Calls, Tasks};
use runtime::vault::Vault;
use settings::Config;
use store::Store;
use store::metering::Meter;
use transport::{LoadCounter, LoadMap};
use web::WebState;
use web::middleware::budget::MemoryBudget;
use web::middleware::rate_limit::{RateLimiter, RateQuota};

use crate::account_entry::HealthBook;
use crate::cache::{EntryCache, EntryCaches};
use crate::in_flight::{InFlight, InFlightLimits};
use crate::routes::KnownRoute;
use crate::unlisted::UnlistedShapes;
use crate::upload::spool::UploadSpool;

/// Keys whose rate is remembered; beyond it new ones share one.
const LIMITED_KEYS_MAX: usize = 100_000;

/// The data plane as one core sees it. What each call counts in or copies is the core's own wherever it can be. A clone is
/// another handle to the same.
#[derive(Clone)]
pub struct GatewayState(Arc<GatewayCore>);

/// By platform and name.
type RouteTable = PerPlatform<HashMap<String, Arc<KnownRoute>, RandomState>>;

struct GatewayCore {
    shared: Arc<SharedGateway>,
    accounts: AccountsState,
    meter: Meter,
    calls: Calls,
    /// Keys and accounts used lately.
    remembered: Arc<EntryCache>,
    routes: RouteTable,
    /// The policy of the limit for keys, as responses tell it.
    rate_policy: HeaderValue,
}

/// What only the start knows of [`SharedGateway`].
pub struct GatewayParts {
    /// Where keys, accounts and calls are.
    pub store: Store,
    /// Holds and settles credits.
    pub meter: Meter,
    /// Which routes exist.
    pub catalog: Arc<Catalog>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The time.
    pub clock: Clock,
    /// Makes ids.
    pub random: Random,
    /// Opens credentials, seals stored responses.
    pub vault: Arc<Vault>,
    /// The HTTP edge.
    pub web: WebState,
    /// What the cores remember of keys and accounts.
    pub cache: Arc<EntryCaches>,
    /// Where the files of uploads wait.
    pub spool: UploadSpool,
    /// Every task.
    pub tasks: Tasks,
    /// Routes with which a call has succeeded at the start.
    pub verified: HashSet<(Platform, String)>,
}

/// What all cores share.
pub struct SharedGateway {
    /// Where keys, accounts and calls are.
    pub store: Store,
    /// Holds and settles credits.
    pub meter: Meter,
    /// Which routes exist.
    pub catalog: Arc<Catalog>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The time.
    pub clock: Clock,
    /// Makes ids.
    pub random: Random,
    /// Opens credentials, seals stored responses.
    pub vault: Arc<Vault>,
    /// The HTTP edge.
    pub web: WebState,
    /// What the cores remember of keys and accounts.
    pub cache: Arc<EntryCaches>,
    /// What was learnt about reaching accounts.
    pub(crate) health: HealthBook,
    /// What stands for paths that the catalogue does not list.
    pub(crate) unlisted: UnlistedShapes,
    /// Calls in flight.
    pub in_flight: InFlight<CustomerId, (CustomerId, CreatorId)>,
    /// Requests of each key.
    pub rate_limiter: RateLimiter<KeyId>,
    /// Second tries of reads.
    pub(crate) retry_budget: RetryBudget,
    /// Where the files of uploads wait.
    pub spool: UploadSpool,
    /// Bytes of responses buffered for their envelope.
    pub(crate) envelopes: MemoryBudget,
    /// Who holds responses that are buffered for their envelope.
    envelope_holders: LoadMap<CustomerId>,
    /// Every task.
    pub tasks: Tasks,
    /// Routes with which a call has succeeded at the start.
    verified: HashSet<(Platform, String)>,
}

/// What a customer holds of the room that all share.
#[derive(Debug)]
pub struct BuffersOf {
    /// Of that for request bodies.
    pub bodies: Arc<LoadCounter>,
    /// Of that for answers that are buffered for their envelope.
    pub envelopes: Arc<LoadCounter>,
}

impl SharedGateway {
    /// Puts the parts together.
    pub fn new(parts: GatewayParts) -> Self {
        let config = parts.config;
        let (limits, rates) = (&config.http.limits, &config.rate_limits);
        Self {
            health: HealthBook::new(),
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
            verified: parts.verified,
            config,
        }
    }

    /// What a customer holds of the room for bodies and for answers that must be buffered.
    pub fn buffers_of(&self, customer: CustomerId) -> BuffersOf {
        BuffersOf {
            bodies: self.web.bodies_of(customer),
            envelopes: self.envelope_holders.of(customer),
        }
    }

    /// Remembers the first success of a route.
    pub fn mark_verified(&self, platform: Platform, route: &Arc<KnownRoute>) {
        if !route.is_news() {
            return;
        }
        let (store, now, route) = (self.store.clone(), self.clock.now(), Arc::clone(route));
        self.tasks.spawn_control(async move {
            let name = route.name();
            if let Err(error) = store::routes::mark_verified(&store, platform, name, now).await {
                tracing::warn!(%error, "a verified route could not be remembered");
            }
        });
    }
}

fn known_routes(catalog: &Catalog, verified: &HashSet<(Platform, String)>) -> RouteTable {
    let of_platform = |platform: Platform| {
        let routes = catalog.platform(platform).routes().iter();
        let known =
            |name: &String| KnownRoute::new(name, verified.contains(&(platform, name.clone())));
        routes.map(|route| (route.name.clone(), Arc::new(known(&route.name)))).collect()
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
    /// The data plane as work beside the listener sees it.
    pub fn new(shared: Arc<SharedGateway>, accounts: AccountsState) -> Self {
        let meter = shared.meter.clone();
        Self::with_meter(shared, accounts, meter)
    }

    /// The same for a core with a runtime of its own, on which this is called: what its calls wait for is handed out there.
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

    /// How this core reaches platforms.
    pub fn accounts(&self) -> &AccountsState {
        &self.0.accounts
    }

    /// What this core remembers of keys and accounts.
    pub(crate) fn remembered(&self) -> &EntryCache {
        &self.0.remembered
    }

    /// What is known of a route, without copying it for each call.
    pub(crate) fn known_route(&self, platform: Platform, route: &Route) -> Arc<KnownRoute> {
        let known = self.0.routes.get(platform).and_then(|routes| routes.get(&route.name));
        known.map_or_else(|| Arc::new(KnownRoute::new(&route.name, false)), Arc::clone)
    }

    /// The policy of the limit for keys, as responses tell it.
    pub(crate) fn rate_policy(&self) -> HeaderValue {
        self.0.rate_policy.clone()
    }

    /// Holds and settles credits, for calls that run on this core.
    pub(crate) fn meter(&self) -> &Meter {
        &self.0.meter
    }

    /// The calls that are going on on this core.
    pub(crate) fn calls(&self) -> &Calls {
        &self.0.calls
    }
}

impl axum::extract::FromRef<GatewayState> for WebState {
    fn from_ref(gateway: &GatewayState) -> Self {
        gateway.web.clone()
    }
}
