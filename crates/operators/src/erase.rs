//! Erasing customers: what identifies a person is removed, the ledger stays exact.

use billing::jobs::delete_payer;
use domain::customer::CustomerRef;
use domain::export::ExportState;
use domain::id::CustomerId;
use failures::{Failure, OperatorProblem};
use runtime::audit;
use serde_json::json;
use store::erasure::{self, ErasureMode, ErasureObstacle, ErasureOutcome, ErasureReport};
use store::exports::ExportList;

use crate::{
    CustomerErasure, ErasedTable, OperatorIdentity, OperatorOutcome, OperatorsState, unknown,
};

/// How many open exports one round cancels.
const EXPORTS_MAX: i64 = 500;

/// Erases a customer. Its open exports are cancelled first if nothing else is in the way; of a
/// customer that cannot be erased, nothing changes.
pub(crate) async fn erase(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    named: &CustomerRef,
    dry_run: bool,
) -> Result<OperatorOutcome, Failure> {
    let customer = operators.find(named).await?.id;
    if dry_run {
        let details = json!({"command": "erase"});
        operators.record(who, customer, audit::OPERATOR_PREVIEWED, details).await?;
        let report = attempt(operators, who, customer, ErasureMode::Preview).await??;
        return Ok(OperatorOutcome::CustomerErased(described(customer, report, true)));
    }
    let preview = attempt(operators, who, customer, ErasureMode::Preview).await?;
    if preview.is_err_and(|obstacles| obstacles.only_held_credits()) {
        cancel_exports(operators, customer).await?;
    }
    let report = attempt(operators, who, customer, ErasureMode::Commit).await??;
    if let Some(report) = &report {
        follow_up(operators, customer, report);
    }
    Ok(OperatorOutcome::CustomerErased(described(customer, report, false)))
}

/// What must end before the customer can be erased.
struct OpenErasure(Vec<ErasureObstacle>);

impl OpenErasure {
    fn only_held_credits(&self) -> bool {
        self.0.iter().all(|obstacle| *obstacle == ErasureObstacle::HeldCredits)
    }
}

impl From<OpenErasure> for Failure {
    fn from(OpenErasure(obstacles): OpenErasure) -> Self {
        OperatorProblem::NotErasable(obstacles.into_iter().map(what_to_do).collect()).into()
    }
}

/// Erases, or computes what an erasure would do. None if the customer was erased before.
async fn attempt(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    customer: CustomerId,
    mode: ErasureMode,
) -> Result<Result<Option<ErasureReport>, OpenErasure>, Failure> {
    let entry = operators.entry(who, customer, audit::CUSTOMER_ERASED, json!({}));
    let follow = |payers: &[String]| {
        payers.iter().map(|payer| delete_payer::job(&operators.billing, payer)).collect()
    };
    match erasure::erase(&operators.store, &entry, mode, &follow).await? {
        ErasureOutcome::Erased(report) => Ok(Ok(Some(report))),
        ErasureOutcome::Repeated => Ok(Ok(None)),
        ErasureOutcome::Refused(obstacles) => Ok(Err(OpenErasure(obstacles))),
        ErasureOutcome::NoCustomer => Err(unknown("customer", customer)),
    }
}

/// Drops what this node has cached, and wakes the jobs.
fn follow_up(operators: &OperatorsState, customer: CustomerId, report: &ErasureReport) {
    operators.billing.cached.forget_keys_of(customer);
    for creator in &report.accounts {
        operators.billing.cached.forget_account(customer, creator);
    }
    operators.billing.jobs.wake();
    tracing::info!(customer.id = %customer, "a customer was erased");
}

fn described(
    customer_id: CustomerId,
    report: Option<ErasureReport>,
    dry_run: bool,
) -> CustomerErasure {
    let applied = report.is_some();
    let (tables, processor_customers) =
        report.map_or_else(Default::default, |report| (report.tables, report.payers));
    let tables = tables.into_iter().filter(|erased| erased.rows > 0);
    CustomerErasure {
        customer_id,
        applied,
        tables: tables
            .map(|erased| ErasedTable { table: erased.table.to_owned(), rows: erased.rows })
            .collect(),
        processor_customers,
        dry_run,
    }
}

async fn cancel_exports(operators: &OperatorsState, customer: CustomerId) -> Result<(), Failure> {
    for state in [ExportState::Pending, ExportState::Running] {
        let wanted = ExportList {
            customer,
            account: None,
            allowed_accounts: Vec::new(),
            platform: None,
            dataset: None,
            state: Some(state),
            before: None,
            limit: EXPORTS_MAX,
        };
        for export in store::exports::list(&operators.store, &wanted).await? {
            let now = operators.clock.now();
            store::exports::cancel(&operators.store, customer, export.id, now).await?;
        }
    }
    Ok(())
}

/// What the operator must do first.
const fn what_to_do(obstacle: ErasureObstacle) -> &'static str {
    match obstacle {
        ErasureObstacle::LiveSubscription => {
            "its subscription is live: end it with `customers suspend --cancel-subscription`, or at the payment processor"
        }
        ErasureObstacle::OpenInvoices => {
            "invoices of its ended subscription are still being closed: try again in some minutes"
        }
        ErasureObstacle::OpenOrder => {
            "an order is still open: wait until it is paid or expires, a day at most, or end its page at the payment processor"
        }
        ErasureObstacle::OpenTopUp => {
            "an automatic charge has not ended: wait until it has, or cancel its payment at the payment processor"
        }
        ErasureObstacle::OpenChange => {
            "a change of its subscription is being carried out: try again in some minutes"
        }
        ErasureObstacle::OpenOffer => {
            "a page for a subscription is still open: wait until it expires, a day at most, or end it at the payment processor"
        }
        ErasureObstacle::HeldCredits => {
            "calls or exports are running: exports are cancelled when nothing else is in the way; try again in some minutes"
        }
    }
}
