//! The database fails midway: holds are refused, settlements are kept, and no caller gets a wrong
//! outcome.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use domain::charge::Outcome;
use store::calls::{self, RecentCalls};
use store::metering::{HoldOutcome, HoldRefusal, MeterOptions};
use store::{DatabaseKind, OpenOptions, Store, StoreAccess, testing};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{TestCaller, TestMetering, assert_sound, credits, is_held, node, resolution};

async fn logged(store: &Store, caller: &TestCaller) -> usize {
    let wanted = RecentCalls::of(caller.customer, 10_000);
    calls::recent(store, &wanted).await.unwrap().calls.len()
}

/// Statements that make the database refuse every settlement, and undo that.
const fn refusing_ends(database: DatabaseKind) -> (&'static str, &'static str) {
    match database {
        DatabaseKind::Sqlite => (
            "create trigger refuse_ends before insert on new_calls
             begin select raise(abort, 'refused for the test'); end",
            "drop trigger refuse_ends",
        ),
        DatabaseKind::Postgres => (
            "create trigger refuse_ends before insert on ended_calls
             for each row execute function refuse_change('refused for the test')",
            "drop trigger refuse_ends on ended_calls",
        ),
    }
}

#[tokio::test]
async fn a_settlement_is_retried_until_it_is_written() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let options = MeterOptions {
        on_batch: Arc::new(move |report| sender.send(report.committed).unwrap_or(())),
        ..MeterOptions::new(node(), 1)
    };
    let metering = TestMetering::with(&store, options);
    let hold = caller.hold(4);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert_eq!(reports.recv().await, Some(true));
    let (refuse, allow) = refusing_ends(store.database());
    testing::run_raw(&store, refuse).await.unwrap();

    let ended = metering.meter.resolve(resolution(hold.call_id, Outcome::Answered));
    assert_eq!(reports.recv().await, Some(false));
    assert!(!store.is_healthy());
    assert_eq!(caller.balance(&store).await.held, credits(4));
    testing::run_raw(&store, allow).await.unwrap();

    assert!(ended.await);
    assert!(store.is_healthy());
    assert_eq!(caller.balance(&store).await.spent, credits(4));
    assert_sound(&store).await;
}

#[tokio::test]
async fn holds_are_refused_while_settlements_cannot_be_written() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let options = MeterOptions {
        on_batch: Arc::new(move |report| sender.send(report.committed).unwrap_or(())),
        queue_age_max: Duration::ZERO,
        ..MeterOptions::new(node(), 1)
    };
    let metering = TestMetering::with(&store, options);
    let hold = caller.hold(4);
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert_eq!(reports.recv().await, Some(true));
    let (refuse, allow) = refusing_ends(store.database());
    testing::run_raw(&store, refuse).await.unwrap();
    let ended = metering.meter.resolve(resolution(hold.call_id, Outcome::Answered));
    assert_eq!(reports.recv().await, Some(false));

    let refused = metering.meter.reserve(caller.hold(1)).await;

    assert!(matches!(refused, Err(HoldRefusal::Unavailable)), "{refused:?}");
    testing::run_raw(&store, allow).await.unwrap();
    assert!(ended.await);
    assert!(is_held(&metering.hold(caller.hold(6)).await), "no reservation is left");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_full_disk_fails_only_the_hold() {
    let store = testing::sqlite().await;
    let caller = TestCaller::with(&store, 1_000_000).await;
    let metering = TestMetering::start(&store).await;
    // The file may not grow any more on this connection.
    testing::run_raw_metering(&store, "pragma max_page_count = 1").await.unwrap();
    let mut held = 0;
    let failed = loop {
        match metering.hold(caller.hold(1)).await {
            HoldOutcome::Held { .. } => held += 1,
            HoldOutcome::Failed(error) => break error,
            other => panic!("{other:?}"),
        }
        assert!(held < 10_000, "the file grew");
    };

    // The writer has replaced its connection, so the file may grow again.
    assert!(is_held(&metering.hold(caller.hold(1)).await), "after {failed}");

    assert_eq!(logged(&store, &caller).await, held + 1);
    assert!(store.is_healthy());
    assert_sound(&store).await;
}

