//! Metering: credits are held before a call is sent, and settled (charged or refunded) exactly once
//! when it ends.
//!
//! One writer collects requests while the previous commit is flushed, and writes them in one
//! transaction; callers are notified after the commit. On SQLite the process is the authority for
//! every balance, so credits are reserved in memory immediately and the hold becomes durable with
//! the batch. On PostgreSQL only the committed hold counts; a read may be sent before it, if the
//! balance that this node last saw covers it with a margin, but its response waits for the commit,
//! which may refuse it. A call's row is its hold, its log entry and its receipt; the transaction
//! that ends the call moves it out of `open_calls`.

mod batch;
mod budget;
mod count;
mod end;
mod hold;
mod live_calls;
mod meter;
mod new_calls;
mod options;
mod outcome_dispatcher;
mod queue;
mod reads_in_transaction;
mod recovery;
mod rows;
mod seen_balances;
mod usage_json;
mod withheld;
mod writer;
mod writer_cache;

pub use crate::idempotency::IdempotencyClaim;
pub(crate) use budget::used_in;
pub use hold::{CallResolution, Hold, HoldOutcome, HoldRefusal};
pub use meter::{Meter, PendingHold, PendingResolution, SeparateResolution, start};
pub use new_calls::count_set_aside;
pub(crate) use new_calls::sort_in;
pub use options::{BatchReport, MeterOptions, MeterStats};
pub use outcome_dispatcher::OutcomeDispatcher;
pub use recovery::{EpochRecovery, recover};
pub(crate) use recovery::{ExpiredHold, expired, refund};
pub(crate) use seen_balances::LockedSight;
pub use writer::MeterWriter;
