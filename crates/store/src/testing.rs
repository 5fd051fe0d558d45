//! A fresh database for a test.
//!
//! The run chooses the kind of database that `store` creates: `CREATOR_GATEWAY_TEST_DATABASE` is
//! `sqlite` (also if it is not set) or `postgresql`. PostgreSQL needs the URL of a server with a
//! role that may create databases in `CREATOR_GATEWAY_TEST_POSTGRES`; `scripts/postgres run` starts
//! one. A test that needs PostgreSQL whatever the run chooses is ignored with the reason "needs
//! PostgreSQL", and run by `--run-ignored`. PostgreSQL databases are copies of a template that is
//! migrated once for each state of the migrations, and are dropped at the end.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test that cannot prepare must fail"
)]

use std::hash::{BuildHasher as _, Hasher as _};
use std::ops::Deref;
use std::str::FromStr as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use domain::id::{CallId, NodeId};
use domain::time::Timestamp;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};
use tempfile::TempDir;

use crate::options::DatabaseKind;
use crate::takeover::{LookTime, Seen, TakenOver, TakeoverObserver, TakeoverWatch, UNRENEWED};
use crate::{OpenOptions, Store, StoreError, migrations};

/// The environment variable with the URL of a PostgreSQL server.
pub const POSTGRES_URL: &str = "CREATOR_GATEWAY_TEST_POSTGRES";
/// The environment variable that chooses the kind of database of a run.
pub const DATABASE: &str = "CREATOR_GATEWAY_TEST_DATABASE";

/// The environment variable that makes tests of many samples take all of them, if it is `1`.
pub const WHOLE: &str = "CREATOR_GATEWAY_TEST_WHOLE";

/// Advisory lock for creating the template, across all processes. Any number that nothing else
/// uses.
const TEMPLATE_LOCK: i64 = 7_201_461_982;

/// A migrated, empty database that is removed when this is dropped.
pub struct TestStore {
    store: Option<Store>,
    options: OpenOptions,
    home: DatabaseHome,
}

enum DatabaseHome {
    /// Removed with the store.
    Folder { _folder: TempDir },
    /// Dropped with the store.
    Server { admin: Box<PgConnectOptions>, name: String },
}

/// A fresh store of the kind that the run has chosen.
pub async fn store() -> TestStore {
    match chosen() {
        DatabaseKind::Sqlite => sqlite().await,
        DatabaseKind::Postgres => postgres().await,
    }
}

/// The kind of database that the run has chosen.
pub fn chosen() -> DatabaseKind {
    match std::env::var(DATABASE).as_deref() {
        Err(_) | Ok("sqlite") => DatabaseKind::Sqlite,
        Ok("postgresql") => DatabaseKind::Postgres,
        Ok(other) => panic!("{DATABASE} is {other:?}, not \"sqlite\" or \"postgresql\""),
    }
}

/// A number that says how many samples a test takes, or which step it takes among them: `whole` in
/// a full run, `short` in others.
pub fn samples(short: usize, whole: usize) -> usize {
    if std::env::var(WHOLE).is_ok_and(|value| value == "1") { whole } else { short }
}

/// A fresh SQLite store.
pub async fn sqlite() -> TestStore {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("store.db");
    let options = OpenOptions::new(format!("sqlite:{}", path.display()));
    let store = Store::open(&options).await.expect("SQLite opens");
    store.migrate().await.expect("SQLite migrates");
    TestStore { store: Some(store), options, home: DatabaseHome::Folder { _folder: folder } }
}

/// A fresh PostgreSQL store.
pub async fn postgres() -> TestStore {
    let admin = PgConnectOptions::from_str(&server()).expect("a PostgreSQL URL");
    let mut connection = admin.connect().await.expect("the PostgreSQL server responds");
    let template = template(&admin, &mut connection).await;
    let name = format!("cgw_test_{}", unique());
    execute(&mut connection, format!("create database {name} template {template}")).await;
    connection.close().await.expect("the connection closes");
    let options = OpenOptions {
        connections_max: 4,
        ..OpenOptions::new(admin.clone().database(&name).to_url_lossy())
    };
    let store = Store::open(&options).await.expect("PostgreSQL opens");
    TestStore {
        store: Some(store),
        options,
        home: DatabaseHome::Server { admin: Box::new(admin), name },
    }
}

