//! Usage: counts by day, and the endpoint that keeps failing.

use std::sync::Arc;
use std::time::Duration;

use domain::charge::Outcome;
use domain::time::{Timestamp, UtcDay};
use store::metering::{CallResolution, Hold};
use store::usage::{self, CreditOverview, DayUsage, UsageOf};
use store::{DatabaseKind, Store, testing};

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, create_key, credits, fresh_secret, is_held,
    new_key, resolution,
};

const DAY_SECONDS: i64 = 86_400;

fn today() -> UtcDay {
    NOON.day()
}

fn days_ago(days: i64) -> Timestamp {
    NOON.plus_seconds(-days * DAY_SECONDS)
}

/// Holds and settles a call.
async fn call(metering: &TestMetering, hold: Hold, end: CallResolution) {
    assert!(is_held(&metering.hold(hold.clone()).await));
    assert!(metering.meter.resolve(CallResolution { call_id: hold.call_id, ..end }).await);
}

fn ended(outcome: Outcome, status: Option<u16>) -> CallResolution {
    let any = domain::id::CallId::new(NOON, [0; 10]);
    CallResolution { status, ..resolution(any, outcome) }
}

#[tokio::test]
async fn days_are_counted_and_empty_days_are_zero() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let hold = |at| Hold { held_at: at, ..caller.hold(2) };
    call(&metering, hold(days_ago(2)), ended(Outcome::Answered, Some(200))).await;
    call(&metering, hold(days_ago(2)), ended(Outcome::Answered, Some(404))).await;
    call(&metering, hold(NOON), ended(Outcome::Answered, Some(302))).await;
    call(&metering, hold(NOON), ended(Outcome::Upstream5xx, Some(500))).await;
    let open = metering.hold(hold(NOON)).await;
    assert!(is_held(&open));

    let of = UsageOf { customer: caller.customer, key: None, only_allowed: false };
    let days = usage::daily(&store, of, today(), 3).await.unwrap();

    let day = |back: i64, calls, spent, ok, errors| DayUsage {
        day: today().plus_days(-back),
        calls,
        exports: 0,
        credits: credits(spent),
        ok,
        errors,
    };
    assert_eq!(days, [day(2, 2, 4, 1, 1), day(1, 0, 0, 0, 0), day(0, 2, 2, 1, 1)]);
    assert_sound(&store).await;
}

#[tokio::test]
async fn counts_stay_correct_while_others_write() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let routes: [Arc<str>; 2] = ["users/me".into(), "chats".into()];
    for _ in 0..3 {
        for (route, status) in routes.iter().zip([200, 404]) {
            let hold = Hold { route: Arc::clone(route), ..caller.hold(2) };
            call(&metering, hold.clone(), ended(Outcome::Answered, Some(status))).await;
            let again = Hold { call_id: caller.hold(2).call_id, ..hold };
            call(&metering, again, ended(Outcome::Answered, Some(status))).await;
        }
        create_key(&store, caller.customer, &new_key(fresh_secret())).await;
    }

    let of = UsageOf { customer: caller.customer, key: None, only_allowed: false };
    let days = usage::daily(&store, of, today(), 1).await.unwrap();
    let failure = usage::hot_failure(&store, of, today()).await.unwrap().unwrap();

    assert_eq!((days[0].calls, days[0].ok, days[0].errors), (12, 6, 6));
    assert_eq!((&*failure.route, failure.calls, failure.errors), ("chats", 6, 6));
    assert_sound(&store).await;
}

/// Makes a call that the platform answers.
async fn answered(metering: &TestMetering, caller: &TestCaller) {
    call(metering, caller.hold(2), ended(Outcome::Answered, Some(200))).await;
}

async fn calls_of_today(store: &Store, caller: &TestCaller) -> i64 {
    let of = UsageOf { customer: caller.customer, key: None, only_allowed: false };
    usage::daily(store, of, today(), 1).await.unwrap()[0].calls
}

#[tokio::test]
async fn calls_count_immediately_and_after_counts_are_added_up() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1_000).await;
    let metering = TestMetering::start(&store).await;
    for calls in 1..=100 {
        answered(&metering, &caller).await;

        assert_eq!(calls_of_today(&store, &caller).await, calls);
    }
    assert_sound(&store).await;
    if store.database() == DatabaseKind::Sqlite {
        let added = "update usage_daily set calls = calls where calls >= 60";
        assert_eq!(testing::run_raw(&store, added).await.unwrap(), 1);
        let new = "select cast(count(*) as text) as line from new_calls";
        let new: usize = testing::lines(&store, new).await.unwrap()[0].parse().unwrap();
        assert!(new < 32);
    }
}

