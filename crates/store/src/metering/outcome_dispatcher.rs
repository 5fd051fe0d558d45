//! Delivers outcomes to the runtime whose calls wait for them, all those of a commit together.
//!
//! Waking a task from another thread costs that thread a system call. One commit completes many
//! calls of a runtime, so their outcomes go into one mailbox, and one task on that runtime is woken
//! and delivers them from there at no such cost.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::HoldOutcome;
use super::queue::HoldRequest;

/// A hold and its outcome. The request returns to the runtime it came from, which frees its memory.
pub(crate) type HoldDelivery = (HoldRequest, HoldOutcome);

/// The outcomes to be delivered on one runtime.
#[derive(Default)]
pub(crate) struct Mailbox {
    inside: Mutex<MailboxContent>,
    filled: Notify,
}

#[derive(Default)]
struct MailboxContent {
    deliveries: Vec<HoldDelivery>,
    /// The dispatcher is gone.
    is_closed: bool,
}

/// Delivers the writer's decisions. Spawn it on the runtime whose calls use its meter; it never
/// completes by itself. Once it is dropped, outcomes are sent from the writer's thread.
pub struct OutcomeDispatcher(Arc<Mailbox>);

impl Mailbox {
    /// Adds outcomes and wakes the dispatcher once.
    pub(crate) fn fill(&self, deliveries: Vec<HoldDelivery>) {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        if inside.is_closed {
            drop(inside);
            return hand_out(deliveries);
        }
        inside.deliveries.extend(deliveries);
        drop(inside);
        self.filled.notify_one();
    }

    fn empty(&self) -> Vec<HoldDelivery> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut inside.deliveries)
    }

    fn close(&self) -> Vec<HoldDelivery> {
        let mut inside = self.inside.lock().unwrap_or_else(PoisonError::into_inner);
        inside.is_closed = true;
        std::mem::take(&mut inside.deliveries)
    }
}

impl OutcomeDispatcher {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> Self {
        Self(mailbox)
    }

    /// Delivers outcomes until it is dropped.
    pub async fn run(self) {
        loop {
            self.0.filled.notified().await;
            hand_out(self.0.empty());
        }
    }
}

impl Drop for OutcomeDispatcher {
    fn drop(&mut self) {
        hand_out(self.0.close());
    }
}

impl std::fmt::Debug for OutcomeDispatcher {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("OutcomeDispatcher")
    }
}

/// Sends outcomes to waiting callers: of holds, and of settlements that came with them.
pub(crate) fn hand_out(deliveries: impl IntoIterator<Item = HoldDelivery>) {
    for (mut request, outcome) in deliveries {
        request.end.take().into_iter().for_each(|end| end.tell(outcome.is_held()));
        // The caller may have stopped waiting: its task settles the call in any case.
        request.reply.take().into_iter().for_each(|reply| drop(reply.send(outcome.clone())));
    }
}

#[cfg(test)]
mod tests {
    use domain::credits::Credits;
    use tokio::sync::oneshot;

    use super::*;
    use crate::metering::queue::tests::{its_end, request};

    fn delivery() -> (HoldDelivery, oneshot::Receiver<HoldOutcome>) {
        let (request, outcome) = request();
        ((request, HoldOutcome::Held { balance: Credits::ZERO }), outcome)
    }

    #[tokio::test]
    async fn all_outcomes_of_a_commit_are_delivered() {
        let mailbox = Arc::new(Mailbox::default());
        let dispatcher = OutcomeDispatcher::new(Arc::clone(&mailbox));
        let (deliveries, outcomes): (Vec<_>, Vec<_>) = (0..3).map(|_| delivery()).unzip();

        mailbox.fill(deliveries);
        let handing_out = dispatcher.run();

        let all_there = async {
            for outcome in outcomes {
                assert!(matches!(outcome.await, Ok(HoldOutcome::Held { .. })));
            }
        };
        tokio::select! {
            () = all_there => {}
            () = handing_out => unreachable!("a dispatcher never completes by itself"),
        }
    }

    #[test]
    fn a_settlement_sent_with_its_hold_counts_if_the_hold_does() {
        for (outcome, counts) in [
            (HoldOutcome::Held { balance: Credits::ZERO }, true),
            (HoldOutcome::Insufficient { balance: Credits::ZERO }, false),
        ] {
            let (mut request, _) = request();
            let (end, mut told) = its_end();
            request.end = Some(end);

            hand_out([(request, outcome)]);

            assert_eq!(told.try_recv(), Ok(counts));
        }
    }

    #[test]
    fn outcomes_arrive_after_the_dispatcher_is_dropped() {
        let mailbox = Arc::new(Mailbox::default());
        let (before, mut early) = delivery();
        let (after, mut late) = delivery();

        let dispatcher = OutcomeDispatcher::new(Arc::clone(&mailbox));
        mailbox.fill(vec![before]);
        drop(dispatcher);
        mailbox.fill(vec![after]);

        assert!(early.try_recv().is_ok());
        assert!(late.try_recv().is_ok());
    }
}