#[tokio::test]
async fn an_idle_node_detects_that_the_database_recovered() {
    let store = testing::sqlite().await;
    let caller = TestCaller::with(&store, 1_000_000).await;
    let metering = TestMetering::start(&store).await;
    testing::run_raw_metering(&store, "pragma max_page_count = 1").await.unwrap();
    while is_held(&metering.hold(caller.hold(1)).await) {}
    assert!(!store.is_healthy());

    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    let recovered = tokio::time::timeout(Duration::from_secs(30), async {
        while !store.is_healthy() {
            ticks.tick().await;
        }
    });

    assert!(recovered.await.is_ok());
    assert_eq!(metering.meter.stats().failed_batch_total, 1);
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn lost_connections_neither_lose_nor_invent_holds() {
    let store = testing::postgres().await;
    let caller = TestCaller::with(&store, 100_000).await;
    let metering = TestMetering::start(&store).await;
    let mut granted = 0;

    for _ in 0..8 {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..60 {
            let (meter, hold) = (metering.meter.clone(), caller.hold(1));
            tasks.spawn(async move { meter.reserve(hold).await.unwrap().durable().await });
        }
        // This also ends its own connection, so it returns an error.
        let ended = testing::run_raw(
            &store,
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid()",
        );
        drop(ended.await);
        let outcomes = tasks.join_all().await;
        granted += outcomes.iter().filter(|outcome| is_held(outcome)).count();
        let others = outcomes.iter().filter(|outcome| !is_held(outcome));
        for outcome in others {
            assert!(matches!(outcome, HoldOutcome::Failed(_)), "{outcome:?}");
        }
    }

    assert_eq!(logged(&store, &caller).await, granted);
    assert_sound(&store).await;
}

/// What the proxy does with the next commit.
const PASS: u8 = 0;
const LOSE_ANSWER: u8 = 1;
const LOSE_COMMIT: u8 = 2;
/// The commit arrives; from then on nothing passes over its connection, which stays open.
const SILENCE_AFTER: u8 = 3;
/// Like `SILENCE_AFTER`, but the commit does not arrive.
const SILENCE_BEFORE: u8 = 4;

/// A proxy in front of PostgreSQL that can lose a commit, or the response to one.
async fn proxy(upstream: (String, u16)) -> (u16, Arc<AtomicU8>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let fault = Arc::new(AtomicU8::new(PASS));
    let next = Arc::clone(&fault);
    let serve = async move {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect((upstream.0.as_str(), upstream.1)).await.unwrap();
            let relay = relay(client, server, Arc::clone(&next));
            #[expect(clippy::disallowed_methods, reason = "ends with the runtime of the test")]
            tokio::spawn(relay);
        }
    };
    #[expect(clippy::disallowed_methods, reason = "ends with the runtime of the test")]
    tokio::spawn(serve);
    (port, fault)
}

