//! Jobs as they are written, and errors as the operator reads them.

use domain::id::CustomerId;
use domain::job::{AddressChange, JobKind, PayerDeletion};
use domain::time::Timestamp;
use failures::Failure;
use jobs::{JobError, JobQueue, chain, payload};
use runtime::{Clock, Random};
use store::jobs::{Job, NewJob};

const NOW: Timestamp = Timestamp::from_unix_micros(1_790_000_000_000_000);

fn queue() -> JobQueue {
    JobQueue::new(Clock::manual(NOW), Random::seeded(1))
}

fn claimed(new: &NewJob) -> Job {
    let NewJob { id, kind, payload, created_at } = new.clone();
    Job { id, kind, payload, created_at, attempt: 1 }
}

#[test]
fn a_job_is_dated_now_and_carries_what_it_needs() {
    let customer = CustomerId::new(NOW, [1; 10]);
    let queue = queue();

    let first = queue.job(JobKind::UpdateEmail, &AddressChange { customer });
    let second = queue.job(JobKind::UpdateEmail, &AddressChange { customer });

    assert_eq!((first.created_at, first.id.made_at()), (NOW, Some(NOW)));
    assert_ne!(first.id, second.id);
    assert_eq!(first.payload, format!("{{\"customer\":\"{customer}\"}}"));
    let read: AddressChange = payload(&claimed(&first)).unwrap();
    assert_eq!(read.customer, customer);
}

/// A newer node may have written it, so it is retried and not given up at once.
#[test]
fn a_payload_that_cannot_be_read_is_retried() {
    for wrong in ["", "null", "{}", "{\"processor_customer\":7}", "[]"] {
        let mut job = claimed(&queue().job(JobKind::DeletePayer, &()));
        job.payload = wrong.to_owned();
        let Err(JobError::Later(text)) = payload::<PayerDeletion>(&job) else {
            panic!("{wrong} was read or given up")
        };
        assert!(text.starts_with("the payload cannot be read: "), "{text}");
    }
}

#[derive(Debug)]
struct Layer(&'static str, Option<Box<Layer>>);

impl std::fmt::Display for Layer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Layer {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.1.as_deref().map(|below| below as _)
    }
}

#[test]
fn the_operator_reads_an_error_with_all_its_causes() {
    let lowest = Layer("connection refused", None);
    let middle = Layer("the server cannot be reached", Some(Box::new(lowest)));
    let error = Layer("the email was not sent", Some(Box::new(middle)));

    let text = "the email was not sent: the server cannot be reached: connection refused";
    assert_eq!(chain(&error), text);
    assert_eq!(JobError::later(&error), JobError::Later(text.to_owned()));
    assert_eq!(chain(&Layer("alone", None)), "alone");
}

#[test]
fn failures_of_the_store_and_of_services_are_retried() {
    let url = || store::StoreError::Url("no database".to_owned());

    assert_eq!(JobError::from(url()), JobError::Later("no database".to_owned()));
    let failure = JobError::from(Failure::Store(url()));
    let text = "something went wrong on our side; nothing was charged: no database";
    assert_eq!(failure, JobError::Later(text.to_owned()));
    assert!(matches!(JobError::from(Failure::Overloaded), JobError::Later(_)));
}
