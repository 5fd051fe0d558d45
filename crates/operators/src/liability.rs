//! What customers can still spend, by source and age.

use failures::Failure;
use store::liability::LiabilityLine;

use crate::{LiabilityReport, LiabilityRow, OperatorOutcome, OperatorsState};

/// Sums up the credits of all customers.
pub(crate) async fn read(operators: &OperatorsState) -> Result<OperatorOutcome, Failure> {
    let at = operators.clock.now();
    let liability = store::liability::read(&operators.store, at).await?;
    Ok(OperatorOutcome::Liability(LiabilityReport {
        at,
        outstanding: liability.outstanding.whole(),
        held: liability.held.whole(),
        debt: liability.debt.whole(),
        customers: liability.customers,
        rows: liability.lines.iter().map(row).collect(),
    }))
}

fn row(line: &LiabilityLine) -> LiabilityRow {
    LiabilityRow {
        source: line.source.to_string(),
        days_from: line.days_from,
        days_until: line.days_until,
        credits: line.credits.whole(),
        without_expiry: line.without_expiry.whole(),
        lots: line.lots,
    }
}