/// The URL of the PostgreSQL server.
fn server() -> String {
    std::env::var(POSTGRES_URL).unwrap_or_else(|_| {
        panic!("{POSTGRES_URL} names no PostgreSQL server: use scripts/postgres run")
    })
}

/// Runs a statement that no function of the store would run, and returns the number of rows it
/// changed.
pub async fn run_raw(store: &Store, sql: &'static str) -> Result<u64, StoreError> {
    let mut tx = store.write().await?;
    let changed = tx.execute(sql, &[]).await?;
    tx.commit().await?;
    Ok(changed)
}

/// Counts the calls that ended in the latest transactions as usage, on SQLite.
pub async fn add_up_usage(store: &Store) -> Result<(), StoreError> {
    if store.database() == DatabaseKind::Postgres {
        return Ok(());
    }
    let mut tx = store.write().await?;
    crate::metering::sort_in(&mut tx).await?;
    tx.commit().await
}

/// Takes over what no process renews, as one that has looked at the database for two minutes would
/// at `now`. All nodes look gone to it, because no time passes.
pub async fn take_over(store: &Store, now: Timestamp) -> Result<TakenOver, StoreError> {
    let mut watch = TakeoverWatch::default();
    let seen = Seen::read(store, now).await?;
    let at = |time| LookTime { began: time, ended: time };
    watch.unrenewed(seen.clone(), &Onlooker(now), at(Duration::ZERO));
    watch.unrenewed(seen, &Onlooker(now), at(UNRENEWED)).take(store, now).await
}

/// A process that carries out nothing itself.
struct Onlooker(Timestamp);

impl TakeoverObserver for Onlooker {
    fn node(&self) -> NodeId {
        NodeId::new(self.0, [250; 10])
    }

    fn is_live(&self, _: CallId) -> bool {
        false
    }

    fn now(&self) -> Timestamp {
        self.0
    }

    fn running_for(&self) -> Duration {
        Duration::ZERO
    }
}

/// Runs a query and returns its column `line`, for tests that look at whole tables.
pub async fn lines(store: &Store, sql: &'static str) -> Result<Vec<String>, StoreError> {
    store.read().await?.rows(sql, &[]).await?.iter().map(|row| row.text("line")).collect()
}

/// The texts of the statements that the metering's connection has run since it was opened.
/// PostgreSQL only.
pub async fn metering_statements(store: &Store) -> Result<Vec<String>, StoreError> {
    const SQL: &str = "select statement as line from pg_prepared_statements";
    let mut tx = store.write_metering().await?;
    let rows = tx.rows(SQL, &[]).await?;
    tx.commit().await?;
    rows.iter().map(|row| row.text("line")).collect()
}

/// Runs a test's statement on the metering's connection.
pub async fn run_raw_metering(store: &Store, sql: &'static str) -> Result<(), StoreError> {
    let mut tx = store.write_metering().await?;
    tx.rows(sql, &[]).await?;
    tx.commit().await
}

impl TestStore {
    /// The options the store was opened with, for tests that open it themselves.
    pub fn options(&self) -> &OpenOptions {
        &self.options
    }

    /// Closes the store. All clones of it must have been dropped.
    pub async fn shut(&mut self) {
        if let Some(store) = self.store.take() {
            store.close().await;
        }
    }

    /// Discards everything in memory, as a crash does, and opens the database again. All clones of
    /// the store must have been dropped.
    pub async fn reopen(&mut self) {
        self.shut().await;
        self.store = Some(Store::open(&self.options).await.expect("the store opens again"));
    }
}

/// A copy of a database, as a backup has it; removed when this is dropped.
pub struct StoreCopy(CopyHome);

enum CopyHome {
    Folder(TempDir),
    Server { admin: Box<PgConnectOptions>, name: String },
}

/// The files of a SQLite database besides the database itself, which may be missing.
const SIDE_FILES: [&str; 2] = ["-wal", "-shm"];

impl TestStore {
    /// Copies the database. The store must have been shut, and nothing else may use it.
    pub async fn copy(&self) -> StoreCopy {
        match &self.home {
            DatabaseHome::Folder { .. } => {
                let folder = tempfile::tempdir().expect("a temporary folder");
                copy_files(&self.path(), &folder.path().join("copy.db"));
                StoreCopy(CopyHome::Folder(folder))
            }
            DatabaseHome::Server { admin, name } => {
                let copy = format!("cgw_copy_{}", unique());
                replace(admin, &copy, name).await;
                StoreCopy(CopyHome::Server { admin: admin.clone(), name: copy })
            }
        }
    }

