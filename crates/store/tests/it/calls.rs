//! The call log: filters, and pages that neither skip nor repeat calls.

use domain::charge::Outcome;
use domain::id::CallId;
use store::calls::{self, RecentCalls, StatusClass};
use store::metering::{CallResolution, Hold};
use store::testing;

use crate::support::{
    NOON, TestCaller, TestMetering, create_key, creator, fresh_secret, is_held, new_account,
    new_key, resolution,
};

fn all(caller: &TestCaller) -> RecentCalls {
    RecentCalls::of(caller.customer, 100)
}

async fn call(
    metering: &TestMetering,
    hold: Hold,
    outcome: Outcome,
    status: Option<u16>,
) -> CallId {
    let id = hold.call_id;
    assert!(is_held(&metering.hold(hold).await));
    assert!(metering.meter.resolve(CallResolution { status, ..resolution(id, outcome) }).await);
    id
}

/// During a rolling update, newer nodes may log outcomes that older ones do not know.
#[tokio::test]
async fn outcomes_of_newer_versions_are_listed_unchanged() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let known = call(&metering, caller.hold(1), Outcome::Upstream401, Some(401)).await;
    let hold = caller.hold(1);
    let newer = hold.call_id;
    assert!(is_held(&metering.hold(hold).await));
    for sql in [
        "insert into words (word) values ('asked_twice')",
        "insert into ended_calls (id, customer, key, account, platform, method, route, outcome, node, path, cost,
            charged, request, request_text, epoch, held_at, lasted)
         select id, customer, key, account, platform, method, route,
            (select number from words where word = 'asked_twice'), node, path, cost, 0, request, request_text,
            epoch, held_at, 0
         from open_calls",
        "delete from open_calls",
    ] {
        testing::run_raw(&store, sql).await.unwrap();
    }

    let page = calls::recent(&store, &all(&caller)).await.unwrap();

    let mut listed: Vec<_> = page.calls.into_iter().map(|it| (it.id, it.outcome)).collect();
    listed.sort_unstable();
    let mut expected =
        [(known, Some("upstream_401".to_owned())), (newer, Some("asked_twice".to_owned()))];
    expected.sort_unstable();
    assert_eq!(listed, expected);
}

/// A stream has no limit on its time, and the log has four bytes for it on PostgreSQL.
#[tokio::test]
async fn a_call_that_lasted_longer_than_the_log_can_say_ends_like_any_other() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(1);
    let end = resolution(hold.call_id, Outcome::Answered);
    assert!(is_held(&metering.hold(hold).await));

    let longest = Some(i64::MAX);
    let end = CallResolution { duration_ms: i64::MAX, upstream_ms: longest, ..end };
    assert!(metering.meter.resolve(end).await);

    let page = calls::recent(&store, &all(&caller)).await.unwrap();
    let call = &page.calls[0];
    let said = Some(i64::from(i32::MAX));
    assert_eq!((call.duration_ms, call.upstream_ms), (said, said));
    assert_eq!(call.credits, Some(call.cost));
}

