//! Start and stop. Everything is opened, recovered and checked before the first request is
//! accepted.

mod background;
mod certificates;
mod database;
mod error;
mod listeners;
mod open;
mod operator_work;
mod retention;
mod signing_values;
mod stop;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::id::NodeId;
use domain::time::UtcDay;
use runtime::clock::{Clock, Random};
use runtime::vault::Vault;
use store::takeover::{TakenOver, TakeoverWatch};
use store::{Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use transport::BoundListener;

pub use self::certificates::CertificateReload;
use self::certificates::CertificateWatch;
use self::database::MissingParts;
pub use self::database::migrate;
pub use self::error::StartError;
use self::listeners::{listener_settings, probe_listener, serve_admin};
pub(crate) use self::operator_work::operators_error;
pub use self::operator_work::{OperatorFailure, export_customer, run_operator_command};
use crate::admin;
use crate::admin_access::{AdminListener, WrongTokens};
use crate::job_kinds;
use crate::router;
use crate::state::{CoreState, NodeState};
pub use billing::reconcile::{HOURS, HOURS_MAX, ReconciliationReport};
pub use billing::reconcile_rounds::{ReconciliationRounds, RoundOutcome};
use exports::pages;
use identity::staff::{self, StaffTools};
use jobs::JobRunner;
use operators::OperatorIdentity;
use runtime::metrics;
use settings::Config;
use web::auth::cookie::CookiePolicy;

/// A running service.
pub struct RunningService {
    state: NodeState,
    listener: transport::RunningListener,
    admin_address: SocketAddr,
    probe_address: Option<SocketAddr>,
    stop: CancellationToken,
    /// `None` if the listener speaks plain HTTP.
    certificate: Option<Arc<CertificateWatch>>,
    drain: Duration,
    writer: oneshot::Receiver<()>,
    node: NodeId,
}

/// The file beside an embedded database in which a running server writes its admin address and
/// token.
pub fn admin_file(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".admin");
    PathBuf::from(name)
}

/// Opens the store for reading, even while a server runs. It must exist, with the schema of this
/// version.
pub async fn open_store_for_reading(config: &Config) -> Result<Store, StartError> {
    database::existing(config, store::StoreAccess::ReadOnly).await
}

/// Runs a staff command on the database, which must exist and not be held by a server.
pub async fn run_staff_command(
    config: &Config,
    who: &OperatorIdentity,
    command: staff::StaffCommand,
) -> Result<staff::StaffOutcome, StaffFailure> {
    let store = database::existing(config, store::StoreAccess::ReadWrite).await?;
    let (clock, random) = (Clock::system(), Random::System);
    let key_file = database::key_file(config);
    let keyring = database::keyring(config, &store, &random, MissingParts::Refuse).await?;
    let vault = Vault::open(store.clone(), keyring, random.clone(), clock.clone()).await;
    let vault = vault.map_err(StartError::from)?;
    let actor = who.actor();
    let desk = StaffTools {
        actor: &actor,
        store: &store,
        vault: &vault,
        clock: &clock,
        random: &random,
        key_file: key_file.as_deref(),
        gift_days: config.credits.expiry.gift_days,
    };
    let done = staff::run(&desk, command).await;
    store.close().await;
    Ok(done?)
}

/// Compares the payment processor's last hours with the ledger without serving requests; payments
/// that were missed are granted. The database must exist.
pub async fn reconcile(
    mut config: Config,
    hours: i64,
) -> Result<ReconciliationReport, ReconcileError> {
    // Never under the id of a node that may be running: holds of that id belong to it.
    config.metering.node.clear();
    let opening = open::service(config, Clock::system(), Random::System, MissingParts::Refuse);
    let opened = Box::pin(opening).await?;
    let state = opened.state.clone();
    let reconciled = billing::reconcile::run(&state.billing, hours).await;
    state.tasks.control_ended().await;
    let store = state.store.clone();
    drop((state, opened.state));
    if opened.writer.await.is_err() {
        tracing::error!("the metering writer ended by a panic");
    }
    store.close().await;
    reconciled.map_err(|error| ReconcileError::Refused(error.to_string()))
}