    /// Replaces the database by a copy. The store must have been shut, and nothing else may use it.
    pub async fn restore(&self, copy: &StoreCopy) {
        match (&copy.0, &self.home) {
            (CopyHome::Folder(folder), DatabaseHome::Folder { .. }) => {
                copy_files(&folder.path().join("copy.db"), &self.path());
            }
            (CopyHome::Server { name: copy, .. }, DatabaseHome::Server { admin, name }) => {
                replace(admin, name, copy).await;
            }
            _ => panic!("the copy is of another kind of database"),
        }
    }

    /// The file of a SQLite database.
    fn path(&self) -> std::path::PathBuf {
        self.options.url.trim_start_matches("sqlite:").into()
    }
}

impl Drop for StoreCopy {
    fn drop(&mut self) {
        if let CopyHome::Server { admin, name } = &self.0 {
            drop_database(admin, name);
        }
    }
}

fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    std::fs::copy(from, to).expect("the database is copied");
    for side in SIDE_FILES {
        let beside = |path: &std::path::Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(side);
            std::path::PathBuf::from(name)
        };
        let (from, to) = (beside(from), beside(to));
        if from.exists() {
            std::fs::copy(from, to).expect("the database is copied");
        } else if to.exists() {
            std::fs::remove_file(to).expect("the file is removed");
        }
    }
}

/// Makes the database a copy of another one.
async fn replace(admin: &PgConnectOptions, name: &str, template: &str) {
    let mut connection = admin.connect().await.expect("the PostgreSQL server responds");
    execute(&mut connection, format!("drop database if exists {name} with (force)")).await;
    execute(&mut connection, format!("create database {name} template {template}")).await;
    connection.close().await.expect("the connection closes");
}

impl Deref for TestStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        self.store.as_ref().expect("the store is open")
    }
}

impl Drop for TestStore {
    /// Drops the database on the server, in a separate thread, because `drop` cannot await.
    fn drop(&mut self) {
        let DatabaseHome::Server { admin, name } = &self.home else {
            return;
        };
        drop_database(admin, name);
    }
}

fn drop_database(admin: &PgConnectOptions, name: &str) {
    let (admin, name) = (admin.clone(), name.to_owned());
    let cleaner = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let mut connection = admin.connect().await.expect("the server responds");
            execute(&mut connection, format!("drop database if exists {name} with (force)")).await;
        });
    });
    let removed = cleaner.join().is_ok();
    assert!(removed || std::thread::panicking(), "the database could not be removed");
}

/// The name of the migrated template, which is created if missing.
async fn template(admin: &PgConnectOptions, connection: &mut PgConnection) -> String {
    let mut hasher = std::hash::DefaultHasher::new();
    for migration in migrations::migrator(DatabaseKind::Postgres).iter() {
        hasher.write(&migration.checksum);
    }
    let name = format!("cgw_template_{:016x}", hasher.finish());
    execute(connection, format!("select pg_advisory_lock({TEMPLATE_LOCK})")).await;
    let exists = sqlx::query("select count(*) from pg_database where datname = $1")
        .bind(&name)
        .fetch_one(&mut *connection)
        .await
        .and_then(|row| row.try_get::<i64, _>(0))
        .expect("the databases are listed");
    if exists == 0 {
        let unfinished = format!("cgw_unfinished_{}", unique());
        execute(connection, format!("create database {unfinished}")).await;
        let url = admin.clone().database(&unfinished).to_url_lossy();
        let store = Store::open(&OpenOptions::new(url)).await.expect("the template opens");
        store.migrate().await.expect("PostgreSQL migrates");
        store.close().await;
        execute(connection, format!("alter database {unfinished} rename to {name}")).await;
    }
    execute(connection, format!("select pg_advisory_unlock({TEMPLATE_LOCK})")).await;
    name
}

async fn execute(connection: &mut PgConnection, sql: String) {
    let shown = sql.clone();
    if let Err(error) = sqlx::query(AssertSqlSafe(sql)).execute(connection).await {
        panic!("{shown}: {error}");
    }
}

/// A name that no other test uses, in this process or another.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let random = std::hash::RandomState::new().hash_one(0_u8);
    format!("{}_{}_{random:x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
