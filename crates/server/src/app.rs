//! Everything the service stands on, in one place: what a handler or a phase may use.

use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use axum::extract::FromRef;
use billing::low_balances::LowBalances;
use billing::plans;
use billing::{BillingParts, BillingState};
use catalog::{Catalog, Route};
use clients::mail::Mailer;
use clients::platform::breaker::RetryBudget;
use clients::platform::{Target, Upstream};
use clients::processor::Processor;
use clients::storage::Storage;
use domain::account::CreatorId;
use domain::id::{CustomerId, KeyId};
use domain::platform::Platform;
use domain::slot::Allowances;
use emails::EmailsState;
use failures::Failure;
use foldhash::fast::RandomState;
use http::HeaderValue;
use jobs::JobQueue;
use runtime::clock::{Clock, Random};
use runtime::tasks::{Calls, Tasks};
use runtime::vault::Vault;
use settings::Config;
use store::Store;
use store::metering::Meter;
use tokio::sync::Notify;
use transport::{Load, Loads, Network};
use web::error::ApiError;
use web::middleware::budget::Budget;
use web::middleware::framing::FrameRules;
use web::middleware::in_flight::{InFlight, InFlightLimits};
use web::middleware::network_limit::NetworkLimiter;
use web::middleware::rate_limit::{Quota, RateLimiter};
use web::{WebParts, WebState};

use crate::contract::Contract;
use crate::exports::worker::AtWork;
use crate::gateway::accounts::HealthBook;
use crate::gateway::cache::{Cache, Caches};
use crate::gateway::platform_health::PlatformHealth;
use crate::gateway::routes::KnownRoute;
use crate::gateway::unlisted::UnlistedShapes;
use crate::gateway::upload::spool::Spool;
use crate::login::LoginLimits;
use crate::mail_limits::MailLimits;
use crate::passwords::Hashing;
use crate::start;

/// Keys and networks whose rate is remembered; beyond it new ones share one.
const LIMITED_KEYS_MAX: usize = 100_000;

/// The service as one core sees it: what all share, and what the core has for itself, such as its upstream connections.
/// What each call counts in or copies is the core's own wherever it can be.
#[derive(Clone)]
pub(crate) struct App(Arc<Core>);

/// By platform and name.
type Routes = HashMap<Platform, HashMap<String, Arc<KnownRoute>, RandomState>, RandomState>;

struct Core {
    shared: Arc<Shared>,
    upstream: Upstream,
    meter: Meter,
    calls: Calls,
    /// Keys and accounts used lately.
    remembered: Arc<Cache>,
    routes: Routes,
    /// The policy of the limit for keys, as answers tell it.
    rate_policy: HeaderValue,
}

/// What all cores share.
pub(crate) struct Shared {
    /// What is remembered.
    pub(crate) store: Store,
    /// The books of calls.
    pub(crate) meter: Meter,
    /// Which routes exist.
    pub(crate) catalog: Arc<Catalog>,
    /// The configuration in force.
    pub(crate) config: Arc<Config>,
    /// How many accounts customers and plans have, beside what is paid for.
    pub(crate) allowances: Arc<Allowances>,
    /// The time.
    pub(crate) clock: Clock,
    /// Chance.
    pub(crate) random: Random,
    /// Master keys and data keys.
    pub(crate) vault: Arc<Vault>,
    /// Where the embedded default keeps its master keys.
    pub(crate) key_file: Option<PathBuf>,
    /// The platforms that are offered.
    pub(crate) targets: HashMap<Platform, Target, RandomState>,
    /// The HTTP edge.
    pub(crate) web: WebState,
    /// Payments.
    pub(crate) billing: BillingState,
    /// What emails say.
    pub(crate) emails: EmailsState,
    /// Where work that follows a commit is queued.
    pub(crate) jobs: JobQueue,
    /// What the cores remember of keys and accounts.
    pub(crate) cache: Arc<Caches>,
    /// What was learnt about reaching accounts.
    pub(crate) health: HealthBook,
    /// What stands for paths that the catalogue does not list.
    pub(crate) unlisted: UnlistedShapes,
    /// Which platforms refuse everybody's credentials.
    pub(crate) platform_health: PlatformHealth,
    /// Calls in flight.
    pub(crate) in_flight: InFlight<CustomerId, (CustomerId, CreatorId)>,
    /// Requests of each key.
    pub(crate) rate_limiter: RateLimiter<KeyId>,
    /// Registrations of each network.
    pub(crate) registrations: NetworkLimiter,
    /// Emails that may be asked for.
    pub(crate) mail_limits: MailLimits,
    /// Hands mails over.
    pub(crate) mailer: Mailer,
    /// Where finished exports and their spools lie.
    pub(crate) storage: Arc<Storage>,
    /// Wakes the workers of exports: there may be one.
    pub(crate) export_signal: Notify,
    /// The exports that this process works on.
    pub(crate) exports_at_work: AtWork,
    /// The contract, once somebody has asked for it.
    pub(crate) contract: OnceLock<Contract>,
    /// Rules for the head of every request.
    pub(crate) frame_rules: FrameRules,
    /// Proxies that are believed.
    pub(crate) trusted_proxies: Vec<Network>,
    /// Whether a key that comes through one of them must have come by https.
    pub(crate) keys_need_https: bool,
    /// Second tries of reads.
    pub(crate) retry_budget: RetryBudget,
    /// Where the files of uploads wait.
    pub(crate) spool: Spool,
    /// Bytes of answers buffered for their envelope.
    pub(crate) envelopes: Budget,
    /// Who holds answers that are buffered for their envelope.
    envelope_holders: Loads<CustomerId>,
    /// Every task.
    pub(crate) tasks: Tasks,
    /// The admin listener's token, as in force.
    pub(crate) admin_token: secrecy::SecretString,
    /// Logins that failed.
    pub(crate) login_limits: LoginLimits,
    /// Where passwords are hashed: few at a time, since it is slow on purpose.
    pub(crate) hashing: Hashing,
    stopping: AtomicBool,
    /// Routes with which a call has succeeded at the start.
    verified: HashSet<(Platform, String)>,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0.shared
    }
}

