//! Opens the store, the vault, the catalogue and the ledger, and checks each before the service
//! starts.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use billing::low_balances::LowBalances;
use billing::plan_versions::{self, VersionLookup};
use billing::{BillingParts, BillingState, plans};
use catalog::Catalog;
use domain::id::NodeId;
use domain::per_platform::PerPlatform;
use domain::time::Timestamp;
use gateway::cache::EntryCaches;
use gateway::upload::spool::UploadSpool;
use jobs::JobQueue;
use mail::{InvalidMailSettings, MailDestination, Mailer};
use operators::OperatorsState;
use platform_client::PlatformTarget;
use processor_client::ProcessorClient;
use runtime::clock::{Clock, Random};
use runtime::metrics;
use runtime::tasks::Tasks;
use runtime::vault::Vault;
use secrecy::{ExposeSecret, SecretString};
use settings::mail::base_folder;
use settings::targets;
use settings::{Config, ConfigProblem};
use storage::Storage;
use store::metering::{self, EpochRecovery, MeterOptions};
use store::{Store, StoreAccess};
use tokio::sync::oneshot;

use super::database::{self, MissingParts, key_file, keyring};
use super::error::StartError;
use super::{admin_file, signing_values};
use crate::state::{NodeState, OpenedParts};

/// What the start passes on to the background work.
pub(super) struct OpenedService {
    pub(super) state: NodeState,
    pub(super) node: NodeId,
    pub(super) writer: oneshot::Receiver<()>,
}

/// Logs what metering recovered from an earlier run.
fn report(recovery: &EpochRecovery) {
    if recovery.refunded > 0 {
        tracing::warn!(calls = recovery.refunded, "calls of an earlier run were refunded");
    }
    if recovery.set_aside > 0 {
        let rows = recovery.set_aside;
        tracing::error!(rows, "usage rows are set aside; `verify` shows what is missing");
    }
}

/// Opens everything and starts the writer.
pub(super) async fn service(
    config: Config,
    clock: Clock,
    random: Random,
    missing: MissingParts,
) -> Result<OpenedService, StartError> {
    let problems = config.all_problems();
    if !problems.is_empty() {
        return Err(StartError::Configuration(problems));
    }
    let catalog = targets::catalogue(&config).map_err(StartError::Configuration)?;
    let targets =
        targets::targets(&config.platforms, &catalog).map_err(StartError::Configuration)?;
    // Boxed: the start need not carry its room.
    Box::pin(signing_values::read_all(&targets)).await?;
    let processor = config.processor.client().map_err(StartError::Configuration)?;
    let store = database::migrated(&config, missing).await?;
    if let Some(time) = store.database_time().await? {
        clock.follow(time);
    }
    check_plans(&config, &store, processor.as_ref(), clock.now()).await?;
    let keyring = keyring(&config, &store, &random, missing).await?;
    let vault = Vault::open(store.clone(), keyring, random.clone(), clock.clone()).await?;
    let fresh = NodeId::new(clock.now(), random.bytes());
    let node = config.metering.node.parse().unwrap_or(fresh);
    let recovery = metering::recover(&store, node, clock.now()).await?;
    report(&recovery);
    store.act_as(node);
    let released = store::leases::release_left(&store).await?;
    if released > 0 {
        tracing::info!(leases = released, "work that an earlier run left will be continued");
    }
    let low_balances = Arc::new(LowBalances::new());
    let mut options = meter_options(&config, node, recovery.epoch);
    let looking = Arc::clone(&low_balances);
    options.on_batch = Arc::new(move |report| {
        metrics::batch_committed(report);
        looking.look(&report.balances);
    });
    let (meter, writer) = metering::start(&store, options);
    let writer = spawn_writer(writer)?;
    let verified = store::routes::list_verified(&store).await?;
    let verified: HashSet<_> =
        verified.into_iter().map(|route| (route.platform, route.route)).collect();
    let mailer = mailer(&config)?;
    let spool = spool(&config, &catalog, &targets)?;
    let opened = OpenedParts {
        storage: storage(&config)?,
        spool,
        mailer,
        key_file: key_file(&config),
        admin_token: admin_token(&config, &random),
        tasks: Tasks::on_this_runtime(),
        store,
        meter,
        catalog,
        clock,
        random,
        vault,
        targets,
        processor,
        low_balances,
        verified,
        config,
    };
    Ok(OpenedService { state: NodeState::new(opened), node, writer })
}

/// Opens what the operator's commands need, and nothing that would make this process a node.
pub(super) async fn operators(config: Config) -> Result<OperatorsState, StartError> {
    let processor = config.processor.client().map_err(StartError::Configuration)?;
    let store = database::existing(&config, StoreAccess::ReadWrite).await?;
    let (clock, random) = (Clock::system(), Random::System);
    if let Some(time) = store.database_time().await? {
        clock.follow(time);
    }
    let billing = BillingState::new(BillingParts {
        store: store.clone(),
        clock: clock.clone(),
        random: random.clone(),
        tasks: Tasks::on_this_runtime(),
        allowances: Arc::new(plans::allowances(&config)),
        jobs: JobQueue::new(clock.clone(), random.clone()),
        cached: Arc::new(EntryCaches::new(1)),
        low_balances: Arc::new(LowBalances::new()),
        config: Arc::new(config),
        processor,
    });
    Ok(OperatorsState { store, clock, random, billing })
}

