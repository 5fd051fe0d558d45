//! When the processor is compared with the ledger: of several nodes one does it, everything at its
//! start and once a day, and in between only what changed since the last success.

use std::time::Duration;

use domain::id::NodeId;
use domain::time::{Timestamp, UtcDay};
use failures::Failure;
use store::reconciliations::{self, ReconciliationProgress};
use tokio_util::sync::CancellationToken;

use super::compare_days;
use super::reconcile::{self, HOURS, ReconciliationReport};
use crate::BillingState;

/// How long a claim lasts without being renewed, in seconds.
const LEASE_S: i64 = 60;
const RENEW_EVERY: Duration = Duration::from_secs(20);
/// Events of the last seconds are left to their delivery, which is under way.
const DELIVERY_S: i64 = 60;
/// How far before the last success changes are read, in seconds: the processor may list an event
/// some time after the time that it names.
const OVERLAP_S: i64 = 300;
/// The longest wait after the processor limited requests, in rounds.
const SKIPPED_MAX: u32 = 12;

/// What one node remembers between its rounds.
#[derive(Debug)]
pub struct ReconciliationRounds {
    node: NodeId,
    /// Whether this node has compared everything since it started.
    has_compared: bool,
    /// How many rounds in a row the processor limited.
    limited: u32,
    /// No round before this time.
    not_before: Option<Timestamp>,
}

/// What became of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundOutcome {
    /// Another node makes the comparison.
    OtherNode,
    /// The processor wants to be asked later.
    TooEarly,
    /// Everything was compared.
    Everything(ReconciliationReport),
    /// What changed since the last success was handled.
    Changes(ReconciliationReport),
    /// The claim was lost, and the work given up.
    LeaseLost,
}

/// Reconciles periodically, starting immediately.
pub fn start(billing: &BillingState, node: NodeId, stop: &CancellationToken) {
    let section = &billing.config.processor;
    if !section.is_configured() || section.reconcile_every_s == 0 {
        return;
    }
    let (worker, stopped) = (billing.clone(), stop.clone());
    let every = Duration::from_secs(section.reconcile_every_s);
    billing.tasks.spawn_control(async move {
        let mut timer = tokio::time::interval(every);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut rounds = ReconciliationRounds::new(node);
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                _ = timer.tick() => {}
            }
            tokio::select! {
                () = stopped.cancelled() => return,
                outcome = rounds.round(&worker) => report(outcome),
            }
        }
    });
}

fn report(outcome: Result<RoundOutcome, Failure>) {
    match outcome {
        Ok(RoundOutcome::Everything(report) | RoundOutcome::Changes(report))
            if report.granted > 0 || report.events > 0 =>
        {
            tracing::warn!(?report, "handled payments and changes of which no event had arrived");
        }
        Ok(outcome) => tracing::debug!(?outcome, "reconciled"),
        Err(error) => tracing::warn!(%error, "the reconciliation with the processor failed"),
    }
}

impl ReconciliationRounds {
    /// Rounds of a node that has just started.
    pub const fn new(node: NodeId) -> Self {
        Self { node, has_compared: false, limited: 0, not_before: None }
    }

    /// One round, if this node may make it.
    pub async fn round(&mut self, billing: &BillingState) -> Result<RoundOutcome, Failure> {
        let now = billing.clock.now();
        if self.not_before.is_some_and(|time| now < time) {
            return Ok(RoundOutcome::TooEarly);
        }
        let until = now.plus_seconds(LEASE_S);
        let claimed = reconciliations::claim(&billing.store, self.node, until).await?;
        let Some(before) = claimed else { return Ok(RoundOutcome::OtherNode) };
        let node = self.node;
        let outcome = tokio::select! {
            outcome = self.carry_out(billing, before, now) => outcome,
            () = keep(billing, node) => return Ok(RoundOutcome::LeaseLost),
        };
        let after = match &outcome {
            Ok(RoundOutcome::Everything(report)) if report.failed == 0 => {
                ReconciliationProgress { read_until: Some(now), compared_on: Some(now.day()) }
            }
            Ok(RoundOutcome::Changes(report)) if report.failed == 0 => {
                let read_until = Some(now.plus_seconds(-DELIVERY_S)).max(before.read_until);
                ReconciliationProgress { read_until, ..before }
            }
            _ => before,
        };
        reconciliations::release(&billing.store, self.node, &after).await?;
        self.slow_down(billing, &outcome);
        outcome
    }

    async fn carry_out(
        &mut self,
        billing: &BillingState,
        before: ReconciliationProgress,
        now: Timestamp,
    ) -> Result<RoundOutcome, Failure> {
        let is_new_day = before.compared_on != Some(now.day());
        let oldest = now.plus_seconds(-HOURS.saturating_mul(3_600));
        let since = before.read_until.filter(|time| *time >= oldest);
        if let Some(since) = since.filter(|_| self.has_compared && !is_new_day) {
            let from = since.plus_seconds(-OVERLAP_S).unix_seconds();
            let until = now.plus_seconds(-DELIVERY_S).unix_seconds();
            return reconcile::changes(billing, from, until).await.map(RoundOutcome::Changes);
        }
        let report = reconcile::run(billing, HOURS).await?;
        if report.failed == 0 {
            self.has_compared = true;
        }
        if is_new_day && report.limited_s.is_none() {
            compare_yesterday(billing, now.day().plus_days(-1)).await;
        }
        Ok(RoundOutcome::Everything(report))
    }

    /// Waits as long as the processor asks for, and twice as many rounds each time that it does.
    fn slow_down(&mut self, billing: &BillingState, outcome: &Result<RoundOutcome, Failure>) {
        let limited_s = match outcome {
            Ok(RoundOutcome::Everything(report) | RoundOutcome::Changes(report)) => {
                report.limited_s
            }
            _ => None,
        };
        let Some(wait_s) = limited_s else {
            self.limited = 0;
            self.not_before = None;
            return;
        };
        let rounds = 1_u32.checked_shl(self.limited).unwrap_or(SKIPPED_MAX).min(SKIPPED_MAX);
        self.limited = self.limited.saturating_add(1);
        let every_s = billing.config.processor.reconcile_every_s;
        let pause_s = every_s.saturating_mul(u64::from(rounds)).max(wait_s);
        let pause_s = i64::try_from(pause_s).unwrap_or(i64::MAX);
        self.not_before = Some(billing.clock.now().plus_seconds(pause_s));
        tracing::warn!(pause_s, "the payment processor limits requests: reconciling later");
    }
}

/// Keeps the claim until it is lost.
async fn keep(billing: &BillingState, node: NodeId) {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        let until = billing.clock.now().plus_seconds(LEASE_S);
        match reconciliations::renew(&billing.store, node, until).await {
            Ok(true) => {}
            Ok(false) => return,
            // Without the database nothing else can be done either; the claim may still hold.
            Err(error) => tracing::warn!(%error, "the claim on the reconciliation was not renewed"),
        }
    }
}

async fn compare_yesterday(billing: &BillingState, day: UtcDay) {
    match compare_days::compare(billing, day).await {
        Ok(0) => {
            tracing::info!(%day, "the day's payments match those of the processor");
        }
        Ok(differing) => tracing::error!(%day, differing, "payments differ from the processor's"),
        Err(error) => tracing::warn!(%error, %day, "the day's payments could not be compared"),
    }
}
