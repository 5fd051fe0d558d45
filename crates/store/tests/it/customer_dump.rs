//! What is handed out of a customer: every row once, whatever the page size, and nothing that is a
//! secret or somebody else's.

use std::collections::BTreeSet;

use domain::charge::Outcome;
use serde_json::{Map, Value};
use store::customer_dump::{self, CALL_TOTALS, CALLS, DumpedTable, LEDGER, TABLES};
use store::metering::Hold;
use store::{Store, call_totals, testing};

use crate::support::{NOON, TestCaller, TestMetering, is_held, new_customer};
use crate::whole_customer::whole_customer;

fn all_tables() -> impl Iterator<Item = &'static DumpedTable> {
    TABLES.iter().chain([&CALLS, &CALL_TOTALS, &LEDGER])
}

fn table(name: &str) -> &'static DumpedTable {
    all_tables().find(|table| table.name == name).unwrap()
}

/// All rows of a table, read in pages of this size.
async fn dumped(
    store: &Store,
    table: &DumpedTable,
    caller: &TestCaller,
    limit: usize,
) -> Vec<Map<String, Value>> {
    let (mut rows, mut after) = (Vec::new(), None);
    for _ in 0..1_000 {
        let page = customer_dump::page(store, table, caller.customer, after.as_deref(), limit);
        let page = page.await.unwrap();
        // Calls that began at the same instant are on the same page.
        let is_longer = page.rows.len() > limit && table.name == "calls";
        assert!(page.rows.len() <= limit || is_longer, "{}", table.name);
        assert!(page.next.is_none() || page.rows.len() >= limit, "{}", table.name);
        rows.extend(page.rows);
        let Some(next) = page.next else { return rows };
        after = Some(next);
    }
    panic!("{} has no end", table.name);
}

/// Everything of a customer as one text.
async fn text_of(store: &Store, caller: &TestCaller) -> String {
    let mut text = String::new();
    for table in all_tables() {
        let rows = dumped(store, table, caller, 100).await;
        text.push_str(&serde_json::to_string(&rows).unwrap());
    }
    text
}

#[tokio::test]
async fn every_table_has_the_same_rows_in_pages_of_any_size() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;
    whole_customer(&store, "duchess").await;
    let mut filled = BTreeSet::new();

    for table in all_tables() {
        let whole = dumped(&store, table, &caller, 1_000).await;
        for limit in [1, 2, 3] {
            let rows = dumped(&store, table, &caller, limit).await;
            assert_eq!(rows, whole, "{} in pages of {limit}", table.name);
        }
        let columns: BTreeSet<&str> = table.columns().collect();
        for row in &whole {
            let names: BTreeSet<&str> = row.keys().map(String::as_str).collect();
            assert_eq!(names, columns, "{}", table.name);
        }
        filled.extend((!whole.is_empty()).then_some(table.name));
    }

    for name in [
        "customer",
        "keys",
        "key_accounts",
        "accounts",
        "sessions",
        "login_networks",
        "emailed_links",
        "email_changes",
        "permissions",
        "support_access",
        "audit",
        "orders",
        "sales",
        "invoices",
        "invoice_lines",
        "receipts",
        "processor_customers",
        "card",
        "notice_choices",
        "sent_notices",
        "automatic_top_up",
        "exports",
        "calls",
        "ledger",
    ] {
        assert!(filled.contains(name), "{name} is empty: {filled:?}");
    }
}

#[tokio::test]
async fn rows_have_what_the_customer_did_in_words_and_times() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;

    let customer = dumped(&store, table("customer"), &caller, 9).await;
    let accounts = dumped(&store, table("accounts"), &caller, 9).await;
    let exports = dumped(&store, table("exports"), &caller, 9).await;
    let calls = dumped(&store, table("calls"), &caller, 9).await;
    let ledger = dumped(&store, table("ledger"), &caller, 9).await;

    assert_eq!(customer.len(), 1);
    assert_eq!(customer[0]["email"], "countess@example.com");
    assert_eq!(customer[0]["created_at"], NOON.to_rfc3339());
    assert_eq!(customer[0]["email_verified_at"], Value::Null);
    assert_eq!(customer[0]["granted"], 250);
    // A list of words is no JSON, so it stays the text that it is.
    assert_eq!(accounts[1]["scopes"], "read:countess write:chat");
    assert_eq!(accounts[0]["scopes"], Value::Null);
    assert_eq!(exports[0]["params"], serde_json::json!({"owner": "countess"}));
    assert_eq!(calls.len(), 3);
    let credits: i64 = calls.iter().map(|call| call["credits"].as_i64().unwrap()).sum();
    assert_eq!(credits, 6);
    let amounts: Vec<i64> = ledger.iter().map(|entry| entry["amount"].as_i64().unwrap()).collect();
    assert_eq!(amounts.iter().sum::<i64>(), 250);
}

