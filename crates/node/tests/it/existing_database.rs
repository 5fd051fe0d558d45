//! Commands on a database that has no schema, or an older one, of either kind.
#![expect(clippy::unwrap_used, reason = "an unexpected value must fail the test")]

use operators::{OperatorCommand, OperatorIdentity};
use settings::Config;
use store::testing::{TestStore, run_raw};
use test_service::start;

/// Why a command of an operator, one of staff, `reconcile` and `verify` are refused.
async fn refusals(url: &str) -> Vec<String> {
    let key = "1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let text = format!("[database]\nurl = {url:?}\n[secrets]\nmaster_keys = [{key:?}]");
    let mut config = Config::from_toml(&text).unwrap();
    config.database.allow_unsafe_durability = true;
    let who = OperatorIdentity::of(None);
    let staff = identity::staff::StaffCommand::ListPermissions;
    let by_operator =
        start::run_operator_command(config.clone(), &who, OperatorCommand::Liability {}).await;
    vec![
        by_operator.unwrap_err().to_string(),
        start::run_staff_command(&config, &who, staff).await.unwrap_err().to_string(),
        start::reconcile(config.clone(), 1).await.unwrap_err().to_string(),
        start::open_store_for_reading(&config).await.unwrap_err().to_string(),
    ]
}

async fn refused_after(change: &'static str) -> (TestStore, Vec<String>) {
    let mut database = store::testing::store().await;
    run_raw(&database, change).await.unwrap();
    let url = database.options().url.clone();
    database.shut().await;
    let refused = refusals(&url).await;
    (database, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_refuse_an_older_schema_and_do_not_migrate() {
    const OLDER: &str =
        "delete from _sqlx_migrations where version = (select max(version) from _sqlx_migrations)";
    let (mut database, refused) = refused_after(OLDER).await;

    for said in refused {
        assert!(said.contains("is older than this version"), "{said}");
        assert!(said.contains("run `creator-gateway migrate`"), "{said}");
    }
    database.reopen().await;
    let steps = database.schema_steps().await.unwrap();
    assert_eq!(steps.applied + 1, steps.all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_refuse_a_database_without_a_schema() {
    let (mut database, refused) = refused_after("drop table _sqlx_migrations").await;

    for said in refused {
        assert!(said.contains("has no tables of creator-gateway"), "{said}");
        assert!(!said.contains("postgres://"), "{said}");
    }
    database.reopen().await;
    assert_eq!(database.schema_steps().await.unwrap().applied, 0);
}