/// Refuses plans that contradict what was sold, and subscriptions to unknown plans.
async fn check_plans(
    config: &Config,
    store: &Store,
    processor: Option<&ProcessorClient>,
    now: Timestamp,
) -> Result<(), StartError> {
    let problems = plan_versions::problems(VersionLookup { store, config, processor, now }).await?;
    if problems.is_empty() { Ok(()) } else { Err(StartError::Configuration(problems)) }
}

/// Starts the writer. It outlives every tracked task, so the stop waits for it last. If it blocks
/// its thread (with an embedded database), it gets a thread of its own. The returned receiver fails
/// if the writer panics.
fn spawn_writer(writer: metering::MeterWriter) -> Result<oneshot::Receiver<()>, StartError> {
    let (end, ended) = oneshot::channel();
    if writer.blocks_its_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(StartError::Thread)?;
        let body = move || {
            runtime.block_on(writer.run());
            // If the start fails after this, nothing waits for the message.
            end.send(()).ok();
        };
        let thread = std::thread::Builder::new().name("metering".to_owned()).spawn(body);
        thread.map_err(StartError::Thread)?;
    } else {
        spawn(async move {
            writer.run().await;
            end.send(()).ok();
        });
    }
    Ok(ended)
}

/// The storage of finished exports.
fn storage(config: &Config) -> Result<Storage, StartError> {
    let refused = |problem| StartError::Configuration(vec![problem]);
    let settings = config.storage.settings(&base_folder(config)).map_err(refused)?;
    Storage::open(&settings)
        .map_err(|error| refused(ConfigProblem::new("storage.url", error.to_string())))
}

/// The folder of uploads, created if a configured platform accepts uploads.
fn spool(
    config: &Config,
    catalog: &Catalog,
    targets: &PerPlatform<PlatformTarget>,
) -> Result<UploadSpool, StartError> {
    let beside = config.embedded_database().and_then(|path| path.parent().map(Path::to_path_buf));
    let folder = beside.unwrap_or_default().join(&config.uploads.folder);
    let limits = &config.http.limits;
    let spool =
        UploadSpool::new(folder, limits.uploads_bytes_max, limits.uploads_per_customer_bytes_max);
    if targets.iter().any(|(platform, _)| catalog.platform(platform).upload().is_some()) {
        let path = spool.folder().to_path_buf();
        spool.prepare().map_err(|source| StartError::Uploads { path, source })?;
    }
    Ok(spool)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the stop waits for the message that the writer sends when it ends"
)]
fn spawn(writer: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(writer));
}

fn meter_options(config: &Config, node: NodeId, epoch: i64) -> MeterOptions {
    let mut options = MeterOptions::new(node, epoch);
    options.batch_max = config.metering.batch_max;
    options.queue_max = config.metering.queue_max;
    options.queue_age_max = Duration::from_millis(config.metering.queue_age_max_ms);
    options.commit_wait_max = Duration::from_millis(config.metering.commit_wait_max_ms);
    options.patience = Duration::from_millis(config.metering.read_patience_ms);
    options.read_wait_max = config.metering.hold_wait_max();
    options.gather_max = Duration::from_millis(config.metering.gather_ms);
    options
}

/// The sender of emails. A folder is logged as a warning, because emails in it reach nobody.
fn mailer(config: &Config) -> Result<Mailer, StartError> {
    let refused = |problem| StartError::Configuration(vec![problem]);
    let settings = config.mail.settings(&base_folder(config)).map_err(refused)?;
    if let MailDestination::Folder(folder) = &settings.destination {
        let folder = folder.display();
        tracing::warn!(%folder, "emails are written to a folder and not sent; see mail.url");
    }
    let unusable =
        |error: InvalidMailSettings| refused(ConfigProblem::new("mail", error.to_string()));
    Mailer::new(&settings).map_err(unusable)
}

fn admin_token(config: &Config, random: &Random) -> SecretString {
    if !config.admin.token.expose_secret().is_empty() {
        return config.admin.token.clone();
    }
    SecretString::from(hex::encode(random.bytes::<32>()))
}

/// Writes the admin address and token beside an embedded database, for staff commands on this
/// machine.
pub(super) fn leave_admin_file(state: &NodeState, address: SocketAddr) -> Result<(), StartError> {
    let Some(path) = state.config.embedded_database().map(|path| admin_file(&path)) else {
        return Ok(());
    };
    let text = format!("{address}\n{}\n", state.admin_token.expose_secret());
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|source| StartError::Token { path, source })
}

pub(super) fn remove_admin_file(state: &NodeState) {
    if let Some(path) = state.config.embedded_database().map(|path| admin_file(&path)) {
        // A file that remains is overwritten at the next start.
        drop(std::fs::remove_file(path));
    }
}