#[tokio::test]
async fn many_new_calls_are_added_up_early() {
    let store = testing::sqlite().await;
    let caller = TestCaller::with(&store, 2_000).await;
    let metering = TestMetering::start(&store).await;
    let routes = (0..1_800).map(|number| Arc::from(format!("route/{number}")));
    let holds: Vec<Hold> = routes.map(|route| Hold { route, ..caller.hold(1) }).collect();
    let mut reservations = Vec::new();
    for hold in &holds {
        reservations.push(metering.meter.reserve(hold.clone()).await.unwrap());
    }

    for reservation in &mut reservations {
        assert!(is_held(&reservation.durable().await));
    }

    // All together, so that they are settled in a few transactions.
    let end = |hold: &Hold| {
        let end = ended(Outcome::Answered, Some(200));
        metering.meter.resolve(CallResolution { call_id: hold.call_id, ..end })
    };
    for resolved in holds.iter().map(end).collect::<Vec<_>>() {
        assert!(resolved.await);
    }

    assert_eq!(calls_of_today(&store, &caller).await, 1_800);
    let added = "update usage_routes set calls = calls";
    assert!(testing::run_raw(&store, added).await.unwrap() >= 1_500);
    assert_sound(&store).await;
}

#[tokio::test]
async fn counts_from_before_a_crash_are_added_up_after_it() {
    let mut store = testing::store().await;
    let caller = TestCaller::with(&store, 1_000).await;
    let crashing = TestMetering::start(&store).await;
    for _ in 0..20 {
        answered(&crashing, &caller).await;
    }
    crashing.crash().await;
    store.reopen().await;

    let restarted = TestMetering::start(&store).await;
    for calls in 21..=60 {
        answered(&restarted, &caller).await;

        assert_eq!(calls_of_today(&store, &caller).await, calls);
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_failed_transaction_counts_nothing() {
    let store = testing::sqlite().await;
    let caller = TestCaller::with(&store, 1_000).await;
    let metering = TestMetering::start(&store).await;
    for _ in 0..10 {
        answered(&metering, &caller).await;
    }
    let refuse =
        "create trigger no_notes before insert on new_calls begin select raise(abort, 'no'); end";
    testing::run_raw(&store, refuse).await.unwrap();
    let hold = caller.hold(2);
    assert!(is_held(&metering.hold(hold.clone()).await));
    let end = metering
        .meter
        .resolve(CallResolution { call_id: hold.call_id, ..ended(Outcome::Answered, Some(200)) });
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    while metering.meter.stats().failed_batch_total == 0 {
        ticks.tick().await;
    }
    assert_eq!(calls_of_today(&store, &caller).await, 10);

    testing::run_raw(&store, "drop trigger no_notes").await.unwrap();

    assert!(end.await);
    assert_eq!(calls_of_today(&store, &caller).await, 11);
    for _ in 0..40 {
        answered(&metering, &caller).await;
    }
    assert_eq!(calls_of_today(&store, &caller).await, 51);
    assert_sound(&store).await;
}

#[tokio::test]
async fn usage_is_counted_by_key_and_customer() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let second = new_key(fresh_secret());
    create_key(&store, caller.customer, &second).await;
    let other = TestCaller { key: second.id, key_hash: second.secret.hash, ..caller.clone() };
    let metering = TestMetering::start(&store).await;
    call(&metering, caller.hold(2), ended(Outcome::Answered, Some(200))).await;
    call(&metering, other.hold(5), ended(Outcome::Answered, Some(200))).await;

    let mut spent = Vec::new();
    for key in [None, Some(caller.key), Some(other.key)] {
        let of = UsageOf { customer: caller.customer, key, only_allowed: false };
        spent.push(usage::daily(&store, of, today(), 1).await.unwrap()[0].credits.whole());
    }

    assert_eq!(spent, [7, 2, 5]);
}

#[tokio::test]
async fn spending_is_summed_over_one_seven_and_thirty_days() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1000).await;
    let metering = TestMetering::start(&store).await;
    for (back, cost) in [(0, 1), (6, 10), (7, 100), (29, 200), (30, 400)] {
        let hold = Hold { held_at: days_ago(back), ..caller.hold(cost) };
        call(&metering, hold, ended(Outcome::Answered, Some(200))).await;
    }

    let spend = usage::spend(&store, caller.customer, today()).await.unwrap();

    assert_eq!(spend.today, credits(1));
    assert_eq!(spend.last_7_days, credits(11));
    assert_eq!(spend.last_30_days, credits(311));
}

