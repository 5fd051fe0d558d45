//! The schema, as a list of migrations built into the binary. The SQL files say what each table is
//! for.

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

use crate::options::DatabaseKind;

/// The migrations for one of the databases. Some have the same text for both; others have a part or
/// all of their text for one database only, and a few exist for one database alone.
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
    let mut steps = vec![
        step(1, "customers", include_str!("../migrations/0001_customers.sql")),
        step(2, "calls", include_str!("../migrations/0002_calls.sql")),
        step(3, "guards", guards),
        step(4, "sessions", include_str!("../migrations/0004_sessions.sql")),
        step(5, "jobs", include_str!("../migrations/0005_jobs.sql")),
        step(6, "keys", keys),
        step(7, "mail_links", include_str!("../migrations/0007_mail_links.sql")),
        step(8, "calls by customer", calls),
        step(9, "exports", exports(database)),
        step(10, "billing", billing(database)),
        step(11, "subscriptions", include_str!("../migrations/0011_subscriptions.sql")),
        step(12, "top-ups", include_str!("../migrations/0012_topups.sql")),
    ];
    if database == DatabaseKind::Postgres {
        // On SQLite the order of this trigger costs nothing.
        let guard = include_str!("../migrations/0013_calls_guard.postgres.sql");
        steps.push(step(13, "calls guard", guard));
    }
    steps.push(step(14, "usage notes", usage_notes(database)));
    if database == DatabaseKind::Sqlite {
        let guard = include_str!("../migrations/0015_calls_guard.sqlite.sql");
        steps.push(step(15, "calls guard", guard));
    }
    if database == DatabaseKind::Postgres {
        // SQLite compares this way by default.
        let collation = include_str!("../migrations/0016_bytewise.postgres.sql");
        steps.push(step(16, "texts compared byte by byte", collation));
    }
    steps.push(step(17, "platform health", platform_health(database)));
    steps.push(step(18, "login networks", login_networks(database)));
    if database == DatabaseKind::Sqlite {
        // PostgreSQL adds to the usage tables immediately.
        let deltas = include_str!("../migrations/0019_usage_deltas.sqlite.sql");
        steps.push(step(19, "usage deltas", deltas));
    }
    steps.push(step(20, "lots and sales", lots(database)));
    steps.push(step(21, "plans", plans(database)));
    steps.push(step(22, "own requests", own_requests(database)));
    steps.push(switched_off_accounts());
    if database == DatabaseKind::Sqlite {
        let pending = include_str!("../migrations/0024_usage_pending.sqlite.sql");
        steps.push(step(24, "usage pending", pending));
    }
    steps.push(byte_order_marks());
    steps.push(step(26, "export removals", export_removals(database)));
    steps.push(unpaid_invoices());
    steps.push(step(28, "columns of exports", export_columns(database)));
    steps.push(chosen_cards());
    steps.extend(newest(database));
    Migrator::with_migrations(steps)
}

/// The steps from 30 on.
fn newest(database: DatabaseKind) -> Vec<Migration> {
    vec![
        step(30, "export progress", export_progress(database)),
        step(31, "cookies of accounts", account_cookies(database)),
        step(32, "operators", operators(database)),
        step(33, "invoices", invoices(database)),
        step(34, "tags", tags(database)),
        step(35, "totals of calls", call_totals(database)),
        step(36, "notices", notices(database)),
        step(37, "reconciliations", reconciliations(database)),
        step(38, "end of audit entries", audit_retention(database)),
        step(39, "rows of calls", call_rows(database)),
        calls_by_request(),
        step(41, "leases", leases(database)),
        step(42, "credit notes", credit_notes(database)),
        step(43, "disputes", disputes(database)),
        step(44, "waiting top-ups", waiting_top_ups(database)),
    ]
}

const fn waiting_top_ups(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0044_top_up_waiting.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0044_top_up_waiting.postgres.sql"),
    }
}

const fn credit_notes(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0042_credit_notes.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0042_credit_notes.postgres.sql"),
    }
}

const fn leases(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0041_leases.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0041_leases.postgres.sql"),
    }
}

const fn disputes(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0043_disputes.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0043_disputes.postgres.sql"),
    }
}

fn calls_by_request() -> Migration {
    step(40, "calls by request", include_str!("../migrations/0040_calls_by_request.sql"))
}

fn switched_off_accounts() -> Migration {
    let sql = include_str!("../migrations/0023_switched_off_accounts.sql");
    step(23, "accounts that are switched off", sql)
}

