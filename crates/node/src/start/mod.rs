//! Starting and stopping: everything is opened, recovered and checked before the first request is taken.

mod background;
mod certificates;
mod listeners;
mod open;
mod signing_values;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use domain::id::NodeId;
use domain::platform::Platform;
use domain::time::{Timestamp, UtcDay};
use runtime::clock::{Clock, Random};
use runtime::keyfile::KeyFileError;
use runtime::vault::{Vault, VaultError};
use store::{Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use transport::BoundListener;

pub use self::certificates::CertificateReload;
use self::certificates::CertificateWatch;
use self::listeners::{listener_settings, probe_listener, serve_admin};
use crate::admin::{self, AdminListener};
use crate::job_kinds;
use crate::router;
use crate::state::{CoreState, NodeState};
pub use billing::reconcile::{HOURS, HOURS_MAX, ReconciliationReport};
use exports::pages;
use identity::staff::{self, StaffTools};
use jobs::Runner;
use runtime::metrics;
use settings::{Config, ConfigProblem};
/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration has problems; all of them are told.
    #[error("the configuration has problems:\n{}", settings::listed(.0))]
    Configuration(Vec<ConfigProblem>),
    /// The database cannot be used.
    #[error("the database cannot be used")]
    Store(#[from] StoreError),
    /// The schema is older than this version, and may not be brought up to date.
    #[error(
        "the database's schema is not up to date: {applied} of {all} steps were applied, and \
        database.migrate_at_start is false; run `creator-gateway migrate` with the same configuration first"
    )]
    Schema {
        /// Steps that were applied.
        applied: usize,
        /// Steps that this version needs.
        all: usize,
    },
    /// The vault cannot be opened.
    #[error("the vault cannot be opened")]
    Vault(#[from] VaultError),
    /// The key file cannot be used.
    #[error("the master key cannot be read")]
    KeyFile(#[from] KeyFileError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The system gives no thread, or nothing to drive it with.
    #[error("a thread cannot be started")]
    Thread(#[source] std::io::Error),
    /// The folder of uploads cannot be used.
    #[error("the folder of uploads, {path}, cannot be used")]
    Uploads {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The admin token's file cannot be written.
    #[error("the admin token cannot be written to {path}")]
    Token {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}

/// A running service.
pub struct RunningService {
    state: NodeState,
    listener: transport::RunningListener,
    admin_address: SocketAddr,
    probe_address: Option<SocketAddr>,
    stop: CancellationToken,
    /// None where the listener speaks plain HTTP.
    certificate: Option<Arc<CertificateWatch>>,
    drain: Duration,
    writer: oneshot::Receiver<()>,
    node: NodeId,
}

/// The file beside an embedded database in which a running server leaves its admin address and token.
pub fn admin_file(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".admin");
    PathBuf::from(name)
}

/// Opens the store as the configuration says. With the embedded database only one server may.
pub async fn open_store(config: &Config) -> Result<Store, StoreError> {
    open::store(config, store::StoreAccess::ReadWrite).await
}

/// Opens the store for reading, also beside a running server.
pub async fn open_store_for_reading(config: &Config) -> Result<Store, StoreError> {
    open::store(config, store::StoreAccess::ReadOnly).await
}

/// Carries out a staff command on the opened database: only where no server holds it.
pub async fn run_staff_command(
    config: &Config,
    command: staff::StaffCommand,
) -> Result<staff::StaffOutcome, StaffFailure> {
    let store = open_store(config).await.map_err(StartError::from)?;
    store.migrate().await.map_err(StartError::from)?;
    let (clock, random) = (Clock::system(), Random::System);
    let key_file = open::key_file(config);
    let keyring = open::keyring(config, &store, &random).await?;
    let vault = Vault::open(store.clone(), keyring, random.clone(), clock.clone()).await;
    let vault = vault.map_err(StartError::from)?;
    let desk = StaffTools {
        store: &store,
        vault: &vault,
        clock: &clock,
        random: &random,
        key_file: key_file.as_deref(),
    };
    let done = staff::run(&desk, command).await;
    store.close().await;
    Ok(done?)
}

/// Compares the payment processor's last hours with the books without serving anybody; what was paid is granted.
pub async fn reconcile(
    mut config: Config,
    hours: i64,
) -> Result<ReconciliationReport, ReconcileError> {
    // Never in the name of a node that may be running: what that one holds is its own.
    config.metering.node.clear();
    let opened = Box::pin(open::service(config, Clock::system(), Random::System)).await?;
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

/// Why the processor was not reconciled with.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The service's parts could not be opened.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No processor is configured, or the database does not answer.
    #[error("{0}")]
    Refused(String),
}

impl ReconcileError {
    /// Whether a running server holds the embedded database: then that server must be asked.
    pub const fn is_held_by_a_server(&self) -> bool {
        matches!(self, Self::Start(StartError::Store(StoreError::InUse { .. })))
    }
}

/// Why a staff command was not carried out.
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
    /// Whether a running server holds the embedded database: then that server must be asked.
    pub const fn is_held_by_a_server(&self) -> bool {
        matches!(self, Self::Start(StartError::Store(StoreError::InUse { .. })))
    }
}

/// Starts the service: opens, migrates, recovers, checks, listens. The runtime this is called on becomes the
/// control runtime; the listener has threads of its own. On the heap: the configuration grows with every part of the
/// service.
pub fn start(config: Config, clock: Clock, random: Random) -> ServiceStart {
    Box::pin(begin(config, clock, random))
}

/// A start under way.
pub type ServiceStart = Pin<Box<dyn Future<Output = Result<RunningService, StartError>>>>;

async fn begin(
    mut config: Config,
    clock: Clock,
    random: Random,
) -> Result<RunningService, StartError> {
    let (address, admin_at) = (config.http.listen, config.admin.listen);
    warn_without_platforms(&config);
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
    let opened = Box::pin(open::service(config, clock, random)).await?;
    let state = opened.state.clone();

    open::leave_admin_file(&state, admin_address)?;
    // Before the first call is taken: a new database's reserve takes as long as the disk does.
    background::lay_reserve_in(&state).await;
    let recorded = metrics::install();
    accounts::platform_health::read(&state.accounts).await;
    let for_cores = state.clone();
    let per_core = move |_core: usize| router::service(CoreState::on_core(for_cores.clone()));
    let certificates = listener.certificates();
    let running =
        listener.run(per_core).map_err(|source| StartError::Listen { address, source })?;
    let stop = CancellationToken::new();
    let connections = running.limits();
    let shown = AdminListener { state: state.clone(), metrics: recorded, connections };
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

/// Says so when no native call can be made.
fn warn_without_platforms(config: &Config) {
    let is_offered = |on: &Platform| config.platforms.of(*on).is_offered();
    if !Platform::ALL.iter().any(is_offered) {
        tracing::warn!(
            "no platform is configured, so every native call is refused: set base_url in \
             [platforms.platform_alpha] (or beta, gamma, delta) as config/default.toml says, or try everything \
             with `creator-gateway sandbox`"
        );
    }
}

/// Gives back what calls that had to be cut off at the stop still held; nobody knows how they ended.
async fn give_back(store: &Store, node: NodeId, now: Timestamp) {
    match store::metering::recover(store, node, now).await {
        Ok(recovery) if recovery.refunded == 0 => {}
        Ok(recovery) => {
            tracing::warn!(calls = recovery.refunded, "calls were cut off and given back");
        }
        Err(error) => tracing::error!(%error, "calls that were cut off wait for the next start"),
    }
}

impl RunningService {
    /// Where the public listener is.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Where the admin listener is.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// Where the listener for probes alone is, if there is one.
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

    /// Password hashes computed since the start, checks included; for tests of equal work.
    pub fn password_hashes(&self) -> u64 {
        self.state.identity.hashing.computed()
    }

    /// Takes every free turn to hash a password until what is returned is dropped, so that whoever comes must wait; for
    /// tests.
    #[must_use]
    pub fn occupy_password_turns(&self) -> impl Sized + use<> {
        self.state.identity.hashing.occupy()
    }

    /// Passwords that wait to be hashed; for tests.
    pub fn passwords_waiting(&self) -> usize {
        self.state.identity.hashing.waiting()
    }

    /// Carries out every job that is due, and gives how many attempts that took: for tests, and where no
    /// worker runs.
    pub async fn run_due_jobs(&self) -> Result<usize, StoreError> {
        runner(&self.state, self.node).run_due().await
    }

    /// Reads the pages of a list as an export does: for tests of what becomes of them.
    pub async fn read_pages(
        &self,
        wanted: pages::WantedList,
    ) -> Result<pages::PageReader, pages::PageFault> {
        pages::PageReader::new(&self.state.exports, wanted).await
    }

    /// Works on every export that waits, and gives how many claims that took: for tests, and where no worker runs.
    pub async fn run_exports(&self) -> Result<usize, StoreError> {
        exports::worker::run_all(&self.state.exports, self.node).await
    }

    /// One round of ending and removing what exports left: for tests.
    pub async fn clean_up_exports(&self) {
        exports::cleanup::round(&self.state.exports).await;
    }

    /// Removes what has been in the storage for a day and belongs to nothing; gives how many: for tests.
    pub async fn remove_orphans(&self) -> Option<u64> {
        exports::cleanup::remove_orphans(&self.state.exports).await.ok()
    }

    /// Looks after orders that have been pending for more than a day, once: for tests.
    pub async fn settle_old_orders(&self) {
        billing::lost::settle_old(&self.state.billing).await;
    }

    /// What calls are metered with: for tests that let a customer spend.
    pub fn meter(&self) -> &store::metering::Meter {
        &self.state.meter
    }

    /// Ends credits whose time is over, once: for tests.
    pub async fn expire_credits(&self) {
        billing::lots::expire_due(&self.state.billing).await;
    }

    /// Goes on with changes of subscriptions that nobody carries out, reads what lowered slots credited, and voids what is
    /// open of subscriptions that have ended, once: for tests.
    pub async fn look_after_subscriptions(&self) {
        billing::changes::resume_left(&self.state.billing).await;
        billing::slot_credits::resume_left(&self.state.billing).await;
        billing::give_up::resume_left(&self.state.billing).await;
    }

    /// Looks after automatic top-up once, for everybody, and gives how many charges were begun or taken up: for tests.
    pub async fn look_after_top_ups(&self) -> usize {
        billing::top_up_worker::look_once(&self.state.billing).await
    }

    /// Looks at the files of the certificate now: what an operator asks for with SIGHUP.
    pub async fn reload_certificate(&self) -> CertificateReload {
        match &self.certificate {
            Some(watch) => watch.look(&self.state).await,
            None => CertificateReload::NoTls,
        }
    }

    /// Compares the payment processor's last hours with the books, and grants what was paid.
    pub async fn reconcile(&self, hours: i64) -> Result<ReconciliationReport, ReconcileError> {
        let reconciled = billing::reconcile::run(&self.state.billing, hours).await;
        reconciled.map_err(|error| ReconcileError::Refused(error.to_string()))
    }

    /// Compares a day's payments on the books with the processor's; gives how many differ.
    pub async fn compare_day(&self, day: UtcDay) -> Result<u64, ReconcileError> {
        let compared = billing::reconcile::compare(&self.state.billing, day).await;
        compared.map_err(|error| ReconcileError::Refused(error.to_string()))
    }

    /// Waits until the embedded database's disk could not keep what it was asked to keep. Then nothing can be stopped
    /// in order: end the process, and start it again.
    pub async fn disk_failure(&self) {
        self.state.store.disk_failure().await;
    }

    /// The store, for tests that look into it.
    pub fn store(&self) -> &Store {
        &self.state.store
    }

    /// Says from now on that the node is not ready, while it serves as before. Gives for how long it should serve on, so
    /// that load balancers see that before they would meet refused connections.
    pub fn announce_stop(&self) -> Duration {
        self.state.begin_stop();
        self.state.config.http.announce_timeout()
    }

    /// Stops: takes nothing new, lets running calls end, puts what is left on the books, closes the database.
    pub async fn stop(mut self) {
        self.state.begin_stop();
        self.listener.drain().await;
        let ended = tokio::time::timeout(self.drain, self.state.tasks.calls_ended()).await;
        if ended.is_err() {
            tracing::warn!(
                "calls were still running at the end of the drain time; they are not charged"
            );
        }
        self.listener.stop().await;
        self.stop.cancel();
        self.state.tasks.control_ended().await;
        let store = self.state.store.clone();
        open::remove_admin_file(&self.state);
        let now = self.state.clock.now();
        drop(self.state);
        if self.writer.await.is_err() {
            tracing::error!("the metering writer ended by a panic");
        }
        give_back(&store, self.node, now).await;
        store.close().await;
    }
}

/// Carries out the jobs of this node.
fn runner(state: &NodeState, node: NodeId) -> Runner {
    Runner {
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
