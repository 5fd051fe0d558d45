//! The counts of one route: a moving window in steps, what was usual before it, and whether the
//! route is degraded.
//!
//! Counting takes no lock. Customers are hashed to slots and accounts to bits, so that the memory
//! is fixed. Two that share a place count as one, so there are never fewer of them than counted.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

use domain::time::{MICROS_PER_SECOND, Timestamp};
use parking_lot::Mutex;

use super::{DriftKind, DriftRule};

/// The steps of the window.
const STEPS: usize = 6;
/// The number of slots of customers. Each counts equally, whatever its number of calls.
pub(super) const SLOTS: usize = 32;
/// In the window, a slot with fewer calls counts as if it had this number, so that single failures
/// of customers who call rarely are no large share.
const CALLS_OF_SLOT_MIN: u64 = 4;
/// The number of bits by which accounts, and customers, are told apart.
pub(super) const BITS: usize = 64;
/// Shares are in parts of this.
const WHOLE: u64 = 1_000_000;
/// One percent.
const PERCENT: u64 = WHOLE / 100;

const KINDS: usize = DriftKind::ALL.len();

/// The counts of one route, or of several together.
#[derive(Debug, Default)]
pub(super) struct DriftLine {
    steps: [StepCounts; STEPS],
    /// The number of the latest step since 1970.
    latest: AtomicI64,
    /// One bit for each kind that is degraded.
    degraded: AtomicU8,
    state: Mutex<[KindState; KINDS]>,
}

/// The counts of one step of the window.
#[derive(Debug, Default)]
struct StepCounts {
    /// By slot.
    calls: [AtomicU32; SLOTS],
    kinds: [KindCounts; KINDS],
}

/// Failures of one kind.
#[derive(Debug, Default)]
struct KindCounts {
    /// By slot.
    failures: [AtomicU32; SLOTS],
    /// The accounts whose calls failed, one bit each.
    accounts: AtomicU64,
    /// The customers who own them, one bit each.
    customers: AtomicU64,
}

/// What is known of one kind beyond the window.
#[derive(Debug, Default)]
struct KindState {
    usual: UsualShare,
    /// Since when it is degraded, and its latest share in percent.
    degraded: Option<(Timestamp, u64)>,
}

/// The long-term share, from steps that have left the window.
#[derive(Debug, Default)]
struct UsualShare {
    /// The sum of the weights of all steps, older ones counting less.
    weight: u64,
    /// The sum of their shares times their weights.
    weighted: u64,
    calls: u64,
}

/// A call that failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineFailure {
    pub(super) kind: DriftKind,
    /// The account's bit, and its customer's.
    pub(super) account: usize,
    pub(super) customer: usize,
}

/// A line began or ceased to be degraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineChange {
    /// With this share, where another one is usual.
    Began { share_percent: u64, usual_percent: u64 },
    /// The share has come down.
    Ended,
}

/// Counts of one kind, summed.
#[derive(Debug, Default)]
struct KindTally {
    calls: u64,
    failures: u64,
    /// Slots with calls.
    slots: u64,
    /// The sum of the shares of all slots.
    shares: u64,
    /// Those whose calls failed.
    accounts: u32,
    customers: u32,
}