/// A constant reader never sees a call in one figure but not in the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balance_and_spend_are_one_snapshot() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;

    let calls = async {
        for _ in 0..50 {
            call(&metering, caller.hold(1), ended(Outcome::Answered, Some(200))).await;
        }
    };
    let everything = UsageOf { customer: caller.customer, key: None, only_allowed: false };
    let mut calls = std::pin::pin!(calls);
    loop {
        let seen = tokio::select! {
            () = &mut calls => break,
            seen = usage::overview(&store, everything, today()) => seen,
        };
        let CreditOverview { balance, spend } = seen.unwrap().unwrap();
        let sum = balance.available.whole() + balance.held.whole() + spend.today.whole();
        assert_eq!(sum, 100, "{balance:?} {spend:?}");
    }

    let stranger = domain::id::CustomerId::new(NOON, [77; 10]);
    let stranger = UsageOf { customer: stranger, key: None, only_allowed: false };
    assert_eq!(usage::overview(&store, stranger, today()).await.unwrap(), None);
}

#[tokio::test]
async fn customers_without_calls_have_spent_nothing() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1).await;

    let spend = usage::spend(&store, caller.customer, today()).await.unwrap();

    assert_eq!((spend.today, spend.last_30_days), (credits(0), credits(0)));
    let stranger = domain::id::CustomerId::new(NOON, [77; 10]);
    assert_eq!(usage::balance(&store, stranger).await.unwrap(), None);
}

#[tokio::test]
async fn the_endpoint_with_the_most_errors_is_reported() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1000).await;
    let metering = TestMetering::start(&store).await;
    let on = |route: &str, at| Hold { route: Arc::from(route), held_at: at, ..caller.hold(1) };
    for minute in 0..4 {
        let at = days_ago(6).plus_seconds(minute * 60);
        call(&metering, on("failing", at), ended(Outcome::Answered, Some(403))).await;
    }
    call(&metering, on("failing", NOON), ended(Outcome::Upstream5xx, Some(502))).await;
    call(&metering, on("failing", days_ago(1)), ended(Outcome::Answered, Some(200))).await;
    for _ in 0..9 {
        call(&metering, on("mostly_fine", NOON), ended(Outcome::Answered, Some(200))).await;
    }
    for _ in 0..6 {
        call(&metering, on("mostly_fine", NOON), ended(Outcome::Answered, Some(404))).await;
    }
    for _ in 0..9 {
        let long_ago = on("old", days_ago(7));
        call(&metering, long_ago, ended(Outcome::UpstreamTimeout, None)).await;
    }

    let of = UsageOf { customer: caller.customer, key: None, only_allowed: false };
    let failure = usage::hot_failure(&store, of, today()).await.unwrap().unwrap();

    assert_eq!((failure.route.as_str(), failure.calls, failure.errors), ("failing", 6, 5));
    assert_eq!((failure.last_status, failure.last_at), (Some(502), NOON));
    assert_eq!(failure.account, caller.account);
    let later = usage::hot_failure(&store, of, today().plus_days(6)).await.unwrap();
    assert_eq!(later, None, "only two calls are left in the week");
    assert_sound(&store).await;
}

#[tokio::test]
async fn few_calls_are_never_reported() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 1000).await;
    let metering = TestMetering::start(&store).await;
    for _ in 0..4 {
        call(&metering, caller.hold(1), ended(Outcome::UpstreamTimeout, None)).await;
    }
    let of = UsageOf { customer: caller.customer, key: Some(caller.key), only_allowed: false };
    assert_eq!(usage::hot_failure(&store, of, today()).await.unwrap(), None);

    call(&metering, caller.hold(1), ended(Outcome::UpstreamTimeout, None)).await;

    let failure = usage::hot_failure(&store, of, today()).await.unwrap().unwrap();
    assert_eq!((failure.calls, failure.last_status), (5, None));
}

/// Counts new calls in columns, as the previous version did.
const PENDING: &str = "
    insert into usage_pending (customer_id, key_id, day, creator_id, platform, method, route, calls, credits, errors,
        last_status, last_at)
    select customer_id, key_id, held_at / 86400000000, creator_id, platform, method, route, 1, credits,
        case when state = 'settled' and status < 400 then 0 else 1 end, status, held_at
    from calls";

/// Converts every row of counts into JSON with named members, as versions before that wrote it.
const BY_NAME: &str = "
    insert into usage_deltas (counts)
    select json_array(json_object('customer', customer_id, 'day', day, 'account', creator_id, 'platform', platform,
        'method', method, 'route', route, 'keys', json_array(json_object('key', key_id, 'calls', calls,
            'credits', credits, 'errors', errors, 'last_at', last_at, 'last_status', last_status))))
    from usage_pending";

