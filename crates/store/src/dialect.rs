//! The few places where the two databases need different words. Nowhere else may they be told apart.

use std::fmt::Write as _;

use crate::sql::Kind;
use crate::store::DatabaseKind;

/// What follows a `select` whose rows are about to be changed.
pub(crate) const fn for_update(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => "",
        DatabaseKind::Postgres => " for update",
    }
}

/// The same where rows that another node is about to change are left to it.
pub(crate) const fn for_update_skip_locked(database: DatabaseKind) -> &'static str {
    match database {
        DatabaseKind::Sqlite => "",
        DatabaseKind::Postgres => " for update skip locked",
    }
}

/// How many rows a statement over `rows` rows has room for. SQLite writes each row out, so counts are
/// rounded up to keep the statements few and prepared; rows of nulls fill the rest.
pub(crate) const fn padded(database: DatabaseKind, rows: usize) -> usize {
    match database {
        DatabaseKind::Sqlite => rows.next_power_of_two(),
        DatabaseKind::Postgres => rows,
    }
}

/// The query that turns the parameters of a statement over many rows into rows.
pub(crate) fn rows_source(database: DatabaseKind, columns: &[Kind], rows: usize) -> String {
    match database {
        DatabaseKind::Sqlite => {
            // Plain placeholders: finding a named one takes SQLite time in proportion to their number.
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
                    Kind::Text => "text[]",
                    Kind::Int => "bigint[]",
                };
                // Writing to a string cannot fail.
                let _ = write!(source, "{separator}${}::{array}", index + 1);
            }
            source.push(')');
            source
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_values_on_sqlite_and_arrays_on_postgres() {
        let columns = [Kind::Text, Kind::Int];

        assert_eq!(rows_source(DatabaseKind::Sqlite, &columns, 2), "values (?,?),(?,?)");
        assert_eq!(
            rows_source(DatabaseKind::Postgres, &columns, 2),
            "select * from unnest($1::text[],$2::bigint[])"
        );
    }

    #[test]
    fn only_sqlite_needs_a_round_number_of_rows() {
        assert_eq!(padded(DatabaseKind::Sqlite, 5), 8);
        assert_eq!(padded(DatabaseKind::Sqlite, 256), 256);
        assert_eq!(padded(DatabaseKind::Postgres, 5), 5);
    }
}