fn byte_order_marks() -> Migration {
    step(25, "byte order marks of csv files", include_str!("../migrations/0025_csv_bom.sql"))
}

fn unpaid_invoices() -> Migration {
    step(27, "unpaid invoices", include_str!("../migrations/0027_unpaid_invoices.sql"))
}

const fn operators(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0032_operators.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0032_operators.postgres.sql"),
    }
}

const fn invoices(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0033_invoices.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0033_invoices.postgres.sql"),
    }
}

const fn tags(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0034_tags.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0034_tags.postgres.sql"),
    }
}

const fn call_totals(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0035_call_totals.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0035_call_totals.postgres.sql"),
    }
}

const fn notices(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0036_notices.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0036_notices.postgres.sql"),
    }
}

const fn audit_retention(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0038_audit_retention.sqlite.sql"),
        DatabaseKind::Postgres => {
            include_str!("../migrations/0038_audit_retention.postgres.sql")
        }
    }
}

const fn call_rows(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0039_call_rows.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0039_call_rows.postgres.sql"),
    }
}

const fn reconciliations(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0037_reconciliations.sqlite.sql"),
        DatabaseKind::Postgres => {
            include_str!("../migrations/0037_reconciliations.postgres.sql")
        }
    }
}

const fn export_progress(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0030_export_progress.sqlite.sql"),
        DatabaseKind::Postgres => {
            include_str!("../migrations/0030_export_progress.postgres.sql")
        }
    }
}

const fn account_cookies(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0031_account_cookies.sqlite.sql"),
        DatabaseKind::Postgres => {
            include_str!("../migrations/0031_account_cookies.postgres.sql")
        }
    }
}

const fn export_columns(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0028_export_columns.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0028_export_columns.postgres.sql"),
    }
}

fn chosen_cards() -> Migration {
    step(29, "chosen cards", include_str!("../migrations/0029_chosen_cards.sql"))
}

const fn export_removals(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0026_export_removals.sqlite.sql"),
        DatabaseKind::Postgres => {
            include_str!("../migrations/0026_export_removals.postgres.sql")
        }
    }
}

const fn login_networks(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0018_login_networks.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0018_login_networks.postgres.sql"),
    }
}

const fn lots(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => concat!(
            include_str!("../migrations/0020_lots.sql"),
            include_str!("../migrations/0020_lots.sqlite.sql")
        ),
        DatabaseKind::Postgres => concat!(
            include_str!("../migrations/0020_lots.sql"),
            include_str!("../migrations/0020_lots.postgres.sql")
        ),
    }
}

const fn plans(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0021_plans.sql"),
        DatabaseKind::Postgres => concat!(
            include_str!("../migrations/0021_plans.sql"),
            include_str!("../migrations/0021_plans.postgres.sql")
        ),
    }
}

const fn platform_health(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0017_platform_health.sql"),
        DatabaseKind::Postgres => concat!(
            include_str!("../migrations/0017_platform_health.sql"),
            include_str!("../migrations/0017_platform_health.postgres.sql")
        ),
    }
}

const fn exports(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => concat!(
            include_str!("../migrations/0009_exports.sql"),
            include_str!("../migrations/0009_exports.sqlite.sql")
        ),
        DatabaseKind::Postgres => concat!(
            include_str!("../migrations/0009_exports.sql"),
            include_str!("../migrations/0009_exports.postgres.sql")
        ),
    }
}

const fn billing(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => concat!(
            include_str!("../migrations/0010_billing.sql"),
            include_str!("../migrations/0010_billing.sqlite.sql")
        ),
        DatabaseKind::Postgres => concat!(
            include_str!("../migrations/0010_billing.sql"),
            include_str!("../migrations/0010_billing.postgres.sql")
        ),
    }
}

const fn usage_notes(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0014_usage_notes.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0014_usage_notes.postgres.sql"),
    }
}

const fn own_requests(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => include_str!("../migrations/0022_own_requests.sqlite.sql"),
        DatabaseKind::Postgres => include_str!("../migrations/0022_own_requests.postgres.sql"),
    }
}

