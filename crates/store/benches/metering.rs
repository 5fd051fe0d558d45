//! The cost of metering a call: its hold and its settlement, with many concurrent calls, as on a
//! busy node, as for a read: the settlement is there when the caller starts to wait for the hold.
//! Then the cost of reading usage while counts are pending. `cargo bench -p store`; to include
//! PostgreSQL, run it under `scripts/postgres run --`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark must fail when something unexpected happens, and it owns its tasks"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use domain::account::CreatorId;
use domain::charge::Outcome;
use domain::credits::Credits;
use domain::customer::TrialState;
use domain::id::{AuditId, CallId, CustomerId, DataKeyId, EntryId, KeyId, NodeId, RequestId};
use domain::key::{KeyHash, KeyScope};
use domain::lots::LotSource;
use domain::method::Method;
use domain::platform::Platform;
use domain::slot::AccountAllowances;
use domain::time::Timestamp;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};
use store::accounts::{ConnectionOutcome, NewAccount, SealedCredentials};
use store::audit::AuditEntry;
use store::customers::{NewCustomer, PasswordHash};
use store::keys::{NewKey, NewSecret};
use store::ledger::CreditGrant;
use store::metering::{self, BatchReport, CallResolution, Hold, HoldOutcome, Meter, MeterOptions};
use store::usage::{self, UsageOf};
use store::{DatabaseKind, Store, testing};
use tokio::runtime::Runtime;

const NOON: Timestamp = Timestamp::from_unix_micros(1_795_262_400_000_000);
const KEYS: u64 = 50;
const AT_ONCE: [u64; 2] = [32, 256];

/// A unique number.
fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Unique bytes in no order.
fn unique() -> [u8; 10] {
    let mut bytes = [0; 10];
    let number = next().wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    bytes.iter_mut().zip(number).for_each(|(byte, part)| *byte = part);
    bytes
}

/// A customer with credits, an account and some keys.
#[derive(Clone)]
struct BenchCaller {
    customer: CustomerId,
    keys: Arc<[(KeyId, KeyHash)]>,
    account: CreatorId,
    account_version: i64,
}

fn new_key() -> NewKey {
    let mut hash = [0; 32];
    hash.iter_mut().zip(unique()).for_each(|(byte, part)| *byte = part);
    NewKey {
        id: KeyId::new(NOON, unique()),
        name: "first".to_owned(),
        secret: NewSecret {
            hash: KeyHash::from_bytes(&hash).unwrap(),
            shown_prefix: "cgw_live_0000".to_owned(),
            shown_suffix: "0000".to_owned(),
        },
        scope: KeyScope::Full,
        accounts: Vec::new(),
        monthly_budget: None,
        expires_at: None,
    }
}

fn entry(customer: CustomerId) -> AuditEntry {
    AuditEntry {
        id: AuditId::new(NOON, unique()),
        customer,
        at: NOON,
        actor: "session".to_owned(),
        action: "account.connected".to_owned(),
        details: String::new(),
    }
}

impl BenchCaller {
    async fn register(store: &Store) -> Self {
        let first_key = new_key();
        let mut keys = vec![(first_key.id, first_key.secret.hash)];
        let new = NewCustomer {
            id: CustomerId::new(NOON, unique()),
            email: format!("c{}@example.com", next()).parse().unwrap(),
            name: "Ada".to_owned(),
            password_hash: PasswordHash("$argon2id$".to_owned()),
            email_verified_at: None,
            trial: TrialState::Pending,
            created_at: NOON,
            first_key,
        };
        let customer = new.id;
        store::customers::create(store, &new).await.unwrap();
        for _ in 1..KEYS {
            let key = new_key();
            store::keys::create(store, customer, &key, 100, &entry(customer)).await.unwrap();
            keys.push((key.id, key.secret.hash));
        }
        let (account, account_version) = Self::connect(store, customer).await;
        Self::grant(store, customer).await;
        Self { customer, keys: keys.into(), account, account_version }
    }

