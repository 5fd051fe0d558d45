//! Erasing customers: what identifies a person is removed, the ledger stays exact.

use billing::jobs::delete_payer;
use domain::customer::CustomerRef;
use domain::export::ExportState;
use domain::id::CustomerId;
use domain::lots::{Lot, LotSource};
use failures::{Failure, OperatorProblem};
use processor_client::ProcessorError;
use runtime::audit;
use serde_json::json;
use store::erasure::{self, ErasureMode, ErasureObstacle, ErasureOutcome, ErasureReport};
use store::exports::ExportList;

use crate::{
    CustomerErasure, ErasedTable, OperatorIdentity, OperatorOutcome, OperatorsState, unknown,
};

/// How many open exports one round cancels.
const EXPORTS_MAX: i64 = 500;

/// What an operator asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErasureRequest<'a> {
    pub(crate) customer: &'a CustomerRef,
    /// Whether the customer may lose what it has paid for.
    pub(crate) forfeit: bool,
    /// Whether only to say what would happen.
    pub(crate) dry_run: bool,
}

/// What a customer loses.
#[derive(Default)]
struct ForfeitedMoney {
    credits: i64,
    cents: i64,
}

/// Erases a customer. Its open exports are cancelled first if nothing else is in the way; of a
/// customer that cannot be erased, nothing changes.
pub(crate) async fn erase(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    wish: ErasureRequest<'_>,
) -> Result<OperatorOutcome, Failure> {
    let customer = operators.find(wish.customer).await?.id;
    let lost = forfeited(operators, customer).await?;
    if wish.dry_run {
        let details = json!({"command": "erase"});
        operators.record(who, customer, audit::OPERATOR_PREVIEWED, details).await?;
        let report = attempt(operators, who, customer, ErasureMode::Preview).await??;
        let would = CustomerErasure { dry_run: true, ..described(customer, report, &lost) };
        return Ok(OperatorOutcome::CustomerErased(would));
    }
    let preview = attempt(operators, who, customer, ErasureMode::Preview).await?;
    let ends_with_exports = preview.as_ref().is_err_and(OpenErasure::only_held_credits);
    if !wish.forfeit && (ends_with_exports || matches!(preview, Ok(Some(_)))) {
        lost.refuse()?;
    }
    if ends_with_exports {
        cancel_exports(operators, customer).await?;
    }
    let report = attempt(operators, who, customer, ErasureMode::Commit).await??;
    if let Some(report) = &report {
        follow_up(operators, customer, report);
    }
    Ok(OperatorOutcome::CustomerErased(described(customer, report, &lost)))
}

impl ForfeitedMoney {
    fn refuse(&self) -> Result<(), Failure> {
        let Self { credits, cents } = *self;
        if (credits, cents) == (0, 0) {
            return Ok(());
        }
        Err(OperatorProblem::WouldForfeit { credits, cents }.into())
    }
}

/// What the customer has paid for and not used.
async fn forfeited(
    operators: &OperatorsState,
    customer: CustomerId,
) -> Result<ForfeitedMoney, Failure> {
    let lots = store::lots::list(&operators.store, customer, operators.clock.now()).await?;
    let is_paid = |lot: &&Lot| !matches!(lot.source, LotSource::Trial | LotSource::Gift);
    let credits = lots.iter().filter(is_paid).map(|lot| lot.left).fold(0, i64::saturating_add);
    let payer = store::processor_customers::find(&operators.store, customer).await?;
    let (Some(payer), Ok(processor)) = (payer, operators.billing.processor()) else {
        return Ok(ForfeitedMoney { credits, cents: 0 });
    };
    let cents = match processor.retrieve_customer(&payer).await {
        Ok(read) if !read.deleted => read.balance.min(0).saturating_neg(),
        Ok(_) | Err(ProcessorError::Missing) => 0,
        Err(error) => return Err(error.into()),
    };
    Ok(ForfeitedMoney { credits, cents })
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
    lost: &ForfeitedMoney,
) -> CustomerErasure {
    let applied = report.is_some();
    let lost = if applied { (lost.credits, lost.cents) } else { (0, 0) };
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
        forfeited_credits: lost.0,
        forfeited_cents: lost.1,
        dry_run: false,
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