fn step(version: i64, name: &'static str, sql: &'static str) -> Migration {
    Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
    use sqlx::sqlite::SqlitePoolOptions;
    use sqlx::{ConnectOptions as _, PgPool, Row as _, SqlitePool};

    use super::*;
    use crate::testing;

    /// The names of the objects of one type that belong to the table `ended_calls`.
    async fn names(pool: &SqlitePool, kind: &str) -> Vec<String> {
        let sql = "select name from sqlite_schema where type = ?1 and tbl_name = 'ended_calls' and sql is not null order by 1";
        let rows = sqlx::query(sql).bind(kind).fetch_all(pool).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    #[tokio::test]
    async fn migrating_sqlite_keeps_the_call_log_and_its_guard() {
        const CALL: &str = "
            insert into calls (id, customer_id, key_id, creator_id, platform, method, path, route, cost, credits, state,
                outcome, status, request_id, node_id, epoch, held_at, expires_at, resolved_at, duration_ms, upstream_ms,
                idempotency_hash)
            values ('call_019ab3c4d5e67f8091a2b3c4d5e6f708', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 2, 2, 'settled', 'i', 200, 'j',
                'k', 3, 4, 5, 6, 7, 8, 'ab')";
        const READ: &str = "
            select id || customer_id || key_id || creator_id || platform || method || path || route || cost || credits
                || state || outcome || status || request_id || node_id || epoch || held_at || resolved_at
                || duration_ms || upstream_ms || idempotency_hash from calls";
        let pool =
            SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
        let all = migrator(DatabaseKind::Sqlite);
        let older = all.iter().filter(|step| step.version < 8).cloned().collect();
        Migrator::with_migrations(older).run(&pool).await.unwrap();
        sqlx::query(CALL).execute(&pool).await.unwrap();

        all.run(&pool).await.unwrap();

        let kept: String = sqlx::query(READ).fetch_one(&pool).await.unwrap().get(0);
        assert_eq!(kept, "call_019ab3c4d5e67f8091a2b3c4d5e6f708bcdefgh22settledi200jk34678ab");
        assert_eq!(
            names(&pool, "index").await,
            ["ended_calls_by_customer", "ended_calls_by_request"]
        );
        let changed = sqlx::query("update ended_calls set status = 500").execute(&pool).await;
        assert!(changed.unwrap_err().to_string().contains("an ended call never changes"));
    }

    #[tokio::test]
    #[ignore = "needs PostgreSQL"]
    async fn migrating_postgres_sets_bytewise_collation_and_keeps_views_and_triggers() {
        const OTHERS: &str = r#"
            select c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
            where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'v')
                and c.relname <> '_sqlx_migrations' and a.atttypid = 'text'::regtype and a.attnum > 0
                and not a.attisdropped and a.attcollation <> '"C"'::regcollation"#;
        const MADE_AGAIN: &str = "
            select tgname::text from pg_trigger where not tgisinternal and tgqual is not null
            union all
            select relname::text from pg_class
            where relkind = 'v' and relnamespace = current_schema()::regnamespace order by 1";
        let store = testing::postgres().await;
        let pool = PgPool::connect(&store.options().url).await.unwrap();
        let read = async |sql: &'static str| -> Vec<String> {
            let rows = sqlx::query(sql).fetch_all(&pool).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        };

        assert_eq!(read(OTHERS).await, Vec::<String>::new());
        let kept = [
            "all_ended_calls",
            "call_rows",
            "calls",
            "export_jobs_charged_once",
            "orders_keep_what_was_agreed",
            "orders_keep_what_was_paid",
            "sales_keep_what_was_paid",
            "usage_by_day",
            "usage_by_route",
        ];
        assert_eq!(read(MADE_AGAIN).await, kept);
        pool.close().await;
    }

    #[tokio::test]
    #[ignore = "needs PostgreSQL"]
    async fn a_running_node_survives_a_migration_of_postgres() {
        const NEW: &str = "
            insert into customers (id, email, name, password_hash, trial_state, created_at)
            values ('a', 'ada@example.com', 'Ada', '', 'none', 1)";
        let store = testing::postgres().await;
        let options = PgConnectOptions::from_str(&store.options().url).unwrap();
        let options =
            options.application_name("creator-gateway").options([("search_path", "older")]);
        let node = PgPoolOptions::new().max_connections(1).connect_with(options.clone());
        let node = node.await.unwrap();
        let all = migrator(DatabaseKind::Postgres);
        let older = all.iter().filter(|step| step.version < 16).cloned().collect();
        sqlx::query("create schema older").execute(&node).await.unwrap();
        Migrator::with_migrations(older).run(&node).await.unwrap();
        sqlx::query(NEW).execute(&node).await.unwrap();
        let read = || sqlx::query("select id from customers").fetch_one(&node);
        // After the migration, the prepared statement would return another type.
        read().await.unwrap();

        let mut migrating = options.connect().await.unwrap();
        all.run(&mut migrating).await.unwrap();

        assert_eq!(read().await.unwrap().get::<String, _>(0), "a");
        node.close().await;
    }
}