/// Why reconciling with the payment processor failed.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The service's parts could not be opened.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No payment processor is configured, or the database does not respond.
    #[error("{0}")]
    Refused(String),
}

impl ReconcileError {
    /// Whether a running server holds the embedded database; then send the command to that server.
    pub const fn is_held_by_a_server(&self) -> bool {
        matches!(self, Self::Start(StartError::Store(StoreError::InUse { .. })))
    }
}

/// Why a staff command failed.
#[derive(Debug, thiserror::Error)]
pub enum StaffFailure {
    /// The service's parts could not be opened.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The command was refused.
    #[error(transparent)]
    Refused(#[from] staff::StaffError),
}

impl StaffFailure {
    /// Whether a running server holds the embedded database; then send the command to that server.
    pub const fn is_held_by_a_server(&self) -> bool {
        matches!(self, Self::Start(StartError::Store(StoreError::InUse { .. })))
    }
}

/// Starts the service: opens, migrates, recovers, checks, listens. The calling runtime becomes the
/// control runtime; the listener has its own threads. Boxed, because the future contains the
/// configuration, which grows with every part of the service.
pub fn start(config: Config, clock: Clock, random: Random) -> ServiceStart {
    Box::pin(begin(config, clock, random))
}

/// A start in progress.
pub type ServiceStart = Pin<Box<dyn Future<Output = Result<RunningService, StartError>>>>;

async fn begin(
    mut config: Config,
    clock: Clock,
    random: Random,
) -> Result<RunningService, StartError> {
    let (address, admin_at) = (config.http.listen, config.admin.listen);
    warn_without_platforms(&config);
    warn_without_encryption(&config);
    let listener = BoundListener::bind(&listener_settings(&config))
        .map_err(|source| StartError::Listen { address, source })?;
    config.http.name_port(listener.address());
    let admin = TcpListener::bind(admin_at)
        .await
        .map_err(|source| StartError::Listen { address: admin_at, source })?;
    let admin_address =
        admin.local_addr().map_err(|source| StartError::Listen { address: admin_at, source })?;
    let probes = probe_listener(config.admin.probe_listen).await?;
    let probe_address = probes.as_ref().and_then(|probes| probes.local_addr().ok());
    let opened = Box::pin(open::service(config, clock, random, MissingParts::Create)).await?;
    let state = opened.state.clone();

    open::leave_admin_file(&state, admin_address)?;
    // Before the first call is accepted, because writing a new database's reserve file takes as
    // long as the disk needs.
    background::lay_reserve_in(&state).await;
    let recorded = metrics::install();
    accounts::platform_health::read(&state.accounts).await;
    background::count_nodes(&state).await;
    let for_cores = state.clone();
    let per_core = move |_core: usize| router::service(CoreState::on_core(for_cores.clone()));
    let certificates = listener.certificates();
    let running =
        listener.run(per_core).map_err(|source| StartError::Listen { address, source })?;
    let stop = CancellationToken::new();
    let connections = running.limits();
    let wrong_tokens = WrongTokens::new(state.config.admin.wrong_tokens_per_minute);
    let shown = AdminListener {
        state: state.clone(),
        metrics: recorded,
        connections,
        wrong_tokens: Arc::new(wrong_tokens),
    };
    if let Some(probes) = probes {
        serve_admin(&state, admin::probe_router(shown.clone()), probes, &stop);
    }
    serve_admin(&state, admin::router(shown), admin, &stop);
    background::start(&state, &opened, &stop);
    let certificate =
        certificates.map(|certificates| CertificateWatch::start(&state, certificates, &stop));
    let drain = state.config.http.drain_timeout();
    Ok(RunningService {
        state,
        listener: running,
        admin_address,
        probe_address,
        stop,
        certificate,
        drain,
        writer: opened.writer,
        node: opened.node,
    })
}

/// Warns if no native call is possible.
fn warn_without_platforms(config: &Config) {
    if config.platforms.offered().next().is_none() {
        tracing::warn!(
            "no platform is configured, so every native call is refused: set base_url in \
             [platforms.platform_alpha], or another platform, as config/default.toml says, or try everything \
             with `creator-gateway sandbox`"
        );
    }
}

/// Warns if keys of customers cross a network in the clear.
fn warn_without_encryption(config: &Config) {
    if CookiePolicy::of(&config.http.public_base_url) == CookiePolicy::Refused {
        tracing::warn!(
            "http.public_base_url is plain HTTP on another machine, so keys cross the network in the clear and nobody \
             can log in: use https, with [http.tls] or behind a proxy in http.trusted_proxies"
        );
    }
}

impl RunningService {
    /// The address of the public listener.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// The address of the admin listener.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// The address of the listener for probes, if there is one.
    pub fn probe_address(&self) -> Option<SocketAddr> {
        self.probe_address
    }

