//! The schema, in steps that only add. Built into the binary; the files say what each table is for.

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use crate::store::DatabaseKind;

/// The steps for one of the databases. All but the guards are the same text for both.
pub(crate) fn migrator(database: DatabaseKind) -> Migrator {
    let (guards, keys, calls) = match database {
        DatabaseKind::Sqlite => (
            include_str!("../migrations/0003_guards.sqlite.sql"),
            concat!(
                include_str!("../migrations/0006_keys.sql"),
                include_str!("../migrations/0006_keys.sqlite.sql")
            ),
            include_str!("../migrations/0008_calls_by_customer.sqlite.sql"),
        ),
        DatabaseKind::Postgres => (
            include_str!("../migrations/0003_guards.postgres.sql"),
            concat!(
                include_str!("../migrations/0006_keys.sql"),
                include_str!("../migrations/0006_keys.postgres.sql")
            ),
            include_str!("../migrations/0008_calls_by_customer.postgres.sql"),
        ),
    };
    Migrator::with_migrations(vec![
        step(1, "customers", include_str!("../migrations/0001_customers.sql")),
        step(2, "calls", include_str!("../migrations/0002_calls.sql")),
        step(3, "guards", guards),
        step(4, "sessions", include_str!("../migrations/0004_sessions.sql")),
        step(5, "jobs", include_str!("../migrations/0005_jobs.sql")),
        step(6, "keys", keys),
        step(7, "mail_links", include_str!("../migrations/0007_mail_links.sql")),
        step(8, "calls by customer", calls),
    ])
}

fn step(version: i64, name: &'static str, sql: &'static str) -> Migration {
    Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
}