/// Nodes of versions before step 39 write calls by this statement. It must fail at once.
#[tokio::test]
async fn a_former_version_cannot_write_calls() {
    const INSERT: &str = "
        insert into calls (id, customer_id, key_id, creator_id, platform, method, path, route, cost,
            state, request_id, node_id, epoch, held_at, expires_at)
        values ('call_1', 'cus_1', 'key_1', 'a', 'platform_alpha', 'GET', 'me', 'me', 1,
            'held', 'req_1', 'node_1', 1, 1, 2)";
    let store = testing::store().await;

    for sql in [INSERT, "update calls set state = 'refunded'", "delete from calls"] {
        assert!(testing::run_raw(&store, sql).await.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn calls_are_filtered_by_status_class() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let cases = [
        (Outcome::Answered, Some(201)),
        (Outcome::Answered, Some(304)),
        (Outcome::Answered, Some(404)),
        (Outcome::Upstream401, Some(401)),
        (Outcome::Upstream429, Some(429)),
        (Outcome::Upstream5xx, Some(503)),
        (Outcome::BadResponse, Some(200)),
        (Outcome::UpstreamTimeout, None),
    ];
    for (outcome, status) in cases {
        call(&metering, caller.hold(1), outcome, status).await;
    }
    assert!(is_held(&metering.hold(caller.hold(1)).await));

    let expected: [(Option<StatusClass>, &[Option<u16>]); 7] = [
        (Some(StatusClass::Success), &[Some(200), Some(201)]),
        (Some(StatusClass::Redirection), &[Some(304)]),
        (Some(StatusClass::ClientError), &[Some(401), Some(404), Some(429)]),
        (Some(StatusClass::ServerError), &[Some(503)]),
        (Some(StatusClass::Ok), &[Some(201), Some(304)]),
        (Some(StatusClass::Error), &[None, Some(200), Some(401), Some(404), Some(429), Some(503)]),
        (
            None,
            &[
                None,
                None,
                Some(200),
                Some(201),
                Some(304),
                Some(401),
                Some(404),
                Some(429),
                Some(503),
            ],
        ),
    ];
    for (status_class, statuses) in expected {
        let wanted = RecentCalls { status_class, ..all(&caller) };
        let page = calls::recent(&store, &wanted).await.unwrap();
        let mut found: Vec<Option<u16>> = page.calls.iter().map(|call| call.status).collect();
        found.sort_unstable();
        assert_eq!(found, statuses, "{status_class:?}");
    }
}

#[tokio::test]
async fn calls_are_filtered_by_key_and_account_within_the_customer() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let stranger = TestCaller::with(&store, 100).await;
    let second = new_key(fresh_secret());
    create_key(&store, caller.customer, &second).await;
    let bob = new_account(caller.customer, "bob");
    store::accounts::connect(&store, &bob).await.unwrap();
    let other = TestCaller {
        key: second.id,
        key_hash: second.secret.hash,
        account: creator("bob"),
        account_version: NOON.unix_micros(),
        ..caller.clone()
    };
    let metering = TestMetering::start(&store).await;
    let one = call(&metering, caller.hold(1), Outcome::Answered, Some(200)).await;
    let two = call(&metering, other.hold(1), Outcome::Answered, Some(200)).await;
    call(&metering, stranger.hold(1), Outcome::Answered, Some(200)).await;

    let mut found = Vec::new();
    for wanted in [
        RecentCalls { key: Some(caller.key), ..all(&caller) },
        RecentCalls { key: Some(other.key), ..all(&caller) },
        RecentCalls { account: Some(creator("bob")), ..all(&caller) },
        RecentCalls { account: Some(creator("eve")), ..all(&caller) },
        RecentCalls { key: Some(stranger.key), ..all(&caller) },
        all(&caller),
    ] {
        let page = calls::recent(&store, &wanted).await.unwrap();
        found.push(page.calls.iter().map(|call| call.id).collect::<Vec<_>>());
    }

    let mut both = vec![one, two];
    both.sort_unstable_by(|left, right| right.cmp(left));
    assert_eq!(found, [vec![one], vec![two], vec![two], vec![], vec![], both]);
}

#[tokio::test]
async fn pages_neither_skip_nor_repeat_simultaneous_calls() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let mut expected = Vec::new();
    for (second, count) in [(0, 1), (1, 4), (2, 2), (3, 1), (4, 3)] {
        for _ in 0..count {
            let hold = Hold { held_at: NOON.plus_seconds(second), ..caller.hold(1) };
            let at = hold.held_at;
            expected.push((at, call(&metering, hold, Outcome::Answered, Some(200)).await));
        }
    }
    expected.sort_unstable_by(|left, right| right.cmp(left));

    for limit in [1, 2, 3, 5, 100] {
        let (mut before, mut found, mut pages) = (None, Vec::new(), 0);
        loop {
            let wanted = RecentCalls { before, limit, ..all(&caller) };
            let page = calls::recent(&store, &wanted).await.unwrap();
            found.extend(page.calls.iter().map(|call| (call.at, call.id)));
            pages += 1;
            assert!(pages < 20, "paging ends");
            let Some(next) = page.next_before else { break };
            before = Some(next);
        }
        assert_eq!(found, expected, "limit {limit}");
    }
}

