//! Builds the state of every part of the service.

use std::collections::HashSet;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use accounts::drift::DriftRule;
use accounts::pacing::{PaceBook, PaceQuota, PaceRule};
use accounts::platform_health::PlatformHealth;
use accounts::{AccountsState, PlatformTargets};
use api::{ApiParts, ApiState};
use billing::low_balances::LowBalances;
use billing::{BillingParts, BillingState, plans};
use catalog::Catalog;
use console_kit::ConsoleState;
use console_kit::service::ServiceRoutes;
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use domain::slot::AccountAllowances;
use emails::EmailsState;
use exports::at_work::AtWork;
use exports::{ExportsParts, ExportsState};
use gateway::cache::EntryCaches;
use gateway::state::{GatewayParts, GatewayState, SharedGateway};
use gateway::upload::spool::UploadSpool;
use identity::login_limits::LoginLimits;
use identity::mail_limits::MailLimits;
use identity::passwords::PasswordHashing;
use identity::{IdentityParts, IdentityState};
use jobs::JobQueue;
use mail::Mailer;
use operators::OperatorsState;
use pages::PagesState;
use platform_client::{PlatformClient, UpstreamSettings};
use processor_client::ProcessorClient;
use reference::{ReferenceParts, ReferenceState};
use runtime::clock::{Clock, Random};
use runtime::tasks::Tasks;
use runtime::vault::Vault;
use settings::Config;
use settings::pacing::{PaceSection, PacingSection};
use storage::Storage;
use store::Store;
use store::metering::Meter;
use tokio::sync::Notify;
use transport::IpNetwork;
use web::middleware::framing::FrameRules;
use web::middleware::network_limit::NetworkLimiter;
use web::middleware::rate_limit::RateQuota;
use web::{WebParts, WebState};

use crate::contract::ServedDocuments;
use crate::openapi;

/// The number of networks to remember for registrations; beyond it new ones share one quota.
const REGISTERING_NETWORKS_MAX: usize = 100_000;

/// One running service, as shared by all cores. Clones share it.
#[derive(Clone)]
pub(crate) struct NodeState(Arc<NodeParts>);

/// The service as one core sees it. Clones share it.
#[derive(Clone)]
pub(crate) struct CoreState(Arc<CoreParts>);

/// The parts of [`CoreState`].
pub(crate) struct CoreParts {
    /// What all cores share.
    pub(crate) node: NodeState,
    /// The data plane of this core.
    pub(crate) gateway: GatewayState,
}

/// The parts of [`NodeState`].
pub(crate) struct NodeParts {
    /// The database.
    pub(crate) store: Store,
    /// Holds and settles the credits of calls.
    pub(crate) meter: Meter,
    /// The catalogue of routes.
    pub(crate) catalog: Arc<Catalog>,
    /// The configuration in force.
    pub(crate) config: Arc<Config>,
    /// How many accounts customers and plans include, besides slots bought singly.
    allowances: Arc<AccountAllowances>,
    /// The time.
    pub(crate) clock: Clock,
    /// Makes ids and secrets.
    pub(crate) random: Random,
    /// Every task.
    pub(crate) tasks: Tasks,
    /// Master keys and data keys.
    pub(crate) vault: Arc<Vault>,
    /// The file of the embedded database's master keys.
    pub(crate) key_file: Option<PathBuf>,
    /// The admin listener's token.
    pub(crate) admin_token: secrecy::SecretString,
    /// The cores' caches of keys and accounts.
    pub(crate) cache: Arc<EntryCaches>,
    /// The HTTP edge.
    pub(crate) web: WebState,
    /// The part of the data plane that all cores share.
    pub(crate) gateway: Arc<SharedGateway>,
    /// The data plane for work beside the listener: exports, and calls from pages.
    pub(crate) beside: GatewayState,
    /// The look of pages.
    pub(crate) pages: PagesState,
    /// The documentation.
    pub(crate) reference: ReferenceState,
    /// Access to platforms for work beside the listener.
    pub(crate) accounts: AccountsState,
    /// Logins, passwords and links in emails.
    pub(crate) identity: IdentityState,
    /// Payments.
    pub(crate) billing: BillingState,
    /// Exports.
    pub(crate) exports: ExportsState,
    /// The operator's work.
    pub(crate) operators: OperatorsState,
    /// Writes emails.
    pub(crate) emails: EmailsState,
    /// The queue for work that follows a commit.
    pub(crate) jobs: JobQueue,
    /// Sends emails.
    pub(crate) mailer: Mailer,
    /// The operator's logo, read at the start.
    pub(crate) logo: Option<Arc<settings::brand_logo::BrandLogo>>,
    /// Limits registrations by network.
    pub(crate) registrations: Arc<NetworkLimiter>,
    /// The contract, each document generated at the first request for it.
    pub(crate) documents: ServedDocuments,
    /// Rules for the head of every request.
    pub(crate) frame_rules: FrameRules,
    /// Proxies whose forwarding headers are trusted.
    pub(crate) trusted_proxies: Vec<IpNetwork>,
    /// Whether keys and changes that came unencrypted from another machine are refused.
    pub(crate) needs_https: bool,
    stopping: AtomicBool,
}