    async fn connect(store: &Store, customer: CustomerId) -> (CreatorId, i64) {
        let creator_id: CreatorId = "ada".parse().unwrap();
        let account = NewAccount {
            customer,
            creator_id: creator_id.clone(),
            platform: Platform::ALPHA,
            platform_account_id: "4711".to_owned(),
            authority: store::authority::ChangeAuthority::Operator,
            replaces_identity: false,
            cookies: None,
            credentials: SealedCredentials {
                sealed: vec![1, 2, 3],
                data_key: DataKeyId::new(NOON, [1; 10]),
                scopes: None,
                token_expires_at: None,
            },
            at: NOON,
            allowances: Arc::new(AccountAllowances::of_each(1_000)),
            entry: entry(customer),
        };
        let connected = store::accounts::connect(store, &account).await.unwrap();
        let ConnectionOutcome::Connected { version, .. } = connected else {
            panic!("{connected:?}")
        };
        (creator_id, version)
    }

    async fn grant(store: &Store, customer: CustomerId) {
        let entry = EntryId::new(NOON, unique());
        let source_id = entry.to_string();
        let grant = CreditGrant {
            entry,
            customer,
            amount: Credits::from_whole(1_000_000_000_000),
            kind: "gift",
            source: "adj",
            source_id: &source_id,
            reference: None,
            lot: LotSource::Gift,
            expires_at: None,
            at: NOON,
        };
        store::ledger::grant(store, &grant).await.unwrap();
    }

    fn hold(&self, number: u64) -> Hold {
        // Calls begin one after another, and their ids contain the time.
        let held_at = NOON.plus_micros(i64::try_from(next()).unwrap() * 40);
        let place = usize::try_from(number % KEYS).unwrap();
        let (key, key_hash) = *self.keys.get(place).unwrap();
        Hold {
            call_id: CallId::new(held_at, unique()),
            customer: self.customer,
            key,
            key_hash,
            key_version: 0,
            account: self.account.clone(),
            account_version: self.account_version,
            platform: Platform::ALPHA,
            method: Method::Get,
            route: Arc::from("users/me"),
            path: "users/me".to_owned(),
            cost: Credits::from_whole(1),
            held_at,
            expires_at: held_at.plus_seconds(170),
            request_id: RequestId::new(held_at, unique()).to_string(),
            idempotency: None,
            tag: None,
        }
    }
}

fn end_of(hold: &Hold) -> CallResolution {
    CallResolution {
        call_id: hold.call_id,
        outcome: Outcome::Answered,
        status: Some(200),
        resolved_at: hold.held_at.plus_seconds(1),
        duration_ms: 7,
        upstream_ms: Some(5),
        answer: None,
        frees_key: false,
    }
}

/// One read: the hold, the round trip to the platform, the settlement, and waiting for its hold.
async fn call(meter: &Meter, hold: Hold) {
    let end = end_of(&hold);
    let mut reservation = meter.reserve_read(hold).await.unwrap();
    if !reservation.may_leave() {
        assert!(matches!(reservation.durable().await, HoldOutcome::Held { .. }));
    }
    tokio::task::yield_now().await;
    reservation.resolve(end);
    let outcome = reservation.durable().await;
    assert!(matches!(outcome, HoldOutcome::Held { .. }), "{outcome:?}");
}

/// Makes `count` calls from `at_once` concurrent callers, each waiting for its result.
async fn calls(meter: &Meter, caller: &BenchCaller, count: u64, at_once: u64) -> Duration {
    let left = Arc::new(AtomicU64::new(count));
    let begun = Instant::now();
    let mut callers = Vec::new();
    for first in 0..at_once {
        let (meter, caller, left) = (meter.clone(), caller.clone(), Arc::clone(&left));
        callers.push(tokio::spawn(async move {
            let mut number = first;
            let one_less = |some: u64| some.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
                call(&meter, caller.hold(number)).await;
                number += 1;
            }
        }));
    }
    for task in callers {
        task.await.unwrap();
    }
    begun.elapsed()
}

