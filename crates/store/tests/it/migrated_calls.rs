//! Calls of a former version: after the migration the books are exact, and open calls end as usual.

use std::str::FromStr as _;

use domain::charge::Outcome;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use store::metering::{Hold, IdempotencyClaim};
use store::testing::{self, TestStore};
use store::{DatabaseKind, Store};

use crate::support::{NOON, TestCaller, TestMetering, assert_sound, credits, is_held, resolution};

/// Puts all calls back into one table, as it was before step 39. Usage has been added up.
const BACK: &str = "
    create table former_calls as select * from calls;
    drop view calls;
    drop view call_rows;
    drop view all_ended_calls;
    drop table if exists new_calls;
    drop table open_calls;
    drop table ended_calls;
    drop table words;
    create table calls as select * from former_calls;
    drop table former_calls;
    update calls set expires_at = held_at + 170000000;";

const fn step(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../../migrations/0039_call_rows.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../../migrations/0039_call_rows.postgres.sql"),
    }
}

async fn migrate_again(store: &mut TestStore) {
    let (database, url) = (store.database(), store.options().url.clone());
    store.shut().await;
    for text in [BACK, step(database)] {
        let statements = sqlx::raw_sql(AssertSqlSafe(format!("begin; {text} commit;")));
        match database {
            DatabaseKind::Sqlite => {
                let options = SqliteConnectOptions::from_str(&url).unwrap();
                statements.execute(&mut options.connect().await.unwrap()).await.unwrap();
            }
            DatabaseKind::Postgres => {
                let options = PgConnectOptions::from_str(&url).unwrap();
                statements.execute(&mut options.connect().await.unwrap()).await.unwrap();
            }
        }
    }
    store.reopen().await;
}

/// Calls that end in each way, and one that goes on; some with a tag or an `Idempotency-Key`.
async fn used(store: &Store, caller: &TestCaller) -> Hold {
    let metering = TestMetering::start(store).await;
    for (number, outcome) in (0_u8..).zip(Outcome::ALL) {
        let claim = (number % 3 == 0).then_some(IdempotencyClaim {
            key_hash: [number; 32],
            fingerprint: [2; 32],
            identity: None,
            expires_at: NOON.plus_seconds(60),
        });
        let tag = (number % 2 == 0).then(|| format!("tag-{number}").parse().unwrap());
        let hold = Hold { idempotency: claim, tag, ..caller.hold(2) };
        assert!(is_held(&metering.hold(hold.clone()).await));
        assert!(metering.meter.resolve(resolution(hold.call_id, *outcome)).await);
    }
    let open = caller.hold(3);
    assert!(is_held(&metering.hold(open.clone()).await));
    metering.stop().await;
    open
}

#[tokio::test]
async fn calls_that_were_migrated_are_exact_and_open_ones_end_as_usual() {
    let mut store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let open = used(&store, &caller).await;
    let before = caller.balance(&store).await;
    testing::add_up_usage(&store).await.unwrap();

    migrate_again(&mut store).await;

    assert_sound(&store).await;
    assert_eq!(caller.balance(&store).await, before);
    assert_eq!(testing::take_over(&store, open.expires_at.plus_seconds(1)).await.unwrap().holds, 1);
    assert_eq!(caller.balance(&store).await.held, credits(0));
    let metering = TestMetering::start(&store).await;
    assert!(is_held(&metering.hold(caller.hold(5)).await));
    metering.stop().await;
    assert_sound(&store).await;
}
