//! The session of every connection: its settings, and a check that the server accepts writes and
//! keeps confirmed commits.
//!
//! Settings are applied after connecting and read back: a connection pooler in front of the
//! database silently drops those sent in the startup message.

use std::collections::HashMap;

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::StoreError;

/// A setting of PostgreSQL and its value, as the server writes it.
type ServerSetting = (&'static str, &'static str);

/// Time limits for lock waits, statements, and transactions that are idle. The last one releases
/// the locks of a node that is cut off in the middle of a transaction: no transaction waits for
/// anything but SQL.
const LIMITS: &[ServerSetting] = &[
    ("lock_timeout", "2s"),
    ("statement_timeout", "5s"),
    ("idle_in_transaction_session_timeout", "3s"),
];

/// For long work that no request waits for.
const NO_LIMITS: &[ServerSetting] = &[("lock_timeout", "0"), ("statement_timeout", "0")];

/// The metering has few statements, which take arrays. Planning them for each batch would cost as
/// much as running them and find the same plan. The plan is kept while tables grow from nothing, so
/// it may only use index lookups: reading a whole table is right for an empty one, and wrong from
/// then on.
const PLANS: &[ServerSetting] = &[
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("jit", "off"),
];

/// Lets the server detect a lost node, as far as its operating system and version support these
/// settings. Values are milliseconds for `tcp_user_timeout` and `client_connection_check_interval`,
/// and seconds for the keepalive times.
const PEER_CHECKS: &str = "
    select set_config(name, value, false)
    from (values ('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'),
                 ('tcp_user_timeout', '10000'), ('client_connection_check_interval', '2000')) as wanted (name, value)
    where current_setting(name, true) is not null";

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionPurpose {
    /// Everything but the metering and migrations.
    General,
    /// Metering batches.
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

/// What a server must offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerDemands {
    /// It accepts writes.
    pub(super) writable: bool,
    /// It keeps confirmed commits through a power failure.
    pub(super) durable: bool,
}

/// Sets up a new connection and checks the server behind it.
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

/// A server that refuses these settings is used without them. Any other error fails the connection.
fn note_peer_checks<T>(set: Result<T, sqlx::Error>) -> Result<(), StoreError> {
    match set {
        Ok(_) => Ok(()),
        Err(sqlx::Error::Database(refused)) => {
            tracing::debug!(
                error = %refused,
                "the database refuses the settings that detect lost connections"
            );
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The settings in effect, and `in_recovery`.
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

/// Refuses a server that accepts no writes, or that could lose a confirmed commit.
/// `synchronous_commit = local` does not wait for the standby, which is there to keep the commit.
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
    fn read_only_and_unsafe_servers_are_refused() {
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
