//! The breakdown of spending: every call and export is in one group, and the sums are the ledger's.

use domain::breakdown::{BreakdownBy, BreakdownCursor};
use domain::charge::Outcome;
use domain::id::CallId;
use domain::time::Timestamp;
use store::breakdown::{self, BreakdownEntry, BreakdownQuery, SpendBreakdown};
use store::metering::{CallResolution, Hold};
use store::usage::UsageOf;
use store::{Store, testing};

use crate::support::{
    NOON, TestCaller, TestMetering, create_key, fresh_secret, is_held, new_key, resolution, unique,
};

const DAY_S: i64 = 86_400;

pub(crate) fn query(caller: &TestCaller, by: BreakdownBy) -> BreakdownQuery {
    BreakdownQuery {
        of: UsageOf { customer: caller.customer, key: None, only_allowed: false },
        by,
        first: NOON.day().plus_days(-100),
        last: NOON.day(),
        after: None,
        limit: 100,
    }
}

pub(crate) async fn read(store: &Store, query: &BreakdownQuery) -> SpendBreakdown {
    breakdown::read(store, query).await.unwrap()
}

/// A call that began at `at`.
pub(crate) fn hold_at(caller: &TestCaller, cost: i64, at: Timestamp) -> Hold {
    Hold { call_id: CallId::new(at, unique()), held_at: at, ..caller.hold(cost) }
}

pub(crate) async fn end(metering: &TestMetering, hold: Hold, outcome: Outcome, status: u16) {
    let id = hold.call_id;
    assert!(is_held(&metering.hold(hold).await));
    let ending = CallResolution { status: Some(status), ..resolution(id, outcome) };
    assert!(metering.meter.resolve(ending).await);
}

fn shown(entries: &[BreakdownEntry]) -> Vec<(&str, i64, i64, i64)> {
    let shown = |entry: &BreakdownEntry| {
        (entry.counts.calls, entry.counts.credits.whole(), entry.counts.ok)
    };
    entries
        .iter()
        .map(|entry| {
            let (calls, credits, ok) = shown(entry);
            (entry.name.as_str(), calls, credits, ok)
        })
        .collect()
}

#[tokio::test]
async fn every_ended_call_is_in_one_group_and_what_cost_the_most_comes_first() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let stranger = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    let tagged = |tag: &str, cost, at| Hold {
        tag: Some(tag.parse().unwrap()),
        ..hold_at(&caller, cost, at)
    };
    end(&metering, tagged("b", 2, NOON), Outcome::Answered, 200).await;
    end(&metering, tagged("a", 1, NOON), Outcome::Answered, 404).await;
    end(&metering, tagged("a", 1, NOON.plus_seconds(-DAY_S)), Outcome::Answered, 200).await;
    end(&metering, hold_at(&caller, 7, NOON), Outcome::Upstream5xx, 503).await;
    end(&metering, hold_at(&stranger, 5, NOON), Outcome::Answered, 200).await;
    assert!(is_held(&metering.hold(tagged("open", 9, NOON)).await));

    let by_tag = read(&store, &query(&caller, BreakdownBy::Tag)).await;
    let by_route = read(&store, &query(&caller, BreakdownBy::Route)).await;
    let today = BreakdownQuery { first: NOON.day(), ..query(&caller, BreakdownBy::Tag) };
    let today = read(&store, &today).await;

    assert_eq!(shown(&by_tag.entries), [("a", 2, 2, 1), ("b", 1, 2, 1), ("", 1, 0, 0)]);
    assert_eq!(shown(&by_route.entries), [("users/me", 4, 4, 2)]);
    assert_eq!(by_route.entries[0].platform, Some(domain::platform::Platform::ALPHA));
    assert_eq!(shown(&today.entries), [("b", 1, 2, 1), ("a", 1, 1, 0), ("", 1, 0, 0)]);
    assert_eq!(by_tag.total, by_route.total);
    assert_eq!((by_tag.total.calls, by_tag.total.credits.whole()), (4, 4));
    assert_eq!(today.total.calls, 3);
}

#[tokio::test]
async fn a_key_sees_its_own_spending() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let second = new_key(fresh_secret());
    create_key(&store, caller.customer, &second).await;
    let other = TestCaller { key: second.id, key_hash: second.secret.hash, ..caller.clone() };
    let metering = TestMetering::start(&store).await;
    end(&metering, hold_at(&caller, 1, NOON), Outcome::Answered, 200).await;
    end(&metering, hold_at(&other, 2, NOON), Outcome::Answered, 200).await;

    let all = read(&store, &query(&caller, BreakdownBy::Key)).await;
    let of = UsageOf { customer: caller.customer, key: Some(other.key), only_allowed: true };
    let own = read(&store, &BreakdownQuery { of, ..query(&caller, BreakdownBy::Account) }).await;

    let (one, two) = (caller.key.to_string(), other.key.to_string());
    assert_eq!(shown(&all.entries), [(two.as_str(), 1, 2, 1), (one.as_str(), 1, 1, 1)]);
    assert_eq!(shown(&own.entries), [(caller.account.as_str(), 1, 2, 1)]);
    assert_eq!(own.total.credits.whole(), 2);
}

#[tokio::test]
async fn pages_of_entries_neither_skip_nor_repeat_any() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let metering = TestMetering::start(&store).await;
    for number in 0..9 {
        let tag = Some(format!("t{number}").parse().unwrap());
        let hold = Hold { tag, ..hold_at(&caller, 1 + number / 3, NOON) };
        end(&metering, hold, Outcome::Answered, 200).await;
    }
    let whole = read(&store, &query(&caller, BreakdownBy::Tag)).await;
    assert_eq!(whole.entries.len(), 9);

    for limit in [1, 2, 4, 9] {
        let (mut after, mut found): (Option<BreakdownCursor>, Vec<_>) = (None, Vec::new());
        loop {
            let wanted = BreakdownQuery { after, limit, ..query(&caller, BreakdownBy::Tag) };
            let page = read(&store, &wanted).await;
            assert_eq!(page.total, whole.total);
            let Some(last) = page.entries.last() else { break };
            after = Some(last.cursor().to_string().parse().unwrap());
            found.extend(page.entries);
        }
        assert_eq!(found, whole.entries, "limit {limit}");
    }
}
