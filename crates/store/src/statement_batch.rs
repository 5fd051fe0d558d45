//! Statements that share one round trip. A round trip to PostgreSQL costs a batch more than most of
//! its statements do, so those that do not need each other's results are combined into one. On
//! SQLite, which has no round trip, they run one by one.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::dialect;
use crate::options::DatabaseKind;
use crate::sql::{BatchColumn, SqlKind, SqlValue};
use crate::tx::RowTable;

/// One statement over rows, and the columns it returns.
///
/// On PostgreSQL all statements of a batch see the database as it was before the batch, whatever
/// their order: no two may change the same row, and none may look for what another changed.
/// `{after}` in a text stands for a condition that makes the statement run after the one before it.
pub(crate) struct BatchedStatement<'a> {
    pub(crate) sql: &'static str,
    pub(crate) over: RowSource,
    pub(crate) values: Vec<SqlValue<'a>>,
    pub(crate) returns: &'static [(&'static str, SqlKind)],
}

/// How a statement receives its rows.
#[derive(Clone, Copy)]
pub(crate) enum RowSource {
    /// As a query, in place of `{rows}`.
    Rows(&'static [SqlKind]),
    /// As an update by `dialect::update_over`, which returns the first column of the changed rows.
    Update(&'static [(&'static str, SqlKind)]),
}

impl<'a> BatchedStatement<'a> {
    /// A statement over the rows of a table, which returns these columns.
    pub(crate) fn over(
        sql: &'static str,
        table: RowTable<'a>,
        returns: &'static [(&'static str, SqlKind)],
    ) -> Self {
        let (kinds, values) = table.into_parts();
        Self { sql, over: RowSource::Rows(kinds), values, returns }
    }

    /// An update over rows.
    pub(crate) fn update(
        sql: &'static str,
        columns: &'static [(&'static str, SqlKind)],
        values: Vec<SqlValue<'a>>,
    ) -> Self {
        let returns = columns.get(..1).unwrap_or_default();
        Self { sql, over: RowSource::Update(columns), values, returns }
    }

    /// The types of its input columns.
    pub(crate) fn kinds(&self) -> Vec<SqlKind> {
        match self.over {
            RowSource::Rows(kinds) => kinds.to_vec(),
            RowSource::Update(columns) => columns.iter().map(|(_, kind)| *kind).collect(),
        }
    }
}

/// Several statements combined into one for PostgreSQL.
pub(crate) struct StatementBatch {
    pub(crate) text: String,
    /// For each statement, where its columns are in a row of the batch. Column 0 is the number of
    /// the statement.
    pub(crate) columns: Vec<Arc<[BatchColumn]>>,
}

/// Combines several statements into one. Statements without rows must have been left out.
pub(crate) fn batched(statements: &[&BatchedStatement<'_>]) -> StatementBatch {
    let width = |wanted| {
        let count = |statement: &&BatchedStatement<'_>| {
            statement.returns.iter().filter(|(_, kind)| *kind == wanted).count()
        };
        statements.iter().map(count).max().unwrap_or(0)
    };
    let widths = RETURNED.map(|(kind, _)| (kind, width(kind)));
    let (mut text, mut arms) = (String::from("with "), Vec::new());
    let (mut columns, mut parameter) = (Vec::new(), 1);
    for (number, statement) in statements.iter().enumerate() {
        let separator = if number == 0 { "" } else { ",\n" };
        let kinds = statement.kinds();
        let before = number.checked_sub(1).filter(|before| {
            statements.get(*before).is_some_and(|before| !before.returns.is_empty())
        });
        let sql_text = sql_text(statement, &kinds, parameter)
            .replacen("{after}", &after(before), 1)
            .replacen("{lock}", dialect::for_update(DatabaseKind::Postgres), 1);
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}p{number} as ({sql_text})");
        parameter += kinds.len();
        columns.push(columns_of(statement.returns, &widths));
        if !statement.returns.is_empty() {
            arms.push(arm(number, statement.returns, &widths));
        }
    }
    if arms.is_empty() {
        arms.push("select cast(0 as bigint) where false".to_owned());
    }
    text.push('\n');
    text.push_str(&arms.join("\nunion all "));
    StatementBatch { text, columns }
}