/// What the start opens and the state is built from.
pub(crate) struct OpenedParts {
    pub(crate) store: Store,
    pub(crate) meter: Meter,
    pub(crate) catalog: Catalog,
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) vault: Vault,
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) targets: PlatformTargets,
    pub(crate) processor: Option<ProcessorClient>,
    pub(crate) low_balances: Arc<LowBalances>,
    pub(crate) mailer: Mailer,
    pub(crate) spool: UploadSpool,
    pub(crate) storage: Storage,
    pub(crate) tasks: Tasks,
    pub(crate) admin_token: secrecy::SecretString,
    pub(crate) verified: HashSet<(Platform, String)>,
}

/// What the states of all services share.
struct Foundation {
    store: Store,
    clock: Clock,
    random: Random,
    tasks: Tasks,
    config: Arc<Config>,
    catalog: Arc<Catalog>,
    vault: Arc<Vault>,
    allowances: Arc<AccountAllowances>,
    cache: Arc<EntryCaches>,
    jobs: JobQueue,
}

impl Foundation {
    fn web(&self) -> WebState {
        WebState::new(WebParts {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            tasks: self.tasks.clone(),
            vault: Arc::clone(&self.vault),
            config: Arc::clone(&self.config),
            catalog: Arc::clone(&self.catalog),
            trusted_proxies: self.config.http.trusted_networks(),
        })
    }

    fn emails(&self) -> EmailsState {
        EmailsState {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            vault: Arc::clone(&self.vault),
            config: Arc::clone(&self.config),
        }
    }

    fn identity(&self) -> IdentityState {
        let (rates, passwords) = (&self.config.rate_limits, &self.config.passwords);
        IdentityState::new(IdentityParts {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            vault: Arc::clone(&self.vault),
            jobs: self.jobs.clone(),
            cached: Arc::<EntryCaches>::clone(&self.cache),
            login_limits: LoginLimits::new(rates),
            mail_limits: MailLimits::new(rates),
            hashing: PasswordHashing::new(passwords.at_once, passwords.waiting_max),
            config: Arc::clone(&self.config),
        })
    }

    fn billing(
        &self,
        processor: Option<ProcessorClient>,
        low_balances: Arc<LowBalances>,
    ) -> BillingState {
        BillingState::new(BillingParts {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            tasks: self.tasks.clone(),
            config: Arc::clone(&self.config),
            allowances: Arc::clone(&self.allowances),
            jobs: self.jobs.clone(),
            cached: Arc::<EntryCaches>::clone(&self.cache),
            processor,
            low_balances,
        })
    }

    fn operators(&self, billing: &BillingState) -> OperatorsState {
        OperatorsState {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            billing: billing.clone(),
        }
    }

