//! Work beside requests: each task has its own timer, is idempotent, and stops with the service.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use accounts::platform_health;
use billing::{changes, give_up, lost, lots, reconcile_rounds, slot_credits, top_up_worker};
use billing::{disputes, liability, notices as customer_notices, offered_prices};
use domain::id::{CallId, NodeId};
use domain::time::Timestamp;
use exports::{cleanup, worker};
use gateway::account_cookies;
use operators::processor_setup;
use runtime::metrics;
use store::metering;
use store::notices::{self, ChangeNotice};
use store::takeover::{TakeoverObserver, TakeoverWatch};
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;

use super::open::OpenedService;
use super::{retention, runner, signing_values};
use crate::state::NodeState;

const EVERY_SECOND: Duration = Duration::from_secs(1);
const EVERY_TEN_SECONDS: Duration = Duration::from_secs(10);
const EVERY_MINUTE: Duration = Duration::from_mins(1);
/// How often prices at the payment processor are compared with those that are configured.
const EVERY_TEN_MINUTES: Duration = Duration::from_mins(10);
/// The retention of the payment processor's events, in seconds.
const EVENT_KEPT_S: i64 = 90 * 86_400;
const EVERY_HOUR: Duration = Duration::from_hours(1);
const EVERY_DAY: Duration = Duration::from_hours(24);
/// The retention of expired links, in seconds, so that we can tell their holders why they no longer
/// work.
const LINK_KEPT_S: i64 = 7 * 86_400;
/// The most stored responses, or sessions, deleted in one step.
const FORGET_MAX: i64 = 1_000;

/// Starts all background work.
pub(super) fn start(state: &NodeState, opened: &OpenedService, stop: &CancellationToken) {
    let node = opened.node;
    renew_holds(state, stop);
    take_over(state, stop);
    every(state, stop, EVERY_SECOND, |state| async move { lay_reserve_in(&state).await });
    every(state, stop, EVERY_SECOND, |_| async { metrics::sum_up() });
    every(state, stop, EVERY_SECOND, |state| async move {
        account_cookies::store_changed(&state.gateway).await;
    });
    follow_signing_values(state, stop);
    every(state, stop, EVERY_TEN_SECONDS, |state| async move { follow_clock(&state).await });
    every(
        state,
        stop,
        EVERY_TEN_SECONDS,
        move |state| async move { heartbeat(&state, node).await },
    );
    every(state, stop, EVERY_TEN_SECONDS, |state| async move { count_nodes(&state).await });
    every(state, stop, EVERY_TEN_SECONDS, |state| async move { look_at_standbys(&state).await });
    every(state, stop, EVERY_TEN_SECONDS, |state| async move {
        platform_health::read(&state.accounts).await;
        state.accounts.platform_health.drift.end_old(state.clock.now());
    });
    listen(state, stop);
    runner(state, node).start(state.config.jobs.workers, stop);
    every(state, stop, EVERY_TEN_SECONDS, |state| async move {
        changes::resume_left(&state.billing).await;
    });
    every(state, stop, EVERY_TEN_SECONDS, |state| async move {
        slot_credits::resume_left(&state.billing).await;
    });
    every(
        state,
        stop,
        EVERY_MINUTE,
        |state| async move { give_up::resume_left(&state.billing).await },
    );
    worker::start(&state.exports, node, stop);
    every(
        state,
        stop,
        EVERY_TEN_SECONDS,
        |state| async move { cleanup::round(&state.exports).await },
    );
    every(state, stop, EVERY_HOUR, |state| async move { remove_orphans(&state).await });
    // There may be years of calls to work through: the first round does not wait.
    let at_once = tokio::time::interval(EVERY_MINUTE);
    repeat(state, stop, at_once, |state| async move { retention::sum_up(&state).await });
    every(state, stop, EVERY_HOUR, |state| async move { retention::delete_unused(&state).await });
    top_up_worker::start(&state.billing, stop);
    reconcile_rounds::start(&state.billing, node, stop);
    let billing = state.billing.clone();
    state.tasks.spawn_control(async move { processor_setup::report(&billing).await });
    every(state, stop, EVERY_DAY, |state| async move {
        processor_setup::report(&state.billing).await;
    });
    let now = tokio::time::interval(EVERY_TEN_MINUTES);
    repeat(state, stop, now, |state| async move { compare_prices(&state).await });
    customer_notices::start(&state.billing, stop);
    liability::start(&state.billing, stop);
    every(state, stop, EVERY_MINUTE, |state| async move { keep_house(&state).await });
    every(state, stop, EVERY_TEN_SECONDS, |state| async move { forget_answers(&state).await });
    every(state, stop, EVERY_MINUTE, |state| async move { lots::expire_due(&state.billing).await });
    every(state, stop, EVERY_MINUTE, |state| async move { check_books(&state).await });
    every(state, stop, EVERY_MINUTE, |state| async move { lost::settle_old(&state.billing).await });
}