/// How the writer spent its time: commits, holds, settlements, and the microseconds from the start
/// of each transaction to the end of its commit.
#[derive(Default)]
struct WriterTime {
    batches: AtomicU64,
    holds: AtomicU64,
    ends: AtomicU64,
    busy_us: AtomicU64,
}

impl WriterTime {
    fn add(&self, report: &BatchReport) {
        let micros = u64::try_from(report.duration.as_micros()).unwrap();
        let parts = [
            (&self.batches, 1),
            (&self.holds, u64::try_from(report.holds).unwrap()),
            (&self.ends, u64::try_from(report.resolutions).unwrap()),
            (&self.busy_us, micros),
        ];
        for (total, part) in parts {
            total.fetch_add(part, Ordering::Relaxed);
        }
    }

    /// Prints what was added since the last time.
    #[expect(clippy::cast_precision_loss, reason = "the figures are small")]
    fn report(&self, what: &str) {
        let take = |total: &AtomicU64| total.swap(0, Ordering::Relaxed) as f64;
        let (batches, holds) = (take(&self.batches), take(&self.holds));
        if holds < 1.0 {
            return;
        }
        let (ends, busy_us) = (take(&self.ends), take(&self.busy_us));
        println!(
            "{what}: {:.0} holds and {:.0} settlements in a commit of {:.2} ms: {:.1} us of the writer for each \
             call, at most {:.0} calls a second",
            holds / batches,
            ends / batches,
            busy_us / batches / 1e3,
            busy_us / holds,
            holds / busy_us * 1e6,
        );
    }
}

/// A meter as the server creates it for one core, with its writer on a separate thread.
fn start(
    runtime: &Runtime,
    store: &Store,
    spent: &Arc<WriterTime>,
) -> (Meter, std::thread::JoinHandle<()>) {
    let mut options = MeterOptions::new(NodeId::new(NOON, [9; 10]), 1);
    let spent = Arc::clone(spent);
    options.on_batch = Arc::new(move |report| spent.add(report));
    options.queue_age_max = Duration::from_mins(1);
    let (meter, writer) = metering::start(store, options);
    let thread = std::thread::Builder::new().name("metering".to_owned());
    let body = move || {
        let own = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        own.block_on(writer.run());
    };
    let thread = thread.spawn(body).unwrap();
    let (meter, dispatcher) = meter.on_one_runtime();
    runtime.spawn(dispatcher.run());
    (meter, thread)
}

/// What the database has written so far: its calls, the bytes of their table with its indexes (on
/// SQLite of the whole file), and on PostgreSQL the bytes of its write-ahead log.
fn written(runtime: &Runtime, store: &Store) -> [i64; 3] {
    const SQLITE: &str = "
        select cast((select count(*) from calls) as text) || ' ' || cast(page_count * page_size as text)
            || ' 0' as line
        from pragma_page_count(), pragma_page_size()";
    const POSTGRES: &str = "
        select concat((select count(*) from calls), ' ', 
            pg_total_relation_size('open_calls') + pg_total_relation_size('ended_calls')
            + pg_total_relation_size('words'), ' ',
            cast(pg_current_wal_lsn() - '0/0' as bigint)) as line";
    let sql = match store.database() {
        DatabaseKind::Sqlite => SQLITE,
        DatabaseKind::Postgres => POSTGRES,
    };
    let lines = runtime.block_on(testing::lines(store, sql)).unwrap();
    let mut numbers = lines.first().unwrap().split(' ').map(|number| number.parse().unwrap());
    std::array::from_fn(|_| numbers.next().unwrap())
}

