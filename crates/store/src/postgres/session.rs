//! What holds in every connection: its settings, and that the server takes writes and keeps what it confirms.
//!
//! Settings are set after connecting and read back: a connection pooler in front of the database drops those that come with
//! the connection itself without a word.

use std::collections::HashMap;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::StoreError;

/// A setting of PostgreSQL and its value, as the server writes it.
type ServerSetting = (&'static str, &'static str);

/// No statement waits for a lock, runs, or leaves its transaction idle for longer. The last one frees what a node has locked
/// that is cut off in the middle of a transaction: no transaction waits for anything but SQL.
const LIMITS: &[ServerSetting] = &[
    ("lock_timeout", "2s"),
    ("statement_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "3s"),
];

/// For work that may take its time, and for which nobody waits.
const NO_LIMITS: &[ServerSetting] = &[("lock_timeout", "0"), ("statement_timeout", "0")];

/// The metering's statements are few and take arrays: planning them anew for each batch costs as much as running them,
/// and finds the same plan. That plan is kept while tables grow from nothing, so it may only look rows up by their
/// index: a plan that reads a whole table is right for an empty one, and wrong from then on.
const PLANS: &[ServerSetting] = &[
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];

/// Lets the server notice a node that is gone, where it can: how it is done differs between systems and versions. Times
/// are milliseconds for `tcp_user_timeout` and seconds for the keepalives.
const PEER_CHECKS: &str = "
    select set_config(name, value, false)
    from (values ('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'),
                 ('tcp_user_timeout', '10000'), ('client_connection_check_interval', '2000')) as wanted (name, value)
    where current_setting(name, true) is not null";

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionPurpose {
    /// Whatever the service asks.
    General,
    /// The batches of the metering.
    Metering,
    /// Migrations.
    Unlimited,
}

impl SessionPurpose {
    const fn settings(self) -> &'static [&'static [ServerSetting]] {
        match self {
            Self::General => &[LIMITS],
            Self::Metering => &[LIMITS, PLANS],
            Self::Unlimited => &[NO_LIMITS],
        }
    }
}

/// What is demanded of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerDemands {
    /// It takes writes.
    pub(super) writable: bool,
    /// It keeps what it confirms when its power fails.
    pub(super) durable: bool,
}

/// Sets up a connection that was just made, and checks the server behind it.
pub(super) async fn prepare(
    connection: &mut PgConnection,
    purpose: SessionPurpose,
    demands: ServerDemands,
) -> Result<(), StoreError> {
    let wanted = || purpose.settings().iter().copied().flatten();
    let set: Vec<String> =
        wanted().map(|(name, value)| format!("set {name} = '{value}'")).collect();
    sqlx::raw_sql(AssertSqlSafe(set.join("; "))).execute(&mut *connection).await?;
    if purpose == SessionPurpose::Metering {
        note_peer_checks(sqlx::raw_sql(PEER_CHECKS).execute(&mut *connection).await)?;
    }
    let found = read_back(connection).await?;
    for (name, value) in wanted() {
        if found.get(*name).is_none_or(|found| found != value) {
            return Err(StoreError::SettingDropped { setting: name });
        }
    }
    check(&found, demands)
}

/// A server that refuses these settings is used without them; one that does not respond is not.
fn note_peer_checks<T>(set: Result<T, sqlx::Error>) -> Result<(), StoreError> {
    match set {
        Ok(_) => Ok(()),
        Err(sqlx::Error::Database(refused)) => {
            tracing::debug!(error = %refused, "the database does not look after lost connections");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The settings that are in force, and `in_recovery`.
async fn read_back(connection: &mut PgConnection) -> Result<HashMap<String, String>, StoreError> {
    const SQL: &str = "
        select name, coalesce(current_setting(name, true), '')
        from unnest(array['fsync', 'full_page_writes', 'synchronous_commit', 'transaction_read_only', 'lock_timeout',
                          'statement_timeout', 'idle_in_transaction_session_timeout', 'plan_cache_mode',
                          'enable_seqscan', 'enable_hashjoin', 'enable_mergejoin', 'jit']) as wanted (name)
        union all select 'in_recovery', cast(pg_is_in_recovery() as text)";
    let rows = sqlx::raw_sql(SQL).fetch_all(connection).await?;
    let read = |row: &PgRow| Ok((row.try_get(0)?, row.try_get(1)?));
    rows.iter().map(read).collect::<Result<_, sqlx::Error>>().map_err(StoreError::from)
}

/// Refuses a server that takes no writes, or that could lose a commit it confirmed. `synchronous_commit = local` does not
/// wait for the standby that is there to keep the commit.
fn check(found: &HashMap<String, String>, demands: ServerDemands) -> Result<(), StoreError> {
    const OFF: &[&str] = &["off"];
    const WEAK: &[&str] = &["off", "local"];
    const DURABILITY: [(&str, &[&str]); 3] =
        [("fsync", OFF), ("full_page_writes", OFF), ("synchronous_commit", WEAK)];
    let value_of = |name: &str| found.get(name).map(String::as_str).unwrap_or_default();
    let is_standby = value_of("in_recovery") == "true";
    if demands.writable && (is_standby || value_of("transaction_read_only") == "on") {
        return Err(StoreError::NotWritable { is_standby });
    }
    for (setting, refused) in DURABILITY {
        let value = value_of(setting);
        if demands.durable && refused.contains(&value) {
            return Err(StoreError::Unsafe { setting, value: value.to_owned() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(changed: &[ServerSetting]) -> HashMap<String, String> {
        let sound = [
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
            ("transaction_read_only", "off"),
            ("in_recovery", "false"),
        ];
        let all = sound.iter().chain(changed);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_server_that_takes_no_writes_or_may_lose_them_is_refused() {
        const ALL: ServerDemands = ServerDemands { writable: true, durable: true };
        const NOTHING: ServerDemands = ServerDemands { writable: false, durable: false };
        assert!(check(&server(&[]), ALL).is_ok());
        assert!(check(&server(&[("synchronous_commit", "remote_apply")]), ALL).is_ok());
        for unfit in [
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("synchronous_commit", "off"),
            ("synchronous_commit", "local"),
            ("transaction_read_only", "on"),
            ("in_recovery", "true"),
        ] {
            let found = server(&[unfit]);
            assert!(check(&found, ALL).is_err(), "{unfit:?}");
            assert!(check(&found, NOTHING).is_ok(), "{unfit:?}");
        }
    }
}