#[tokio::test]
async fn nothing_of_another_customer_is_handed_out() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;
    let other = whole_customer(&store, "duchess").await;

    let (own, foreign) = (text_of(&store, &caller).await, text_of(&store, &other).await);

    assert!(own.contains("countess") && foreign.contains("duchess"));
    assert!(!own.contains("duchess") && !own.contains(&other.customer.to_string()), "{own}");
    assert!(!foreign.contains("countess") && !foreign.contains(&caller.customer.to_string()));
    let nobody = TestCaller { customer: new_customer("nobody@example.com").id, ..caller };
    for table in all_tables() {
        assert_eq!(dumped(&store, table, &nobody, 10).await, [], "{}", table.name);
    }
}

#[tokio::test]
async fn no_secret_and_no_hash_of_one_is_handed_out() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;
    let hashes = testing::lines(
        &store,
        "select hash as line from key_secrets union all select token_hash as line from sessions
         union all select hash as line from mail_links",
    );
    let hashes = hashes.await.unwrap();
    assert_eq!(hashes.len(), 6, "two keys, three sessions, a link");

    let text = text_of(&store, &caller).await;

    for secret in [
        "argon2id",
        "token of",
        "wrapped",
        "response for",
        "print of",
        "pm_countess",
        "data_key",
        "password_hash",
    ] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    for hash in hashes {
        assert!(!text.contains(&hash), "{hash}: {text}");
    }
}

#[tokio::test]
async fn a_page_that_ends_with_the_last_row_is_followed_by_an_empty_one() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;
    let sessions = table("sessions");
    let page = async |after: Option<&[String]>, limit| {
        customer_dump::page(&store, sessions, caller.customer, after, limit).await.unwrap()
    };

    let all = page(None, 3).await;
    let rest = page(all.next.as_deref(), 3).await;
    let more = page(None, 4).await;

    assert_eq!((all.rows.len(), rest.rows.len(), more.rows.len()), (3, 0, 3));
    assert_eq!((rest.next, more.next), (None, None));
    let last = all.rows[2]["id"].as_str().unwrap();
    assert_eq!(all.next.unwrap(), [last]);
}

#[tokio::test]
async fn calls_that_were_summed_up_are_handed_out_as_totals() {
    let store = testing::store().await;
    let caller = whole_customer(&store, "countess").await;
    let other = whole_customer(&store, "duchess").await;
    let tomorrow = NOON.plus_seconds(86_400);

    // The call that an `Idempotency-Key` refers to stays.
    let batch = call_totals::roll_up(&store, None, tomorrow, 100).await.unwrap();

    assert_eq!(batch.calls, 4);
    for one in [&caller, &other] {
        assert_eq!(dumped(&store, &CALLS, one, 10).await.len(), 1);
        let totals = dumped(&store, &CALL_TOTALS, one, 1).await;
        assert_eq!(totals.len(), 1);
        assert_eq!((&totals[0]["calls"], &totals[0]["credits"]), (&2.into(), &5.into()));
        assert_eq!(totals[0]["day_at"], NOON.day().start().to_rfc3339());
        assert_eq!(totals[0]["route"], "users/me");
    }
}

/// A page of calls ends between two instants, and begins after the last one of the page before,
/// wherever the calls are: open, new or ended.
#[tokio::test]
async fn calls_are_handed_out_in_the_order_in_which_they_began() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 99).await, TestCaller::with(&store, 99).await);
    let metering = TestMetering::start(&store).await;
    let mut began = Vec::new();
    for seconds in [4, 0, 3, 1, 1, 5] {
        let hold = Hold { held_at: NOON.plus_seconds(seconds), ..caller.hold(1) };
        assert!(is_held(&metering.hold(hold.clone()).await));
        let is_open = seconds == 3;
        assert!(is_open || metering.end(hold.call_id, Outcome::Answered).await);
        assert!(is_held(&metering.hold(other.hold(1)).await));
        began.push((hold.held_at, hold.call_id.to_string()));
    }
    began.sort();

    let (mut sizes, mut ids, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = customer_dump::page(&store, &CALLS, caller.customer, after.as_deref(), 2);
        let page = page.await.unwrap();
        sizes.push(page.rows.len());
        ids.extend(page.rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }

    let expected: Vec<String> = began.into_iter().map(|(_, id)| id).collect();
    assert_eq!((sizes, ids), (vec![3, 2, 1], expected));
    metering.stop().await;
}

#[tokio::test]
async fn a_place_that_is_not_one_of_a_table_is_refused() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    for table in [&CALLS, &CALL_TOTALS] {
        let after = [String::from("yesterday")];

        let page = customer_dump::page(&store, table, caller.customer, Some(&after), 2).await;

        assert!(page.is_err(), "{}", table.name);
    }
}
