//! `admin liability`: the credits that customers can still spend, as a table, JSON or csv.

use ::operators::{LiabilityReport, LiabilityRow, OperatorCommand, OperatorOutcome};
use domain::staff::OperatorName;
use settings::Config;

use super::operator_tables::table;
use super::operators;
use crate::output::say_line;

/// How the report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    /// For people.
    Table,
    /// One JSON object on one line.
    Json,
    /// A header, and a line for each row.
    Csv,
}

/// Reads the report and prints it.
pub(crate) async fn run(
    config: Config,
    name: Option<&OperatorName>,
    format: ReportFormat,
) -> anyhow::Result<()> {
    let done = Box::pin(operators::run(config, name, OperatorCommand::Liability {})).await?;
    match (&done, format) {
        (OperatorOutcome::Liability(report), ReportFormat::Csv) => csv(report),
        (_, ReportFormat::Table) => super::operator_tables::print(&done),
        (_, ReportFormat::Json | ReportFormat::Csv) => {
            say_line!("{}", serde_json::to_string(&done)?)
        }
    }
}

/// Prints the report for people.
pub(crate) fn print(report: &LiabilityReport) -> anyhow::Result<()> {
    let mut rows = vec![
        ["source", "age in days", "credits", "never expire", "grants"].map(str::to_owned).to_vec(),
    ];
    let numbers = |row: &LiabilityRow| {
        vec![
            row.source.clone(),
            age(row),
            row.credits.to_string(),
            row.without_expiry.to_string(),
            row.lots.to_string(),
        ]
    };
    rows.extend(report.rows.iter().map(numbers));
    table(&rows)?;
    let LiabilityReport { at, outstanding, held, debt, customers, .. } = report;
    say_line!(
        "\n{outstanding} credits of {customers} customers at {at}; {held} more are held, {debt} are owed"
    )
}

fn age(row: &LiabilityRow) -> String {
    match row.days_until {
        Some(until) => format!("{} to {}", row.days_from, until.saturating_sub(1)),
        None => format!("{} and more", row.days_from),
    }
}

/// Prints the rows as csv: no value of theirs needs quotes.
fn csv(report: &LiabilityReport) -> anyhow::Result<()> {
    say_line!("source,days_from,days_until,credits,without_expiry,lots")?;
    for row in &report.rows {
        let until = row.days_until.map_or_else(String::new, |until| until.to_string());
        let LiabilityRow { source, days_from, credits, without_expiry, lots, .. } = row;
        say_line!("{source},{days_from},{until},{credits},{without_expiry},{lots}")?;
    }
    Ok(())
}