/// Compares prices with those at the payment processor, on nodes that compare payments: what they
/// find counts on all nodes.
async fn compare_prices(state: &NodeState) {
    if state.config.processor.reconcile_every_s > 0 {
        offered_prices::check_all(&state.billing).await;
    }
    disputes::count_waiting(&state.billing).await;
}

/// Reads signing values again, each platform's at its own pace, and shows how old they are.
fn follow_signing_values(state: &NodeState, stop: &CancellationToken) {
    for (platform, target) in state.accounts.targets.iter() {
        let target = target.clone();
        let Some(pause) = target.values_refresh() else { continue };
        every(state, stop, pause, move |_| {
            let target = target.clone();
            async move { signing_values::read(platform, &target).await }
        });
    }
    every(state, stop, EVERY_SECOND, |state| async move {
        signing_values::show_ages(&state.accounts.targets);
    });
}

/// The pause after a failure before listening for notices of other nodes again.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Listens for notices of other nodes and drops the cached entries that they name. A lost
/// connection empties the cache.
fn listen(state: &NodeState, stop: &CancellationToken) {
    let (hearing, stop) = (state.clone(), stop.clone());
    state.tasks.spawn_control(async move {
        while !stop.is_cancelled() {
            tokio::select! {
                () = stop.cancelled() => return,
                heard = hear(&hearing) => match heard {
                    Ok(()) => return,
                    Err(error) => tracing::warn!(%error, "notices of other nodes cannot be received"),
                },
            }
            hearing.cache.forget_all();
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LISTEN_AGAIN_AFTER) => {}
            }
        }
    });
}

/// Receives notices until an error. Returns immediately if there can be no other node.
async fn hear(state: &NodeState) -> Result<(), store::StoreError> {
    let Some(mut listener) = notices::listen(&state.store).await? else { return Ok(()) };
    // Notices sent before this were not received.
    state.cache.forget_all();
    loop {
        match listener.next().await? {
            ChangeNotice::Keys { customer: Some(customer) } => state.cache.forget_keys_of(customer),
            ChangeNotice::Keys { customer: None } => state.cache.forget_keys(),
            ChangeNotice::Account { customer, creator } => {
                state.cache.forget_account(customer, &creator);
            }
            ChangeNotice::Platforms => platform_health::read(&state.accounts).await,
            ChangeNotice::Missed => {
                state.cache.forget_all();
                platform_health::read(&state.accounts).await;
            }
        }
    }
}

/// Runs `work` at this interval until the service stops. A failed round is retried at the next
/// tick.
fn every<W, F>(state: &NodeState, stop: &CancellationToken, pause: Duration, work: W)
where
    W: Fn(NodeState) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let first = Instant::now() + pause;
    repeat(state, stop, tokio::time::interval_at(first, pause), work);
}

/// Does the work whenever the timer ticks, one round after the other.
fn repeat<W, F>(state: &NodeState, stop: &CancellationToken, mut timer: Interval, work: W)
where
    W: Fn(NodeState) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (state_of_rounds, stop) = (state.clone(), stop.clone());
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    state.tasks.spawn_control(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = timer.tick() => work(state_of_rounds.clone()).await,
            }
        }
    });
}