    fn accounts(&self, targets: PlatformTargets) -> AccountsState {
        AccountsState {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            tasks: self.tasks.clone(),
            catalog: Arc::clone(&self.catalog),
            targets: Arc::new(targets),
            vault: Arc::clone(&self.vault),
            allowances: Arc::clone(&self.allowances),
            cached: Arc::<EntryCaches>::clone(&self.cache),
            paces: Arc::new(PaceBook::new(&pace_rules(&self.config))),
            platform_health: Arc::new(PlatformHealth::new(&self.catalog, drift_rule(&self.config))),
            upstream: connections(),
        }
    }

    fn gateway(
        &self,
        (web, accounts): (&WebState, &AccountsState),
        meter: Meter,
        spool: UploadSpool,
        verified: HashSet<(Platform, String)>,
    ) -> Arc<SharedGateway> {
        Arc::new(SharedGateway::new(GatewayParts {
            store: self.store.clone(),
            catalog: Arc::clone(&self.catalog),
            config: Arc::clone(&self.config),
            clock: self.clock.clone(),
            random: self.random.clone(),
            vault: Arc::clone(&self.vault),
            web: web.clone(),
            cache: Arc::clone(&self.cache),
            tasks: self.tasks.clone(),
            beside: accounts.clone(),
            meter,
            spool,
            verified,
        }))
    }

    fn reference(&self, pages: &PagesState) -> ReferenceState {
        let (catalog, config) = (Arc::clone(&self.catalog), Arc::clone(&self.config));
        ReferenceState::new(ReferenceParts {
            pages: pages.clone(),
            config: Arc::clone(&self.config),
            catalog: Arc::clone(&self.catalog),
            contract: Arc::new(move || openapi::own_document(&catalog, &config)),
        })
    }

    fn exports(&self, gateway: GatewayState, storage: Storage) -> ExportsState {
        ExportsState::new(ExportsParts {
            store: self.store.clone(),
            clock: self.clock.clone(),
            random: self.random.clone(),
            tasks: self.tasks.clone(),
            config: Arc::clone(&self.config),
            catalog: Arc::clone(&self.catalog),
            vault: Arc::clone(&self.vault),
            storage: Arc::new(storage),
            signal: Notify::new(),
            at_work: AtWork::default(),
            gateway,
        })
    }
}

/// How often an account of each platform may send requests.
fn pace_rules(config: &Config) -> PerPlatform<PaceRule> {
    let quota = |pace: PaceSection| {
        let burst = pace.burst;
        pace.unit_micros().map(|unit_micros| PaceQuota { unit_micros, burst })
    };
    let rule = |pacing: PacingSection| PaceRule {
        reads: quota(pacing.reads),
        writes: quota(pacing.writes),
        sensitive: quota(pacing.sensitive),
        max_wait_ms: i64::from(pacing.max_wait_ms),
        divide_by_nodes: pacing.divide_by_nodes,
    };
    config.platforms.iter().map(|(platform, section)| (platform, rule(section.pacing))).collect()
}

/// When a platform is degraded.
fn drift_rule(config: &Config) -> DriftRule {
    let section = &config.platform_drift;
    DriftRule {
        window_s: section.window_s,
        calls_min: section.calls_min,
        accounts_min: section.accounts_min,
        customers_min: section.customers_min,
        rise_percent: section.rise_percent,
        end_percent: section.end_percent,
        baseline_s: section.baseline_s,
    }
}

/// A connection pool for the platforms, with no connections open.
fn connections() -> Arc<PlatformClient> {
    Arc::new(PlatformClient::new(&UpstreamSettings::default()))
}