    /// The token for staff commands.
    pub fn admin_token(&self) -> &secrecy::SecretString {
        &self.state.admin_token
    }

    pub(crate) fn state(&self) -> &NodeState {
        &self.state
    }

    /// The number of passwords hashed since the start, including checks; for tests that compare
    /// work.
    pub fn password_hashes(&self) -> u64 {
        self.state.identity.hashing.computed()
    }

    /// Takes all permits for hashing passwords until the returned value is dropped, so that new
    /// requests must wait; for tests.
    #[must_use]
    pub fn occupy_password_turns(&self) -> impl Sized + use<> {
        self.state.identity.hashing.occupy()
    }

    /// The number of passwords waiting to be hashed; for tests.
    pub fn passwords_waiting(&self) -> usize {
        self.state.identity.hashing.waiting()
    }

    /// Runs all due jobs and returns the number of attempts; for tests, and where no worker runs.
    pub async fn run_due_jobs(&self) -> Result<usize, StoreError> {
        runner(&self.state, self.node).run_due().await
    }

    /// Reads the pages of a list as an export does; for tests.
    pub async fn read_pages(
        &self,
        wanted: pages::WantedList,
    ) -> Result<pages::PageReader, pages::PageFault> {
        pages::PageReader::new(&self.state.exports, wanted).await
    }

    /// Works on all waiting exports and returns the number of claims; for tests, and where no
    /// worker runs.
    pub async fn run_exports(&self) -> Result<usize, StoreError> {
        exports::worker::run_all(&self.state.exports, self.node).await
    }

    /// Looks once at what other processes hold, and takes over what they have left; for tests that
    /// move the clock.
    pub async fn look_for_lost_work(
        &self,
        watch: &mut TakeoverWatch,
    ) -> Result<TakenOver, StoreError> {
        watch.look(&self.state.store, &self.state).await
    }

    /// Records that this node is running; for tests that move the clock.
    pub async fn beat(&self) -> Result<bool, StoreError> {
        store::nodes::heartbeat(&self.state.store, self.node, self.state.clock.now()).await
    }

    /// Renews the holds of all calls, as every minute; for tests that move the clock.
    pub fn renew_holds(&self) {
        let ttl_s = self.state.config.metering.hold_ttl_s;
        let expires_at = self.state.clock.now().plus_seconds(ttl_s);
        self.state.meter.renew_all(expires_at);
    }

    /// Runs one round of retention; for tests.
    pub async fn retain(&self) {
        retention::sum_up(&self.state).await;
        retention::delete_unused(&self.state).await;
    }

    /// Stores the cookies that platforms have set since the last time; for tests.
    pub async fn store_cookies(&self) {
        gateway::account_cookies::store_changed(&self.state.gateway).await;
    }

    /// Runs one round of ending exports and removing what they left; for tests.
    pub async fn clean_up_exports(&self) {
        exports::cleanup::round(&self.state.exports).await;
    }