async fn relay(mut client: TcpStream, mut server: TcpStream, fault: Arc<AtomicU8>) {
    let (mut asked, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(count @ 1..) = read else { return };
                let is_commit = asked[..count].windows(7).any(|bytes| bytes == b"commit\0");
                let fault = if is_commit { fault.swap(PASS, Ordering::SeqCst) } else { PASS };
                if fault == LOSE_COMMIT {
                    return;
                }
                if fault == SILENCE_BEFORE {
                    return std::future::pending().await;
                }
                if server.write_all(&asked[..count]).await.is_err() {
                    return;
                }
                if fault == LOSE_ANSWER {
                    // The server has responded, so the commit is done, but the response is lost.
                    drop(server.read(&mut answered).await);
                    return;
                }
                if fault == SILENCE_AFTER {
                    return std::future::pending().await;
                }
            }
            read = server.read(&mut answered) => {
                let Ok(count @ 1..) = read else { return };
                if client.write_all(&answered[..count]).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// The URL of a store's database with another address, and its real address.
fn moved(store: &testing::TestStore, to: &str) -> (String, (String, u16)) {
    let url = &store.options().url;
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, path) = rest.split_once('/').unwrap();
    let (role, address) = authority.rsplit_once('@').unwrap();
    let (host, port) = address.rsplit_once(':').unwrap();
    (format!("{scheme}://{role}@{to}/{path}"), (host.to_owned(), port.parse().unwrap()))
}

/// A store whose connections go through the proxy.
async fn through_proxy(store: &testing::TestStore) -> (Store, Arc<AtomicU8>) {
    let (_, upstream) = moved(store, "");
    let (proxy_port, fault) = proxy(upstream).await;
    let (proxied, _) = moved(store, &format!("127.0.0.1:{proxy_port}"));
    let options = OpenOptions { connections_max: 2, ..OpenOptions::new(proxied) };
    (Store::open(&options).await.unwrap(), fault)
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_commit_with_a_lost_response_is_detected() {
    let direct = testing::postgres().await;
    let caller = TestCaller::with(&direct, 10).await;
    let (store, fault) = through_proxy(&direct).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(4);

    fault.store(LOSE_ANSWER, Ordering::SeqCst);
    let granted = metering.hold(hold.clone()).await;
    fault.store(LOSE_ANSWER, Ordering::SeqCst);
    let ended = metering.end(hold.call_id, Outcome::Answered).await;

    assert!(is_held(&granted), "{granted:?}");
    assert!(ended);
    assert_eq!(metering.meter.stats().failed_batch_total, 2);
    assert_eq!(caller.balance(&direct).await.spent, credits(4));
    assert_sound(&direct).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_lost_commit_holds_nothing() {
    let direct = testing::postgres().await;
    let caller = TestCaller::with(&direct, 10).await;
    let (store, fault) = through_proxy(&direct).await;
    let metering = TestMetering::start(&store).await;

    fault.store(LOSE_COMMIT, Ordering::SeqCst);
    let lost = metering.hold(caller.hold(4)).await;
    let hold = caller.hold(4);
    let kept = metering.hold(hold.clone()).await;
    fault.store(LOSE_COMMIT, Ordering::SeqCst);
    let ended = metering.end(hold.call_id, Outcome::Answered).await;

    assert!(matches!(lost, HoldOutcome::Failed(_)), "{lost:?}");
    assert!(is_held(&kept), "{kept:?}");
    assert!(ended);
    assert_eq!(logged(&direct, &caller).await, 1);
    assert_eq!(caller.balance(&direct).await.available, credits(6));
    assert_sound(&direct).await;
}

/// Options that soon discard a connection that does not respond.
fn impatient() -> MeterOptions {
    MeterOptions { batch_deadline: Duration::from_millis(500), ..MeterOptions::new(node(), 1) }
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_silent_connection_is_discarded_and_its_commit_checked() {
    for (silence, is_committed) in [(SILENCE_AFTER, true), (SILENCE_BEFORE, false)] {
        let direct = testing::postgres().await;
        let caller = TestCaller::with(&direct, 10).await;
        let (store, fault) = through_proxy(&direct).await;
        let metering = TestMetering::with(&store, impatient());

        fault.store(silence, Ordering::SeqCst);
        let granted = metering.hold(caller.hold(4)).await;
        let again = metering.hold(caller.hold(1)).await;

        assert_eq!(is_held(&granted), is_committed, "{granted:?}");
        assert!(is_held(&again), "{again:?}");
        assert_eq!(logged(&direct, &caller).await, if is_committed { 2 } else { 1 });
        assert_sound(&direct).await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn holds_are_refused_as_unavailable_while_a_transaction_hangs() {
    let direct = testing::postgres().await;
    let caller = TestCaller::with(&direct, 10).await;
    let (store, fault) = through_proxy(&direct).await;
    let options = MeterOptions { queue_age_max: Duration::ZERO, ..MeterOptions::new(node(), 1) };
    let metering = TestMetering::with(&store, options);
    fault.store(SILENCE_AFTER, Ordering::SeqCst);
    let first = metering.meter.reserve(caller.hold(4)).await.unwrap();
    while metering.meter.stats().holds_waiting > 0 {
        tokio::task::yield_now().await;
    }

    // One hold waits behind the transaction; after it has waited too long, no more are accepted.
    let second = metering.meter.reserve(caller.hold(1)).await;
    let third = metering.meter.reserve(caller.hold(1)).await;

    assert!(second.is_ok(), "{second:?}");
    assert!(matches!(third, Err(HoldRefusal::Unavailable)), "{third:?}");
    drop((first, second));
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn an_idle_node_notices_outages_and_recoveries() {
    let direct = testing::postgres().await;
    let (store, fault) = through_proxy(&direct).await;
    let probe_every = Duration::from_millis(50);
    let options = MeterOptions { probe_every, ..impatient() };
    let _metering = TestMetering::with(&store, options);
    fault.store(LOSE_COMMIT, Ordering::SeqCst);

    for is_healthy in [false, true] {
        let noticed = tokio::time::timeout(Duration::from_secs(30), async {
            while store.is_healthy() != is_healthy {
                tokio::task::yield_now().await;
            }
        });
        assert!(noticed.await.is_ok(), "{is_healthy}");
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn the_host_that_accepts_writes_is_found() {
    let direct = testing::postgres().await;
    let caller = TestCaller::with(&direct, 10).await;
    let (_, (host, port)) = moved(&direct, "");
    // The first host refuses connections, and the second never responds.
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let unused = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
    let hosts = format!("{unused},{},{host}:{port}", silent.local_addr().unwrap());
    let (url, _) = moved(&direct, &hosts);
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}connect_timeout=1&target_session_attrs=read-write");

    let store = Store::open(&OpenOptions::new(url)).await.unwrap();

    let metering = TestMetering::start(&store).await;
    assert!(is_held(&metering.hold(caller.hold(4)).await));
    assert_eq!(caller.balance(&store).await.held, credits(4));
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_read_only_server_is_refused_with_the_reason() {
    let direct = testing::postgres().await;
    let url = direct.options().url.clone();
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}options=-c%20default_transaction_read_only%3Don");

    let refused = Store::open(&OpenOptions::new(url.clone())).await;
    let options = OpenOptions { access: StoreAccess::ReadOnly, ..OpenOptions::new(url) };
    let reader = Store::open(&options).await;

    let Err(error) = refused else { panic!("{refused:?}") };
    assert!(error.is_outage());
    assert!(
        error.to_string().ends_with("the server accepts no writes: it is set to read only"),
        "{error}"
    );
    assert!(reader.is_ok(), "{reader:?}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn errors_have_the_databases_message_and_code() {
    let store = testing::postgres().await;

    let refused = testing::run_raw(&store, "insert into no_such_table values (1)").await;

    let error = refused.unwrap_err().to_string();
    assert!(error.contains("\"no_such_table\" does not exist (SQLSTATE 42P01)"), "{error}");
}

#[tokio::test]
async fn holds_are_refused_while_one_has_waited_too_long() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let options = MeterOptions { queue_age_max: Duration::ZERO, ..MeterOptions::new(node(), 1) };
    // The writer does not run, so the waiting hold grows old.
    let (meter, writer) = store::metering::start(&store, options);
    let first = meter.reserve(caller.hold(1)).await;
    assert!(first.is_ok());

    let second = meter.reserve(caller.hold(1)).await;

    assert!(matches!(second, Err(HoldRefusal::Overloaded)), "{second:?}");
    let stats = meter.stats();
    assert_eq!((stats.holds_waiting, stats.resolutions_waiting), (1, 0));
    drop(writer);
    let outcome = first.unwrap().durable().await;
    assert!(!is_held(&outcome), "{outcome:?}");
}