/// Renews the holds of all calls that this process carries out, each once a minute.
fn renew_holds(state: &NodeState, stop: &CancellationToken) {
    let second = AtomicU64::new(0);
    every(state, stop, EVERY_SECOND, move |state| {
        let expires_at = state.clock.now().plus_seconds(state.config.metering.hold_ttl_s);
        state.meter.renew_live(second.fetch_add(1, Ordering::Relaxed), expires_at);
        std::future::ready(())
    });
}

/// Takes over what other processes, or lost tasks of this one, have left.
fn take_over(state: &NodeState, stop: &CancellationToken) {
    let watch = Arc::new(tokio::sync::Mutex::new(TakeoverWatch::default()));
    every(state, stop, EVERY_TEN_SECONDS, move |state| {
        let watch = Arc::clone(&watch);
        async move { look(&state, &mut *watch.lock().await).await }
    });
}

async fn look(state: &NodeState, watch: &mut TakeoverWatch) {
    match watch.look(&state.store, state).await {
        Ok(taken) => {
            if taken.holds > 0 {
                tracing::warn!(holds = taken.holds, "expired holds were refunded");
                metrics::holds_expired(taken.holds);
            }
            if taken.leases > 0 {
                tracing::info!(leases = taken.leases, "work that a lost node left is free");
            }
        }
        Err(error) => tracing::error!(%error, "expired holds could not be refunded"),
    }
}

impl TakeoverObserver for NodeState {
    fn node(&self) -> NodeId {
        self.meter.node()
    }