/// What a customer holds of the room that all share.
#[derive(Debug)]
pub(crate) struct BuffersOf {
    /// Of that for request bodies.
    pub(crate) bodies: Arc<Load>,
    /// Of that for answers that are buffered for their envelope.
    pub(crate) envelopes: Arc<Load>,
}

/// What only the start knows.
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) meter: Meter,
    pub(crate) catalog: Catalog,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) vault: Vault,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) targets: HashMap<Platform, Target, RandomState>,
    pub(crate) processor: Option<Processor>,
    pub(crate) low_balances: Arc<LowBalances>,
    pub(crate) mailer: Mailer,
    pub(crate) spool: Spool,
    pub(crate) storage: Storage,
    pub(crate) tasks: Tasks,
    pub(crate) admin_token: secrecy::SecretString,
    pub(crate) verified: HashSet<(Platform, String)>,
}

impl Shared {
    /// Puts the parts together.
    pub(crate) fn new(parts: Parts) -> Self {
        let limits = &parts.config.http.limits;
        let rates = &parts.config.rate_limits;
        let config = Arc::new(parts.config.clone());
        let vault = Arc::new(parts.vault);
        let cache = Arc::new(Caches::new(config.http.cores_in_force()));
        let allowances = Arc::new(plans::allowances(&config));
        let jobs = JobQueue::new(parts.clock.clone(), parts.random.clone());
        let emails = EmailsState {
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            vault: Arc::clone(&vault),
            config: Arc::clone(&config),
        };
        let billing = BillingState::new(BillingParts {
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            tasks: parts.tasks.clone(),
            config: Arc::clone(&config),
            allowances: Arc::clone(&allowances),
            processor: parts.processor,
            low_balances: parts.low_balances,
            jobs: jobs.clone(),
            cached: Arc::<Caches>::clone(&cache),
        });
        let catalog = Arc::new(parts.catalog);
        let web = WebState::new(WebParts {
            store: parts.store.clone(),
            clock: parts.clock.clone(),
            random: parts.random.clone(),
            tasks: parts.tasks.clone(),
            vault: Arc::clone(&vault),
            config: Arc::clone(&config),
            catalog: Arc::clone(&catalog),
            trusted_proxies: start::trusted_proxies(&parts.config),
        });
        Self {
            cache,
            web,
            billing,
            emails,
            jobs,
            health: HealthBook::new(),
            platform_health: PlatformHealth::default(),
            unlisted: UnlistedShapes::new(parts.config.http.unlisted_shapes_max),
            in_flight: InFlight::new(InFlightLimits {
                process_max: limits.calls_in_flight_max,
                customer_max: limits.calls_per_customer_max,
                account_max: limits.calls_per_account_max,
            }),
            rate_limiter: RateLimiter::new(
                Quota::per_second(rates.per_key_per_second, rates.per_key_burst),
                LIMITED_KEYS_MAX,
            ),
            registrations: NetworkLimiter::new(
                Quota::per_hour(rates.registrations_per_hour),
                LIMITED_KEYS_MAX,
            ),
            mail_limits: MailLimits::new(rates),
            storage: Arc::new(parts.storage),
            export_signal: Notify::new(),
            exports_at_work: AtWork::default(),
            mailer: parts.mailer,
            contract: OnceLock::new(),
            frame_rules: FrameRules::new(&parts.config.http.allowed_hosts)
                .with_head(limits.head_bytes_max, limits.headers_max),
            trusted_proxies: start::trusted_proxies(&parts.config),
            keys_need_https: parts.config.http.is_public_https()
                && !parts.config.http.trusted_proxies.is_empty(),
            stopping: AtomicBool::new(false),
            retry_budget: RetryBudget::default(),
            envelopes: Budget::new(
                limits.envelopes_bytes_max,
                limits.envelopes_per_customer_bytes_max,
            ),
            envelope_holders: Loads::new(),
            login_limits: LoginLimits::new(rates),
            hashing: Hashing::new(
                parts.config.passwords.at_once,
                parts.config.passwords.waiting_max,
            ),
            verified: parts.verified,
            store: parts.store,
            meter: parts.meter,
            catalog,
            allowances,
            config,
            clock: parts.clock,
            random: parts.random,
            vault,
            key_file: parts.key_file,
            targets: parts.targets,
            spool: parts.spool,
            tasks: parts.tasks,
            admin_token: parts.admin_token,
        }
    }