impl DriftLine {
    /// Counts one response of a customer in this slot.
    pub(super) fn count(
        &self,
        at: Timestamp,
        rule: &DriftRule,
        slot: usize,
        failed: Option<LineFailure>,
    ) {
        let Some(step) = self.steps.get(place_of(self.turn_to(at, rule))) else { return };
        add(&step.calls, slot);
        let Some(LineFailure { kind, account, customer }) = failed else { return };
        let Some(counts) = step.kinds.get(kind as usize) else { return };
        add(&counts.failures, slot);
        for (seen, place) in [(&counts.accounts, account), (&counts.customers, customer)] {
            let bit = 1 << (place % BITS);
            if seen.load(Ordering::Relaxed) & bit == 0 {
                seen.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// Decides anew whether a kind is degraded, and returns what has changed. Until enough calls
    /// have left the window, it is unknown what is usual, and nothing is degraded.
    pub(super) fn judge(
        &self,
        kind: DriftKind,
        now: Timestamp,
        rule: &DriftRule,
    ) -> Option<LineChange> {
        self.turn_to(now, rule);
        let tally = KindTally::of(&self.steps.iter(), kind, CALLS_OF_SLOT_MIN);
        let mut states = self.state.lock();
        let state = states.get_mut(kind as usize)?;
        let (share, usual) = (tally.share(), state.usual.share());
        match &mut state.degraded {
            Some(_) if share <= usual + rule.end_percent * PERCENT => {
                state.degraded = None;
                self.mark(kind, false);
                Some(LineChange::Ended)
            }
            Some((_, share_percent)) => {
                *share_percent = share / PERCENT;
                None
            }
            None => {
                if state.usual.calls < rule.calls_min || !tally.is_jump(usual, rule) {
                    return None;
                }
                let share_percent = share / PERCENT;
                state.degraded = Some((now, share_percent));
                self.mark(kind, true);
                Some(LineChange::Began { share_percent, usual_percent: usual / PERCENT })
            }
        }
    }

    /// The same, if the kind is degraded.
    pub(super) fn judge_degraded(
        &self,
        kind: DriftKind,
        now: Timestamp,
        rule: &DriftRule,
    ) -> Option<LineChange> {
        if !self.is_marked(kind) {
            return None;
        }
        self.judge(kind, now, rule)
    }

    /// Since when a kind is degraded, and its latest share in percent.
    pub(super) fn degradation(&self, kind: DriftKind) -> Option<(Timestamp, u64)> {
        if !self.is_marked(kind) {
            return None;
        }
        self.state.lock().get(kind as usize)?.degraded
    }

    /// A kind that is degraded, if any is.
    pub(super) fn first_degraded(&self) -> Option<DriftKind> {
        if self.degraded.load(Ordering::Relaxed) == 0 {
            return None;
        }
        DriftKind::ALL.into_iter().find(|kind| self.is_marked(*kind))
    }

    fn is_marked(&self, kind: DriftKind) -> bool {
        self.degraded.load(Ordering::Relaxed) & bit_of(kind) != 0
    }

    fn mark(&self, kind: DriftKind, is_degraded: bool) {
        if is_degraded {
            self.degraded.fetch_or(bit_of(kind), Ordering::Relaxed);
        } else {
            self.degraded.fetch_and(!bit_of(kind), Ordering::Relaxed);
        }
    }

    /// Moves the window to this time, and returns its latest step. Responses that are counted
    /// meanwhile on another core may be lost.
    fn turn_to(&self, at: Timestamp, rule: &DriftRule) -> i64 {
        let number = at.unix_micros().div_euclid(step_micros(rule));
        let before = self.latest.load(Ordering::Relaxed);
        if number <= before {
            return before;
        }
        let mut states = self.state.lock();
        // Another core may have moved it meanwhile.
        let latest = self.latest.load(Ordering::Relaxed);
        if number <= latest {
            return latest;
        }
        let all = i64::try_from(STEPS).unwrap_or(i64::MAX);
        for left in (latest + 1).max(number - all + 1)..=number {
            let Some(step) = self.steps.get(place_of(left)) else { continue };
            for (kind, state) in DriftKind::ALL.into_iter().zip(states.iter_mut()) {
                // What happens while it is degraded is not usual.
                if state.degraded.is_none() {
                    state.usual.add(&KindTally::of(&std::iter::once(step), kind, 1), rule);
                }
            }
            step.clear();
        }
        self.latest.store(number, Ordering::Relaxed);
        number
    }
}

impl StepCounts {
    fn clear(&self) {
        let failures = self.kinds.iter().flat_map(|kind| &kind.failures);
        for counter in self.calls.iter().chain(failures) {
            counter.store(0, Ordering::Relaxed);
        }
        for kind in &self.kinds {
            kind.accounts.store(0, Ordering::Relaxed);
            kind.customers.store(0, Ordering::Relaxed);
        }
    }
}

impl KindTally {
    fn of<'a>(
        steps: &(impl Iterator<Item = &'a StepCounts> + Clone),
        kind: DriftKind,
        calls_of_slot_min: u64,
    ) -> Self {
        let mut tally = Self::default();
        let of_kind = steps.clone().filter_map(|step| step.kinds.get(kind as usize));
        let distinct = |bits: fn(&KindCounts) -> &AtomicU64| {
            let seen = of_kind.clone().map(|counts| bits(counts).load(Ordering::Relaxed));
            seen.fold(0, |all, step| all | step).count_ones()
        };
        tally.accounts = distinct(|counts| &counts.accounts);
        tally.customers = distinct(|counts| &counts.customers);
        for slot in 0..SLOTS {
            let calls: u64 = steps.clone().map(|step| count_of(&step.calls, slot)).sum();
            let failures: u64 =
                of_kind.clone().map(|counts| count_of(&counts.failures, slot)).sum();
            if calls == 0 {
                continue;
            }
            // Two counters are never read at the same moment.
            let failures = failures.min(calls);
            tally.calls += calls;
            tally.failures += failures;
            tally.slots += 1;
            tally.shares += failures * WHOLE / calls.max(calls_of_slot_min);
        }
        tally
    }

    /// The share of failures: of all calls, or as the average of the slots, whichever is smaller.
    /// One customer with many failing calls raises only the first, several customers with one
    /// failing call each only the second.
    fn share(&self) -> u64 {
        let of_calls = self.failures * WHOLE / self.calls.max(1);
        let of_slots = self.shares / self.slots.max(1);
        of_calls.min(of_slots)
    }

    /// Whether this is far more than usual.
    fn is_jump(&self, usual: u64, rule: &DriftRule) -> bool {
        rule.calls_min <= self.calls
            && rule.accounts_min <= self.accounts
            && rule.customers_min <= self.customers
            && usual + rule.rise_percent * PERCENT <= self.share()
    }
}

impl UsualShare {
    fn share(&self) -> u64 {
        self.weighted / (self.weight / WHOLE).max(1)
    }

    /// Adds a step that has left the window, by the number of its slots with calls.
    fn add(&mut self, step: &KindTally, rule: &DriftRule) {
        if step.calls == 0 {
            return;
        }
        let covered = rule.baseline_s.saturating_mul(MICROS_PER_SECOND) / step_micros(rule);
        let steps = u64::try_from(covered).unwrap_or(1).max(1);
        let fade = |sum: u64| sum - sum / steps;
        self.weight = fade(self.weight) + step.slots * WHOLE;
        self.weighted = fade(self.weighted) + step.slots * step.share();
        self.calls = fade(self.calls) + step.calls;
    }
}

fn step_micros(rule: &DriftRule) -> i64 {
    let steps = i64::try_from(STEPS).unwrap_or(1);
    (rule.window_s.saturating_mul(MICROS_PER_SECOND) / steps).max(1)
}

fn place_of(number: i64) -> usize {
    let steps = i64::try_from(STEPS).unwrap_or(1);
    usize::try_from(number.rem_euclid(steps)).unwrap_or(0)
}

const fn bit_of(kind: DriftKind) -> u8 {
    1 << kind as u8
}

fn add(counters: &[AtomicU32; SLOTS], slot: usize) {
    if let Some(counter) = counters.get(slot) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn count_of(counters: &[AtomicU32; SLOTS], slot: usize) -> u64 {
    counters.get(slot).map_or(0, |counter| u64::from(counter.load(Ordering::Relaxed)))
}