    fn is_live(&self, call: CallId) -> bool {
        self.meter.is_live(call)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn running_for(&self) -> Duration {
        self.clock.running_for()
    }
}

/// Reserves disk space in which running calls can settle. No calls are accepted without it.
pub(super) async fn lay_reserve_in(state: &NodeState) {
    if state.store.has_room() {
        return;
    }
    let store = state.store.clone();
    match tokio::task::spawn_blocking(move || store.lay_reserve_in()).await {
        Ok(Ok(())) => tracing::info!("the disk has room: calls are accepted"),
        Ok(Err(error)) => {
            let bytes = state.config.database.reserve_bytes;
            tracing::error!(%error, bytes, "the disk has no room for database.reserve_bytes: no calls are accepted");
        }
        Err(error) => tracing::error!(%error, "writing the reserve file ended early"),
    }
}

/// Removes objects from the storage that belong to no export.
async fn remove_orphans(state: &NodeState) {
    match cleanup::remove_orphans(&state.exports).await {
        Ok(0) => {}
        Ok(objects) => {
            tracing::info!(objects, "objects that workers left in the storage were removed");
        }
        Err(error) => {
            tracing::warn!(%error, "the storage could not be searched for leftover objects");
        }
    }
}

/// Keeps the clock in step with the database's, which all nodes of a database share.
async fn follow_clock(state: &NodeState) {
    match state.store.database_time().await {
        Ok(Some(time)) => state.clock.follow(time),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the database's clock could not be read"),
    }
}

/// Reports in the metrics whether a standby of the database could replace it.
async fn look_at_standbys(state: &NodeState) {
    match store::standbys::read(&state.store).await {
        Ok(Some(standbys)) => metrics::standbys_seen(&standbys),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the database's standbys could not be read"),
    }
}

async fn heartbeat(state: &NodeState, node: NodeId) {
    if let Err(error) = store::nodes::heartbeat(&state.store, node, state.clock.now()).await {
        tracing::warn!(%error, "this node could not record its heartbeat");
    }
}

/// Nodes that have not reported for this time, in seconds, do not take a share of paces.
const NODE_ALIVE_S: i64 = 30;

/// Counts the nodes among which paces are divided, if any are.
pub(super) async fn count_nodes(state: &NodeState) {
    let paces = &state.accounts.paces;
    if !paces.needs_nodes() {
        return;
    }
    let since = state.clock.now().plus_seconds(-NODE_ALIVE_S);
    match store::nodes::count_live(&state.store, since).await {
        Ok(nodes) => paces.set_nodes(u32::try_from(nodes).unwrap_or(1)),
        Err(error) => tracing::warn!(%error, "the nodes could not be counted"),
    }
}

/// Checks the cheap rules of the ledger; every violation is logged as an error.
async fn check_books(state: &NodeState) {
    match store::verify::check_balances(&state.store, state.clock.now()).await {
        Ok(violations) => {
            metrics::ledger_checked(violations.len());
            for violation in violations {
                let (rule, subject) = (violation.rule, violation.subject);
                tracing::error!(
                    rule,
                    subject,
                    details = violation.details,
                    "the ledger breaks a rule"
                );
            }
        }
        Err(error) => tracing::warn!(%error, "the ledger could not be checked"),
    }
    match metering::count_set_aside(&state.store).await {
        Ok(rows) => metrics::usage_set_aside(rows),
        Err(error) => tracing::warn!(%error, "the usage rows set aside could not be counted"),
    }
}

async fn forget_links(state: &NodeState, now: Timestamp) -> Result<(), store::StoreError> {
    let before = now.plus_seconds(-LINK_KEPT_S);
    store::mail_links::delete_ended(&state.store, before).await?;
    store::registration::delete_trial_counts(&state.store, before.day()).await?;
    store::login_networks::delete_old(&state.store, now).await?;
    Ok(())
}

/// Deletes expired stored responses: of calls and exports, and of the service's own routes.
async fn forget_answers(state: &NodeState) {
    let now = state.clock.now();
    let store = &state.store;
    in_steps(|| store::idempotency::delete_expired(store, now, FORGET_MAX)).await;
    in_steps(|| store::own_requests::delete_expired(store, now, FORGET_MAX)).await;
}

/// Deletes in steps of [`FORGET_MAX`] until nothing is left, so that it keeps up with any rate of
/// new rows. After each step it pauses for as long as the step took, so that others can use the
/// database.
async fn in_steps<F>(delete: impl Fn() -> F)
where
    F: Future<Output = Result<u64, store::StoreError>>,
{
    loop {
        let began = Instant::now();
        match delete().await {
            Ok(deleted) if deleted < FORGET_MAX.unsigned_abs() => return,
            Ok(_) => tokio::time::sleep(began.elapsed()).await,
            Err(error) => {
                tracing::warn!(%error, "expired stored responses could not be deleted");
                return;
            }
        }
    }
}

/// Deletes what has expired: sessions, links, events, counts of trials, and idle limits.
async fn keep_house(state: &NodeState) {
    let now = state.clock.now();
    state.gateway.rate_limiter.forget_idle(now);
    state.registrations.forget_idle(now);
    state.identity.login_limits.forget_idle(now);
    state.web.control_limits.forget_idle(now);
    state.cache.forget_old(now);
    state.accounts.paces.forget_idle(now);
    state.identity.mail_limits.forget_idle(now);
    if let Err(error) = forget_links(state, now).await {
        tracing::warn!(%error, "old links could not be deleted");
    }
    let before = now.plus_seconds(-EVENT_KEPT_S);
    if let Err(error) = store::processor_events::delete_old(&state.store, before).await {
        tracing::warn!(%error, "old events could not be deleted");
    }
    let window_start = now.plus_seconds(-state.config.platform_refusals.window_s);
    if let Err(error) =
        store::platform_health::delete_old_refusals(&state.store, window_start).await
    {
        tracing::warn!(%error, "old refusals of credentials could not be deleted");
    }
    match store::jobs::count(&state.store).await {
        Ok(counts) => metrics::jobs_counted(counts),
        Err(error) => tracing::warn!(%error, "the jobs could not be counted"),
    }
    let lifetime = state.config.sessions.lifetime();
    if let Err(error) =
        store::sessions::delete_expired(&state.store, now, lifetime, FORGET_MAX).await
    {
        tracing::warn!(%error, "expired sessions could not be deleted");
    }
}