/// Converts every row into JSON by position, as still older versions did.
const BY_POSITION: &str = "
    insert into usage_notes (counts)
    select json_array(json_array(customer_id, day, json_array(creator_id, platform, method, route),
        json_array(json_array(key_id, calls, credits, errors, last_at, last_status))))
    from usage_pending";

/// Makes calls that the previous version has counted but not added up.
async fn noted_by_former(store: &Store, caller: &TestCaller, calls: u64) {
    noted(store, caller, i64::try_from(calls).unwrap()).await;
    for statement in
        [PENDING, "insert into ended_calls select * from new_calls", "delete from new_calls"]
    {
        assert_eq!(run(store, statement).await, calls, "{statement}");
    }
}

/// Makes calls that are counted but not added up, and crashes.
async fn noted(store: &Store, caller: &TestCaller, calls: i64) {
    let crashing = TestMetering::start(store).await;
    for _ in 0..calls {
        answered(&crashing, caller).await;
    }
    crashing.crash().await;
}

async fn run(store: &Store, sql: &'static str) -> u64 {
    testing::run_raw(store, sql).await.unwrap()
}

#[tokio::test]
async fn rows_of_other_versions_are_counted_and_added_up() {
    const ONE_MORE_ELEMENT: &str = "
        update usage_notes set counts = replace(counts, ']]]]', ',7]],9]]') ";
    const MORE_MEMBERS: &str = r#"
        update usage_deltas set counts = replace(replace(counts, '{"customer"', '{"region":"x","customer"'),
            '{"key"', '{"bytes":[7],"key"')"#;
    const ONE_MORE_COLUMN: &str =
        "alter table usage_pending add column bytes integer not null default 0";
    for (earlier, change) in [
        (Some(BY_POSITION), "update usage_notes set id = id"),
        (Some(BY_POSITION), ONE_MORE_ELEMENT),
        (Some(BY_NAME), "update usage_deltas set id = id"),
        (Some(BY_NAME), MORE_MEMBERS),
        (None, ONE_MORE_COLUMN),
    ] {
        let mut store = testing::sqlite().await;
        let caller = TestCaller::with(&store, 1_000).await;
        noted_by_former(&store, &caller, 5).await;
        store.reopen().await;
        if let Some(earlier) = earlier {
            assert_eq!(run(&store, earlier).await, 5);
            assert_eq!(run(&store, "delete from usage_pending").await, 5);
        }
        run(&store, change).await;
        store.reopen().await;

        assert_eq!(calls_of_today(&store, &caller).await, 5, "{change}");
        let metering = TestMetering::start(&store).await;
        for calls in 6..=60 {
            answered(&metering, &caller).await;

            assert_eq!(calls_of_today(&store, &caller).await, calls, "{change}");
        }
        assert_eq!(store::metering::count_set_aside(&store).await.unwrap(), 0);
        assert_sound(&store).await;
        // Nothing is left for older versions.
        for left in ["update usage_notes set id = id", "update usage_deltas set id = id"] {
            assert_eq!(run(&store, left).await, 0, "{change}");
        }
    }
}

/// Calls continue, usage can be read, the row is kept, and `verify` reports it and what is missing
/// without it.
#[tokio::test]
async fn unreadable_rows_are_set_aside_and_stop_nothing() {
    let mut store = testing::sqlite().await;
    let caller = TestCaller::with(&store, 1_000).await;
    noted_by_former(&store, &caller, 5).await;
    store.reopen().await;
    let renamed = "update usage_pending set customer_id = 'x' || customer_id where id = 1";
    assert_eq!(run(&store, renamed).await, 1);
    for wrong in [
        "insert into usage_deltas (counts) values ('not json'), ('[1, {}]'), ('{}')",
        "insert into usage_notes (counts) values ('[[1, 2]]'), ('[\"a\"]'), ('[{\"keys\": [1]}]')",
    ] {
        assert_eq!(run(&store, wrong).await, 3);
    }
    store.reopen().await;

    assert_eq!(calls_of_today(&store, &caller).await, 4);
    let metering = TestMetering::start(&store).await;
    for calls in 5..=60 {
        answered(&metering, &caller).await;

        assert_eq!(calls_of_today(&store, &caller).await, calls);
    }

    assert_eq!(store::metering::count_set_aside(&store).await.unwrap(), 7);
    let violations = store::verify::check(&store, NOON).await.unwrap();
    let rules: Vec<_> = violations.iter().map(|violation| violation.rule).collect();
    assert_eq!(rules[..7], ["every row of usage counts can be read"; 7]);
    let missing = [
        "usage by day counts every settled call once",
        "usage by endpoint counts every settled call once",
    ];
    assert_eq!(rules[7..], missing, "{violations:?}");
}