    /// Says that the service takes no more calls.
    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Whether the service is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    /// How to reach a platform, or that it is not offered.
    pub(crate) fn target(&self, platform: Platform) -> Result<&Target, ApiError> {
        self.targets.get(&platform).ok_or(ApiError::Failure(Failure::PlatformNotOffered(platform)))
    }

    /// What a customer holds of the room for bodies and for answers that must be buffered.
    pub(crate) fn buffers_of(&self, customer: CustomerId) -> BuffersOf {
        BuffersOf {
            bodies: self.web.bodies_of(customer),
            envelopes: self.envelope_holders.of(customer),
        }
    }

    /// Remembers the first success of a route.
    pub(crate) fn mark_verified(&self, platform: Platform, route: &Arc<KnownRoute>) {
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

fn known_routes(catalog: &Catalog, verified: &HashSet<(Platform, String)>) -> Routes {
    let of_platform = |platform: &Platform| {
        let routes = catalog.platform(*platform).routes().iter();
        let known =
            |name: &String| KnownRoute::new(name, verified.contains(&(*platform, name.clone())));
        routes.map(|route| (route.name.clone(), Arc::new(known(&route.name)))).collect()
    };
    Platform::ALL.iter().map(|platform| (*platform, of_platform(platform))).collect()
}

impl App {
    /// The service as a core with these upstream connections sees it.
    pub(crate) fn new(shared: Arc<Shared>, upstream: Upstream) -> Self {
        let meter = shared.meter.clone();
        Self::with_meter(shared, upstream, meter)
    }

    /// The same for a core with a runtime of its own, on which this is called: what its calls wait for is
    /// handed out there.
    pub(crate) fn on_core(shared: Arc<Shared>, upstream: Upstream) -> Self {
        let (meter, courier) = shared.meter.on_one_runtime();
        runtime::tasks::spawn_for_good(courier.run());
        Self::with_meter(shared, upstream, meter)
    }

    fn with_meter(shared: Arc<Shared>, upstream: Upstream, meter: Meter) -> Self {
        Self(Arc::new(Core {
            upstream,
            meter,
            calls: shared.tasks.calls_of_a_core(),
            remembered: shared.cache.of_a_core(),
            routes: known_routes(&shared.catalog, &shared.verified),
            rate_policy: shared.rate_limiter.policy(),
            shared,
        }))
    }

    /// What this core remembers of keys and accounts.
    pub(crate) fn remembered(&self) -> &Cache {
        &self.0.remembered
    }

    /// What is known of a route, without copying it for each call.
    pub(crate) fn known_route(&self, platform: Platform, route: &Route) -> Arc<KnownRoute> {
        let known = self.0.routes.get(&platform).and_then(|routes| routes.get(&route.name));
        known.map_or_else(|| Arc::new(KnownRoute::new(&route.name, false)), Arc::clone)
    }

    /// The policy of the limit for keys, as answers tell it.
    pub(crate) fn rate_policy(&self) -> HeaderValue {
        self.0.rate_policy.clone()
    }

    /// The books of calls, for those that run on this core.
    pub(crate) fn meter(&self) -> &Meter {
        &self.0.meter
    }

    /// The calls that are going on on this core.
    pub(crate) fn calls(&self) -> &Calls {
        &self.0.calls
    }

    /// This core's connections to the platforms.
    pub(crate) fn upstream(&self) -> &Upstream {
        &self.0.upstream
    }
}

impl FromRef<App> for WebState {
    fn from_ref(app: &App) -> Self {
        app.web.clone()
    }
}