#[tokio::test]
async fn an_ended_call_cannot_be_changed() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    call(&metering, caller.hold(1), Outcome::Answered, Some(200)).await;

    metering.stop().await;
    testing::add_up_usage(&store).await.unwrap();

    for sql in [
        "update ended_calls set charged = 0",
        "update ended_calls set status = 500",
        "update ended_calls set lasted = 0",
    ] {
        assert!(testing::run_raw(&store, sql).await.is_err(), "{sql}");
    }
}

#[tokio::test]
async fn a_call_that_has_just_ended_cannot_be_changed() {
    let store = testing::sqlite().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    call(&metering, caller.hold(1), Outcome::Answered, Some(200)).await;

    let changed = testing::run_raw(&store, "update new_calls set status = 500").await;

    assert!(format!("{changed:?}").contains("an ended call never changes"), "{changed:?}");
}

/// Eight calls, of which the second and the last have the tag.
async fn eight_calls(store: &store::Store, caller: &TestCaller) -> Vec<CallId> {
    let metering = TestMetering::start(store).await;
    let mut tagged = Vec::new();
    for second in 0..8 {
        let is_tagged = second == 1 || second == 7;
        let hold = Hold {
            held_at: NOON.plus_seconds(second),
            tag: is_tagged.then(|| "rare".parse().unwrap()),
            ..caller.hold(1)
        };
        let id = call(&metering, hold, Outcome::Answered, Some(200)).await;
        tagged.extend(is_tagged.then_some(id));
    }
    metering.stop().await;
    testing::add_up_usage(store).await.unwrap();
    tagged
}

#[tokio::test]
async fn a_search_for_rare_calls_looks_at_few_at_a_time_and_finds_all_of_them() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let mut tagged = eight_calls(&store, &caller).await;
    tagged.reverse();
    let rare = RecentCalls { tag: Some("rare".to_owned()), scanned_max: 3, ..all(&caller) };

    let (mut before, mut pages) = (None, Vec::new());
    loop {
        let page = calls::recent(&store, &RecentCalls { before, ..rare.clone() }).await.unwrap();
        pages.push(page.calls.iter().map(|call| call.id).collect::<Vec<_>>());
        assert!(pages.len() < 8, "paging ends");
        let Some(next) = page.next_before else { break };
        assert!(before.is_none_or(|before| next < before), "every page leads further back");
        before = Some(next);
    }

    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 1]);
    assert_eq!(pages.concat(), tagged);
}

#[tokio::test]
async fn a_list_without_filters_is_never_shorter_than_its_limit() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    eight_calls(&store, &caller).await;

    for (key, only_allowed) in [(None, false), (Some(caller.key), false), (Some(caller.key), true)]
    {
        let wanted = RecentCalls { key, only_allowed, limit: 5, scanned_max: 2, ..all(&caller) };
        let page = calls::recent(&store, &wanted).await.unwrap();
        assert_eq!(page.calls.len(), 5, "{key:?} {only_allowed}");
    }
}

#[tokio::test]
async fn a_key_that_was_limited_finds_nothing_of_other_accounts_however_far_it_looks() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    eight_calls(&store, &caller).await;
    let limit = "insert into key_accounts (key_id, creator_id) select id, 'another' from keys";
    testing::run_raw(&store, limit).await.unwrap();
    let own =
        RecentCalls { key: Some(caller.key), only_allowed: true, scanned_max: 3, ..all(&caller) };

    let (mut before, mut pages) = (None, 0);
    loop {
        let page = calls::recent(&store, &RecentCalls { before, ..own.clone() }).await.unwrap();
        assert_eq!(page.calls, []);
        pages += 1;
        assert!(pages < 8, "paging ends");
        let Some(next) = page.next_before else { break };
        before = Some(next);
    }

    assert_eq!(pages, 3);
}