fn sql_text(statement: &BatchedStatement<'_>, kinds: &[SqlKind], parameter: usize) -> String {
    let source = dialect::rows_source_from(DatabaseKind::Postgres, kinds, 0, parameter);
    match statement.over {
        RowSource::Rows(_) => statement.sql.replacen("{rows}", &source, 1),
        RowSource::Update(columns) => dialect::update_from(&source, statement.sql, columns),
    }
}

/// A condition that holds once the statement with this number has run; always true without one.
pub(crate) fn after(statement: Option<usize>) -> String {
    match statement {
        Some(number) => format!("(select count(*) from p{number}) >= 0"),
        None => "true".to_owned(),
    }
}

/// The types that statements may return, in the order of the columns, with their names.
const RETURNED: [(SqlKind, &str); 3] =
    [(SqlKind::Text, "text"), (SqlKind::Int, "bigint"), (SqlKind::Uuid, "uuid")];

/// How many columns of each type the rows of a batch have.
type ReturnedWidths = [(SqlKind, usize); 3];

/// Where a statement's columns are: after the statement number come all texts, then all numbers,
/// then all UUIDs.
fn columns_of(returns: &[(&'static str, SqlKind)], widths: &ReturnedWidths) -> Arc<[BatchColumn]> {
    let place = |(nth, (name, kind)): (usize, &(&'static str, SqlKind))| {
        let before = returns.iter().take(nth).filter(|(_, other)| other == kind).count();
        let others = widths.iter().take_while(|(other, _)| other != kind);
        let first: usize = others.map(|(_, width)| width).sum();
        BatchColumn { name, position: 1 + first + before }
    };
    returns.iter().enumerate().map(place).collect()
}

/// The `select` that returns one statement's rows within the batch.
fn arm(number: usize, returns: &[(&str, SqlKind)], widths: &ReturnedWidths) -> String {
    let column_of = |kind, nth| {
        let mut same = returns.iter().filter(|(_, other)| *other == kind);
        same.nth(nth).map_or("null", |(name, _)| *name)
    };
    let mut text = format!("select cast({number} as bigint)");
    for ((kind, width), (_, type_name)) in widths.iter().zip(RETURNED) {
        for nth in 0..*width {
            let _ = write!(text, ", cast({} as {type_name})", column_of(*kind, nth));
        }
    }
    let _ = write!(text, " from p{number}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(columns: &[BatchColumn]) -> Vec<(&str, usize)> {
        columns.iter().map(|column| (column.name, column.position)).collect()
    }

    #[test]
    fn rows_of_a_batch_carry_the_number_of_their_statement() {
        const CHANGE: &str = "update t set a = {a} {from} where t.id = {id} {returning}";
        const READ: &str = "
            with v (id) as ({rows}) select n, id from u where {after} and id in (select id from v){lock}";
        let mut table = RowTable::new(&[SqlKind::Text]);
        table.push(["x".into()]);
        let change = BatchedStatement::update(
            CHANGE,
            &[("id", SqlKind::Text), ("a", SqlKind::Int)],
            Vec::new(),
        );
        let read =
            BatchedStatement::over(READ, table, &[("n", SqlKind::Int), ("id", SqlKind::Text)]);

        let batched = batched(&[&change, &read]);

        assert_eq!(
            batched.text.split_whitespace().collect::<Vec<_>>().join(" "),
            "with p0 as (with v (id, a) as (select * from unnest($1::text[],$2::bigint[])) \
             update t set a = v.a from v where t.id = v.id returning t.id), \
             p1 as ( with v (id) as (select * from unnest($3::text[])) \
             select n, id from u where (select count(*) from p0) >= 0 and id in (select id from v) for update) \
             select cast(0 as bigint), cast(id as text), cast(null as bigint) from p0 \
             union all select cast(1 as bigint), cast(id as text), cast(n as bigint) from p1"
        );
        assert_eq!(
            batched.columns.iter().map(|columns| positions(columns)).collect::<Vec<_>>(),
            [vec![("id", 1)], vec![("n", 2), ("id", 1)]]
        );
    }

    #[test]
    fn statements_without_results_return_no_rows() {
        const INSERT: &str = "insert into t (a) {rows}";
        let insert = BatchedStatement::over(INSERT, RowTable::new(&[SqlKind::Int]), &[]);

        assert_eq!(
            batched(&[&insert]).text,
            "with p0 as (insert into t (a) select * from unnest($1::bigint[]))\n\
             select cast(0 as bigint) where false"
        );
    }
}