impl NodeState {
    /// Builds the state of every part.
    pub(crate) fn new(opened: OpenedParts) -> Self {
        let config = Arc::new(opened.config);
        let foundation = Foundation {
            allowances: Arc::new(plans::allowances(&config)),
            cache: Arc::new(EntryCaches::new(config.http.cores_in_force())),
            jobs: JobQueue::new(opened.clock.clone(), opened.random.clone()),
            catalog: Arc::new(opened.catalog),
            vault: Arc::new(opened.vault),
            store: opened.store,
            clock: opened.clock,
            random: opened.random,
            tasks: opened.tasks,
            config,
        };
        let web = foundation.web();
        let accounts = foundation.accounts(opened.targets);
        let (meter, parts) = (opened.meter.clone(), (&web, &accounts));
        let gateway = foundation.gateway(parts, meter, opened.spool, opened.verified);
        let beside = GatewayState::new(Arc::clone(&gateway), accounts.clone());
        let billing = foundation.billing(opened.processor, opened.low_balances);
        let (http, rates) = (&foundation.config.http, &foundation.config.rate_limits);
        let pages = PagesState::new(&foundation.config);
        Self(Arc::new(NodeParts {
            identity: foundation.identity(),
            operators: foundation.operators(&billing),
            billing,
            exports: foundation.exports(beside.clone(), opened.storage),
            reference: foundation.reference(&pages),
            pages,
            beside,
            emails: foundation.emails(),
            registrations: Arc::new(NetworkLimiter::new(
                RateQuota::per_hour(rates.registrations_per_hour),
                REGISTERING_NETWORKS_MAX,
            )),
            // The check of the configuration has read it before.
            logo: foundation.config.brand.logo().ok().flatten().map(Arc::new),
            documents: ServedDocuments::new(),
            frame_rules: FrameRules::new(&http.allowed_hosts)
                .with_head(http.limits.head_bytes_max, http.limits.headers_max),
            trusted_proxies: http.trusted_networks(),
            needs_https: http.is_public_https(),
            stopping: AtomicBool::new(false),
            meter: opened.meter,
            mailer: opened.mailer,
            key_file: opened.key_file,
            admin_token: opened.admin_token,
            web,
            accounts,
            gateway,
            store: foundation.store,
            clock: foundation.clock,
            random: foundation.random,
            tasks: foundation.tasks,
            catalog: foundation.catalog,
            vault: foundation.vault,
            allowances: foundation.allowances,
            cache: foundation.cache,
            jobs: foundation.jobs,
            config: foundation.config,
        }))
    }

    /// Marks the service as stopping, so that readiness fails.
    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Whether the service is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}

impl Deref for NodeState {
    type Target = NodeParts;

    fn deref(&self) -> &NodeParts {
        &self.0
    }
}

impl CoreState {
    /// The service for a core with its own runtime, which must be the calling one.
    pub(crate) fn on_core(node: NodeState) -> Self {
        let accounts = AccountsState { upstream: connections(), ..node.accounts.clone() };
        let gateway = GatewayState::on_core(Arc::clone(&node.gateway), accounts);
        Self(Arc::new(CoreParts { node, gateway }))
    }

    /// The state of the control plane on this core.
    pub(crate) fn api(&self) -> ApiState {
        let node = &self.node;
        ApiState::new(ApiParts {
            store: node.store.clone(),
            clock: node.clock.clone(),
            random: node.random.clone(),
            tasks: node.tasks.clone(),
            config: Arc::clone(&node.config),
            catalog: Arc::clone(&node.catalog),
            allowances: Arc::clone(&node.allowances),
            cached: Arc::<EntryCaches>::clone(&node.cache),
            jobs: node.jobs.clone(),
            registrations: Arc::clone(&node.registrations),
            web: node.web.clone(),
            identity: node.identity.clone(),
            accounts: self.gateway.accounts().clone(),
            billing: node.billing.clone(),
            exports: node.exports.clone(),
        })
    }

    /// The state of the console, which uses these routes.
    pub(crate) fn console(&self, routes: Arc<dyn ServiceRoutes>) -> ConsoleState {
        let node = &self.node;
        ConsoleState {
            store: node.store.clone(),
            random: node.random.clone(),
            routes,
            pages: node.pages.clone(),
            config: Arc::clone(&node.config),
            web: node.web.clone(),
            identity: node.identity.clone(),
            billing: node.billing.clone(),
            emails: node.emails.clone(),
            logo: node.logo.clone(),
        }
    }
}

impl Deref for CoreState {
    type Target = CoreParts;

    fn deref(&self) -> &CoreParts {
        &self.0
    }
}