/// Prints what each call since `before` took.
fn report_space(store: &Store, before: [i64; 3], after: [i64; 3]) {
    let [calls, stored, log] = std::array::from_fn(|place| after[place] - before[place]);
    let calls = calls.max(1);
    println!(
        "{:?}: {calls} calls, {} bytes stored and {} bytes of write-ahead log for each",
        store.database(),
        stored / calls,
        log / calls
    );
}

/// Prints how many pages of the file a commit of some calls writes, by the frames of SQLite's
/// write-ahead log.
#[expect(clippy::cast_precision_loss, reason = "the figures are small")]
fn report_pages(
    runtime: &Runtime,
    path: &str,
    (meter, caller): (&Meter, &BenchCaller),
    spent: &WriterTime,
) {
    const CALLS: u64 = 50;
    let options = SqliteConnectOptions::new().filename(path);
    let mut connection = runtime.block_on(options.connect()).unwrap();
    let mut frames = |mode: &str| {
        let sql = format!("pragma wal_checkpoint({mode})");
        let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(&mut connection);
        runtime.block_on(row).unwrap().get::<i64, _>("log")
    };
    spent.report("SQLite, before");
    let mut pages = Vec::new();
    for _ in 0..400 {
        frames("truncate");
        let before = spent.batches.load(Ordering::Relaxed);
        runtime.block_on(calls(meter, caller, CALLS, CALLS));
        if spent.batches.load(Ordering::Relaxed) - before == 1 {
            pages.push(frames("passive"));
        }
    }
    pages.sort_unstable();
    let mean = pages.iter().sum::<i64>() as f64 / pages.len() as f64;
    println!(
        "SQLite: a commit of {CALLS} calls writes {} to {} pages, {mean:.1} on average ({} commits)",
        pages[pages.len() / 10],
        pages[pages.len() * 9 / 10],
        pages.len(),
    );
}

/// The queries behind a customer's usage page.
fn read_usage(
    criterion: &mut Criterion,
    runtime: &Runtime,
    store: &Store,
    (meter, caller): (&Meter, &BenchCaller),
) {
    for _ in 0..20 {
        runtime.block_on(calls(meter, caller, 20, 20));
    }
    let of = UsageOf { customer: caller.customer, key: None, only_allowed: false };
    let today = NOON.day();
    let mut group = criterion.benchmark_group(format!("usage {:?}", store.database()));
    group.bench_function("spend", |bencher| {
        bencher.iter(|| runtime.block_on(usage::overview(store, of, today)).unwrap());
    });
    group.bench_function("days", |bencher| {
        bencher.iter(|| runtime.block_on(usage::daily(store, of, today, 2)).unwrap());
    });
    group.bench_function("hot failure", |bencher| {
        bencher.iter(|| runtime.block_on(usage::hot_failure(store, of, today)).unwrap());
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for store in [runtime.block_on(testing::store())] {
        let caller = runtime.block_on(BenchCaller::register(&store));
        let spent = Arc::new(WriterTime::default());
        let (meter, writer) = start(&runtime, &store, &spent);
        let before = written(&runtime, &store);
        let mut group = criterion.benchmark_group(format!("metering {:?}", store.database()));
        group.throughput(Throughput::Elements(1)).measurement_time(Duration::from_secs(8));
        for at_once in AT_ONCE {
            group.bench_function(format!("{at_once} concurrent"), |bencher| {
                bencher
                    .iter_custom(|count| runtime.block_on(calls(&meter, &caller, count, at_once)));
            });
            spent.report(&format!("{:?}, {at_once} concurrent calls", store.database()));
        }
        group.finish();
        report_space(&store, before, written(&runtime, &store));
        if let Some(path) = store.options().url.strip_prefix("sqlite:") {
            report_pages(&runtime, path, (&meter, &caller), &spent);
        }
        read_usage(&mut criterion, &runtime, &store, (&meter, &caller));
        drop(meter);
        writer.join().unwrap();
        runtime.block_on(async { drop(store) });
    }
}
