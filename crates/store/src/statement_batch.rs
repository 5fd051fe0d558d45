//! Statements that travel together. A way to PostgreSQL and back costs a batch more than most of its statements do, so
//! those that do not need each other's results become one; on SQLite, which is no way off, they run one by one.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::dialect;
use crate::sql::{SqlKind, SqlValue};
use crate::store::DatabaseKind;
use crate::tx::RowTable;

/// One statement over rows, and what the rows that it gives consist of.
///
/// On PostgreSQL all statements of one batch see the database as it was before the first of them, whatever their order:
/// no two may change the same row, and none may look for what another changed. Where `{after}` stands in a text
/// it is a condition that is met once the statement before it is done.
pub(crate) struct BatchedStatement<'a> {
    pub(crate) sql: &'static str,
    pub(crate) over: RowSource,
    pub(crate) values: Vec<SqlValue<'a>>,
    pub(crate) gives: &'static [SqlKind],
}

/// How a statement takes its rows.
#[derive(Clone, Copy)]
pub(crate) enum RowSource {
    /// As a query, in place of `{rows}`.
    Rows(&'static [SqlKind]),
    /// As `dialect::update_over` says; gives the first column of the rows it changed.
    Update(&'static [(&'static str, SqlKind)]),
}

impl<'a> BatchedStatement<'a> {
    /// A statement over the rows of a table, which gives rows of these kinds.
    pub(crate) fn over(sql: &'static str, table: RowTable<'a>, gives: &'static [SqlKind]) -> Self {
        let (kinds, values) = table.into_parts();
        Self { sql, over: RowSource::Rows(kinds), values, gives }
    }

    /// An update over rows.
    pub(crate) fn update(
        sql: &'static str,
        columns: &'static [(&'static str, SqlKind)],
        values: Vec<SqlValue<'a>>,
    ) -> Self {
        Self { sql, over: RowSource::Update(columns), values, gives: &[SqlKind::Text] }
    }

    /// The kinds of the columns of its rows.
    pub(crate) fn kinds(&self) -> Vec<SqlKind> {
        match self.over {
            RowSource::Rows(kinds) => kinds.to_vec(),
            RowSource::Update(columns) => columns.iter().map(|(_, kind)| *kind).collect(),
        }
    }
}

/// Several statements as one of PostgreSQL.
pub(crate) struct StatementBatch {
    pub(crate) text: String,
    /// For each statement: where its columns are in a row of the batch. The first one is the number of the statement.
    pub(crate) places: Vec<Arc<[usize]>>,
}

/// Makes one statement of several. Those without rows must have been left out.
pub(crate) fn batched(statements: &[&BatchedStatement<'_>]) -> StatementBatch {
    let width = |wanted| {
        let count = |statement: &&BatchedStatement<'_>| {
            statement.gives.iter().filter(|kind| **kind == wanted).count()
        };
        statements.iter().map(count).max().unwrap_or(0)
    };
    let (texts, numbers) = (width(SqlKind::Text), width(SqlKind::Int));
    let (mut text, mut arms) = (String::from("with "), Vec::new());
    let (mut places, mut parameter) = (Vec::new(), 1);
    for (number, statement) in statements.iter().enumerate() {
        let separator = if number == 0 { "" } else { ",\n" };
        let names: Vec<String> =
            (0..statement.gives.len()).map(|place| format!("c{place}")).collect();
        let columns =
            if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
        let kinds = statement.kinds();
        let before = number.checked_sub(1).filter(|before| {
            statements.get(*before).is_some_and(|before| !before.gives.is_empty())
        });
        let sql_text = sql_text(statement, &kinds, parameter)
            .replacen("{after}", &after(before), 1)
            .replacen("{lock}", dialect::for_update(DatabaseKind::Postgres), 1);
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}p{number}{columns} as ({sql_text})");
        parameter += kinds.len();
        places.push(places_of(statement.gives, texts));
        if !statement.gives.is_empty() {
            arms.push(arm(number, statement.gives, (texts, numbers)));
        }
    }
    if arms.is_empty() {
        arms.push("select cast(0 as bigint) where false".to_owned());
    }
    text.push('\n');
    text.push_str(&arms.join("\nunion all "));
    StatementBatch { text, places }
}

fn sql_text(statement: &BatchedStatement<'_>, kinds: &[SqlKind], parameter: usize) -> String {
    let source = dialect::rows_source_from(DatabaseKind::Postgres, kinds, 0, parameter);
    match statement.over {
        RowSource::Rows(_) => statement.sql.replacen("{rows}", &source, 1),
        RowSource::Update(columns) => dialect::update_from(&source, statement.sql, columns),
    }
}

/// What is met once the statement with this number is done; always, if there is none.
pub(crate) fn after(statement: Option<usize>) -> String {
    match statement {
        Some(number) => format!("(select count(*) from p{number}) >= 0"),
        None => "true".to_owned(),
    }
}

/// Where the columns of a statement are: after its number all texts, then all numbers.
fn places_of(gives: &[SqlKind], texts: usize) -> Arc<[usize]> {
    let (mut text, mut number) = (1, 1 + texts);
    let place = |kind: &SqlKind| {
        let next = match kind {
            SqlKind::Text => &mut text,
            SqlKind::Int => &mut number,
        };
        *next += 1;
        *next - 1
    };
    gives.iter().map(place).collect()
}

/// The rows of one statement among those of the batch.
fn arm(number: usize, gives: &[SqlKind], (texts, numbers): (usize, usize)) -> String {
    let column_of = |kind, nth| {
        let mut same = gives.iter().enumerate().filter(|(_, other)| **other == kind);
        same.nth(nth).map_or_else(|| "null".to_owned(), |(place, _)| format!("c{place}"))
    };
    let mut text = format!("select cast({number} as bigint)");
    for nth in 0..texts {
        let _ = write!(text, ", cast({} as text)", column_of(SqlKind::Text, nth));
    }
    for nth in 0..numbers {
        let _ = write!(text, ", cast({} as bigint)", column_of(SqlKind::Int, nth));
    }
    let _ = write!(text, " from p{number}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_one_statement_whose_rows_tell_which_part_gave_them() {
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
        let read = BatchedStatement::over(READ, table, &[SqlKind::Int, SqlKind::Text]);

        let batched = batched(&[&change, &read]);

        assert_eq!(
            batched.text.split_whitespace().collect::<Vec<_>>().join(" "),
            "with p0 (c0) as (with v (id, a) as (select * from unnest($1::text[],$2::bigint[])) \
             update t set a = v.a from v where t.id = v.id returning t.id), \
             p1 (c0, c1) as ( with v (id) as (select * from unnest($3::text[])) \
             select n, id from u where (select count(*) from p0) >= 0 and id in (select id from v) for update) \
             select cast(0 as bigint), cast(c0 as text), cast(null as bigint) from p0 \
             union all select cast(1 as bigint), cast(c1 as text), cast(c0 as bigint) from p1"
        );
        assert_eq!(
            batched.places.iter().map(|places| places.to_vec()).collect::<Vec<_>>(),
            [vec![1], vec![2, 1]]
        );
    }

    #[test]
    fn parts_that_give_nothing_give_no_rows() {
        const INSERT: &str = "insert into t (a) {rows}";
        let insert = BatchedStatement::over(INSERT, RowTable::new(&[SqlKind::Int]), &[]);

        assert_eq!(
            batched(&[&insert]).text,
            "with p0 as (insert into t (a) select * from unnest($1::bigint[]))\n\
             select cast(0 as bigint) where false"
        );
    }
}