    /// Removes objects that have been in the storage for a day and belong to no export, and returns
    /// their number; for tests.
    pub async fn remove_orphans(&self) -> Option<u64> {
        exports::cleanup::remove_orphans(&self.state.exports).await.ok()
    }

    /// Runs one check of orders that have been pending for more than a day; for tests.
    pub async fn settle_old_orders(&self) {
        billing::lost::settle_old(&self.state.billing).await;
    }

    /// Meters calls; for tests that let a customer spend credits.
    pub fn meter(&self) -> &store::metering::Meter {
        &self.state.meter
    }

    /// Runs one round of expiring credits; for tests.
    pub async fn expire_credits(&self) {
        billing::lots::expire_due(&self.state.billing).await;
    }

    /// Looks once for reasons to write to customers, unless that was done recently; for tests.
    pub async fn look_for_notices(&self) {
        billing::notices::look(&self.state.billing).await;
    }

    /// Runs one round of subscription work: resumes abandoned changes, reads credits for lowered
    /// slots, and voids open invoices of subscriptions that have ended; for tests.
    pub async fn look_after_subscriptions(&self) {
        billing::changes::resume_left(&self.state.billing).await;
        billing::slot_credits::resume_left(&self.state.billing).await;
        billing::give_up::resume_left(&self.state.billing).await;
    }

    /// Runs one round of automatic top-up for all customers, and returns the number of charges
    /// started or resumed; for tests.
    pub async fn look_after_top_ups(&self) -> usize {
        billing::top_up_worker::look_once(&self.state.billing).await
    }

    /// Checks the certificate's files now, as the operator asks with SIGHUP.
    pub async fn reload_certificate(&self) -> CertificateReload {
        match &self.certificate {
            Some(watch) => watch.look(&self.state).await,
            None => CertificateReload::NoTls,
        }
    }

    /// Compares the payment processor's last hours with the ledger, and grants payments that were
    /// missed.
    pub async fn reconcile(&self, hours: i64) -> Result<ReconciliationReport, ReconcileError> {
        let reconciled = billing::reconcile::run(&self.state.billing, hours).await;
        reconciled.map_err(|error| ReconcileError::Refused(error.to_string()))
    }

    /// Compares every price with that at the payment processor, as nodes do every ten minutes.
    pub async fn compare_prices(&self) {
        billing::offered_prices::check_all(&self.state.billing).await;
    }

    /// One round of the regular reconciliation, as this node would make it.
    pub async fn reconciliation_round(
        &self,
        rounds: &mut ReconciliationRounds,
    ) -> Result<RoundOutcome, ReconcileError> {
        let outcome = rounds.round(&self.state.billing).await;
        outcome.map_err(|error| ReconcileError::Refused(error.to_string()))
    }

    /// Compares a day's payments in the ledger with the processor's, and returns the number that
    /// differ.
    pub async fn compare_day(&self, day: UtcDay) -> Result<u64, ReconcileError> {
        let compared = billing::compare_days::compare(&self.state.billing, day).await;
        compared.map_err(|error| ReconcileError::Refused(error.to_string()))
    }

    /// Waits until the embedded database's disk fails to store data. An orderly stop is then
    /// impossible: end the process and start it again.
    pub async fn disk_failure(&self) {
        self.state.store.disk_failure().await;
    }

    /// The store, for tests that inspect it.
    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// Reports the node as not ready from now on, while it continues to serve. Returns how long it
    /// should continue, so that load balancers notice before connections are refused.
    pub fn announce_stop(&self) -> Duration {
        self.state.begin_stop();
        self.state.config.http.announce_timeout()
    }
}

/// The runner of this node's jobs.
fn runner(state: &NodeState, node: NodeId) -> JobRunner {
    JobRunner {
        store: state.store.clone(),
        clock: state.clock.clone(),
        random: state.random.clone(),
        tasks: state.tasks.clone(),
        queue: state.jobs.clone(),
        node,
        poll: Duration::from_millis(state.config.jobs.poll_ms),
        dispatch: job_kinds::dispatch(state),
    }
}
