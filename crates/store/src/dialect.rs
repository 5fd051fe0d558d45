//! SQL that differs between the two databases, for statements that both run.

use std::fmt::Write as _;

use crate::options::DatabaseKind;
use crate::sql::SqlKind;

/// The clause after a `select` whose rows are about to be changed.
pub(crate) const fn for_update(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => "",
        DatabaseKind::Postgres => " for update",
    }
}

/// Like `for_update`, but rows that refer to a locked one can be inserted meanwhile.
pub(crate) const fn for_no_key_update(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => "",
        DatabaseKind::Postgres => " for no key update",
    }
}

/// Like `for_update`, but skips rows that another node has locked.
pub(crate) const fn for_update_skip_locked(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => "",
        DatabaseKind::Postgres => " for update skip locked",
    }
}

/// Like `for_update_skip_locked`, for the rows of one of the tables.
pub(crate) fn for_update_of_skip_locked(database: DatabaseKind, table: &str) -> String {
    match database {
        DatabaseKind::Sqlite => String::new(),
        DatabaseKind::Postgres => format!(" for update of {table} skip locked"),
    }
}

/// The id of a call as a text, from the column of a table of calls.
pub(crate) fn call_id(database: DatabaseKind, column: &str) -> String {
    match database {
        DatabaseKind::Sqlite => format!("'call_' || lower(hex({column}))"),
        DatabaseKind::Postgres => {
            format!("'call_' || replace(cast({column} as text), '-', '')")
        }
    }
}

/// A stored hash as a text, from a column of bytes.
pub(crate) fn hex_of(database: DatabaseKind, column: &str) -> String {
    match database {
        DatabaseKind::Sqlite => format!("lower(hex({column}))"),
        DatabaseKind::Postgres => format!("encode({column}, 'hex')"),
    }
}

/// The query that turns the parameters of a statement over many rows into rows.
pub(crate) fn rows_source(database: DatabaseKind, columns: &[SqlKind], rows: usize) -> String {
    rows_source_from(database, columns, rows, 1)
}

/// Like `rows_source`, with the number of the first parameter. SQLite's placeholders are
/// unnumbered.
pub(crate) fn rows_source_from(
    database: DatabaseKind,
    columns: &[SqlKind],
    rows: usize,
    parameter: usize,
) -> String {
    match database {
        DatabaseKind::Sqlite => {
            // Unnamed placeholders: looking up a named one takes SQLite time proportional to their
            // number.
            let row = format!("({}),", vec!["?"; columns.len()].join(","));
            let mut source = format!("values {}", row.repeat(rows));
            source.pop();
            source
        }
        DatabaseKind::Postgres => {
            let mut source = "select * from unnest(".to_owned();
            for (index, kind) in columns.iter().enumerate() {
                let separator = if index == 0 { "" } else { "," };
                let array = match kind {
                    SqlKind::Text => "text[]",
                    SqlKind::Int => "bigint[]",
                    SqlKind::Bytes => "bytea[]",
                    SqlKind::Uuid => "uuid[]",
                };
                // Writing to a string cannot fail.
                let _ = write!(source, "{separator}${}::{array}", index + parameter);
            }
            source.push(')');
            source
        }
    }
}

/// An update over rows. In its text, a column's name in braces stands for its value, `{from}` for
/// the source of the rows, and `{returning}` for the clause that returns the first column of the
/// changed rows.
pub(crate) fn update_over(
    database: DatabaseKind,
    sql: &str,
    columns: &[(&str, SqlKind)],
    rows: usize,
) -> String {
    let kinds: Vec<SqlKind> = columns.iter().map(|(_, kind)| *kind).collect();
    update_from(&rows_source(database, &kinds, rows), sql, columns)
}

/// The same update over the rows of the query `source`.
pub(crate) fn update_from(source: &str, sql: &str, columns: &[(&str, SqlKind)]) -> String {
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let table = sql.split_whitespace().nth(1).unwrap_or_default();
    let first = names.first().copied().unwrap_or_default();
    let mut text = sql
        .replace("{from}", "from v")
        .replace("{returning}", &format!("returning {table}.{first}"));
    for name in &names {
        text = text.replace(&format!("{{{name}}}"), &format!("v.{name}"));
    }
    format!("with v ({}) as ({source}) {text}", names.join(", "))
}

/// The same update for one row at a time, with the row's values as parameters.
pub(crate) fn update_each(sql: &str, columns: &[(&str, SqlKind)]) -> String {
    let mut text = sql.replace("{from}", "").replace("{returning}", "");
    for (place, (name, _)) in columns.iter().enumerate() {
        text = text.replace(&format!("{{{name}}}"), &format!("?{}", place + 1));
    }
    text
}

/// The same statement for SQLite, where a failure rolls back the whole transaction. For
/// transactions that end at the first failure: to undo one statement alone, SQLite has to keep a
/// copy of every page that it changes.
pub(crate) fn undoing_all(sql: &str) -> String {
    for verb in ["insert", "update"] {
        if let Some(rest) = sql.trim_start().strip_prefix(verb) {
            return format!("{verb} or rollback{rest}");
        }
    }
    sql.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_values_on_sqlite_and_arrays_on_postgres() {
        let columns = [SqlKind::Text, SqlKind::Int];

        assert_eq!(rows_source(DatabaseKind::Sqlite, &columns, 2), "values (?,?),(?,?)");
        assert_eq!(
            rows_source(DatabaseKind::Postgres, &columns, 2),
            "select * from unnest($1::text[],$2::bigint[])"
        );
    }

    #[test]
    fn updates_take_values_from_rows_or_from_parameters() {
        const SQL: &str = "update t set a = {a} {from} where t.id = {id} {returning}";
        let columns = [("id", SqlKind::Text), ("a", SqlKind::Int)];

        assert_eq!(
            update_over(DatabaseKind::Postgres, SQL, &columns, 3),
            "with v (id, a) as (select * from unnest($1::text[],$2::bigint[])) \
             update t set a = v.a from v where t.id = v.id returning t.id"
        );
        assert_eq!(update_each(SQL, &columns), "update t set a = ?2  where t.id = ?1 ");
    }

    #[test]
    fn failed_changes_roll_back_the_whole_transaction() {
        for (sql, expected) in [
            (" insert into t (a) values (?)", "insert or rollback into t (a) values (?)"),
            ("update t set a = ?1", "update or rollback t set a = ?1"),
            (
                "with v (a) as (values (?)) select a from v",
                "with v (a) as (values (?)) select a from v",
            ),
        ] {
            assert_eq!(undoing_all(sql), expected);
        }
    }
}
