//! Opening a store: what is refused, what may be open concurrently, and what survives.

use store::{
    DatabaseKind, OpenOptions, Store, StoreAccess, StoreError, customers, standbys, testing,
};

use crate::support::{NOON, TestCaller, assert_sound, credits, new_customer};

#[tokio::test]
async fn a_second_server_cannot_open_the_same_file() {
    let store = testing::sqlite().await;

    let second = Store::open(store.options()).await;

    assert!(matches!(second, Err(StoreError::InUse { .. })), "{second:?}");
}

#[tokio::test]
async fn a_database_without_standbys_reports_none() {
    let store = testing::store().await;
    let seen = standbys::read(&store).await.unwrap();

    let expected = match store.database() {
        DatabaseKind::Sqlite => None,
        DatabaseKind::Postgres => Some(standbys::StandbyStatus::default()),
    };
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_read_only_store_opens_while_a_server_runs() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 7).await;
    let options = OpenOptions { access: StoreAccess::ReadOnly, ..store.options().clone() };

    let reader = Store::open(&options).await.unwrap();

    assert_eq!(caller.balance(&reader).await.available, credits(7));
    assert_sound(&reader).await;
    let refused = customers::create(&reader, &new_customer("eve@example.com")).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly)), "{refused:?}");
}

#[tokio::test]
async fn a_read_only_store_opens_while_no_server_runs() {
    let mut store = testing::sqlite().await;
    let caller = TestCaller::with(&store, 7).await;
    let options = OpenOptions { access: StoreAccess::ReadOnly, ..store.options().clone() };
    store.shut().await;

    let reader = Store::open(&options).await.unwrap();

    assert_eq!(caller.balance(&reader).await.available, credits(7));
}

#[tokio::test]
async fn commits_survive_reopening() {
    let mut store = testing::store().await;
    let caller = TestCaller::with(&store, 7).await;

    store.reopen().await;
    store.migrate().await.unwrap();

    assert_eq!(caller.balance(&store).await.available, credits(7));
}

#[tokio::test]
async fn urls_of_other_databases_are_refused() {
    let opened = Store::open(&OpenOptions::new("mysql://localhost")).await;

    assert!(matches!(opened, Err(StoreError::UnknownUrl)), "{opened:?}");
}

#[tokio::test]
async fn a_missing_file_is_created_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let options = OpenOptions::new(format!("sqlite:{}", path.display()));
    let existing = OpenOptions { create_if_missing: false, ..options.clone() };
    let reading = OpenOptions { access: StoreAccess::ReadOnly, ..options.clone() };

    for refused in [Store::open(&existing).await, Store::open(&reading).await] {
        let Err(StoreError::NoDatabase { path: named }) = refused else { panic!("{refused:?}") };
        assert_eq!(named, path.display().to_string());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    let created = Store::open(&options).await.unwrap();

    assert_eq!(created.schema_steps().await.unwrap().applied, 0);
    created.close().await;
    drop(created);
    Store::open(&existing).await.unwrap().close().await;
}

#[tokio::test]
async fn a_file_in_a_missing_folder_is_refused() {
    let opened = Store::open(&OpenOptions::new("sqlite:/nowhere/at/all/store.db")).await;

    assert!(matches!(opened, Err(StoreError::File { .. })), "{opened:?}");
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_server_that_may_lose_confirmed_commits_is_refused() {
    let store = testing::postgres().await;
    let separator = if store.options().url.contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-c%20synchronous_commit%3Doff", store.options().url);

    let refused = Store::open(&OpenOptions::new(url.clone())).await;
    let accepted = Store::open(&OpenOptions { allow_unsafe: true, ..OpenOptions::new(url) }).await;

    let Err(StoreError::Connect { source, .. }) = refused else { panic!("{refused:?}") };
    let StoreError::Unsafe { setting, value } = *source else { panic!("{source:?}") };
    assert_eq!((setting, value.as_str()), ("synchronous_commit", "off"));
    assert!(accepted.is_ok());
}

#[tokio::test]
async fn only_a_shared_database_has_a_clock() {
    let store = testing::store().await;
    let time = store.database_time().await.unwrap();

    match store.database() {
        DatabaseKind::Sqlite => assert_eq!(time, None),
        DatabaseKind::Postgres => {
            assert!(time.is_some_and(|time| time > NOON.plus_seconds(-400 * 86_400)));
        }
    }
}
