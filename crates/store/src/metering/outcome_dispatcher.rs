//! Outcomes on their way to the runtime whose calls wait for them, all those of a commit at once.
//!
//! A task that is woken from another thread costs that thread a call into the kernel. A commit ends the waiting
//! of many calls of one runtime, so their outcomes go into one mailbox, one task of that runtime is woken, and it
//! hands them out where that costs nothing.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::HoldOutcome;
use super::queue::HoldRequest;

/// A hold and what became of it. The request goes back to the runtime it came from, which has its memory at hand.
pub(crate) type HoldDelivery = (HoldRequest, HoldOutcome);

/// What is to be handed out on one runtime.
#[derive(Default)]
pub(crate) struct Mailbox {
    inside: Mutex<MailboxContent>,
    filled: Notify,
}

#[derive(Default)]
struct MailboxContent {
    deliveries: Vec<HoldDelivery>,
    /// Nobody hands anything out any more.
    is_closed: bool,
}

/// Hands out what the writer decided. To be spawned on the runtime whose calls use the meter it belongs to;
/// it never ends by itself. Outcomes that come when it is gone are sent from the writer's thread.
pub struct OutcomeDispatcher(Arc<Mailbox>);

impl Mailbox {
    /// Puts outcomes in and wakes the dispatcher once.
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

    /// Hands out until it is dropped.
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
        formatter.write_str("Courier")
    }
}

/// Tells those who wait: for the end of a call that came with its hold, and for the hold.
pub(crate) fn hand_out(deliveries: impl IntoIterator<Item = HoldDelivery>) {
    for (mut request, outcome) in deliveries {
        request.end.take().into_iter().for_each(|end| end.tell(outcome.is_held()));
        // Whoever asked may be gone: its task ends the call in any case.
        drop(request.reply.send(outcome));
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
    async fn everything_of_a_commit_is_handed_out() {
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
            () = handing_out => unreachable!("a dispatcher never ends by itself"),
        }
    }

    #[test]
    fn the_end_that_came_with_a_hold_is_told_whether_it_counts() {
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
    fn outcomes_arrive_although_the_courier_is_gone() {
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
