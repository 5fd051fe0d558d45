//! The operator's commands, and what each needs.

use domain::customer::{CustomerRef, CustomerState};
use domain::field_error::FieldErrorKind;
use domain::id::{CustomerId, OrderId};
use domain::staff::Permission;
use failures::{Failure, FieldProblem};

use crate::unmatched::SettlementWish;
use crate::{
    OperatorIdentity, OperatorOutcome, OperatorsState, calls, customers, disputes, erase,
    liability, profile, refunds, suspend, unmatched,
};

/// What becomes of the credits of a refunded order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreditTreatment {
    /// They are taken back; those that were spent become debt.
    #[default]
    Take,
    /// The customer keeps them: the refund is marked, and takes nothing.
    Keep,
}

/// A command, as it is sent to a running server. With `dry_run` nothing changes.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum OperatorCommand {
    /// Lists customers, the newest first.
    ListCustomers {
        /// Only customers in this state.
        #[serde(default)]
        state: Option<CustomerState>,
        /// Only customers with this plan; `none` for those without one.
        #[serde(default)]
        plan: Option<String>,
        /// Only customers that owe credits.
        #[serde(default)]
        in_debt: bool,
        /// Only customers whose address contains this.
        #[serde(default)]
        text: Option<String>,
        /// The `next_cursor` of the page before.
        #[serde(default)]
        cursor: Option<CustomerId>,
        /// The page size, 1 to 500; 50 by default.
        #[serde(default)]
        limit: Option<i64>,
    },
    /// Shows one customer.
    ShowCustomer {
        /// The customer.
        customer: CustomerRef,
    },
    /// Finds customers by anything that names them or something of theirs.
    FindCustomers {
        /// An address or a part of one, an id, or the beginning of a key.
        text: String,
    },
    /// Suspends a customer.
    SuspendCustomer {
        /// The customer.
        customer: CustomerRef,
        /// Why, for the operator's own records.
        reason: String,
        /// Whether its subscription ends immediately.
        #[serde(default)]
        cancel_subscription: bool,
        /// Whether only to say what would happen.
        #[serde(default)]
        dry_run: bool,
    },
    /// Ends a suspension.
    ResumeCustomer {
        /// The customer.
        customer: CustomerRef,
    },
    /// Ends all sessions of a customer: every browser is signed out.
    EndSessions {
        /// The customer.
        customer: CustomerRef,
    },
    /// Removes everything that identifies a customer.
    EraseCustomer {
        /// The customer.
        customer: CustomerRef,
        /// Whether it may lose what it has paid for.
        #[serde(default)]
        forfeit: bool,
        /// Whether only to say what would happen.
        #[serde(default)]
        dry_run: bool,
    },
    /// Shows what happened to a call.
    ShowCall {
        /// The id of its request or of the call; none with an `Idempotency-Key`.
        #[serde(default)]
        request: Option<String>,
        /// The customer: required with an `Idempotency-Key` and for ids that a caller chose.
        #[serde(default)]
        customer: Option<CustomerRef>,
        /// The `Idempotency-Key` that the call was made with.
        #[serde(default)]
        idempotency_key: Option<String>,
    },
    /// Refunds all of an order that has not been refunded.
    RefundOrder {
        /// The order.
        order: OrderId,
        /// What becomes of its credits.
        #[serde(default)]
        credits: CreditTreatment,
        /// Whether only to say what would happen.
        #[serde(default)]
        dry_run: bool,
    },
    /// Sums up the credits that customers can still spend.
    Liability {},
    /// Lists disputes and warnings of fraud.
    ListDisputes {
        /// Whether to list those that are over, too.
        #[serde(default)]
        with_ended: bool,
        /// How many, 1 to 500; 50 by default.
        #[serde(default)]
        limit: Option<i64>,
    },
    /// Lists payments that matched no order.
    ListUnmatched {
        /// Whether to list settled ones, too.
        #[serde(default)]
        with_settled: bool,
        /// How many, 1 to 500; 50 by default.
        #[serde(default)]
        limit: Option<i64>,
    },
    /// Settles a payment that matched no order.
    SettleUnmatched {
        /// The processor's object.
        object: String,
        /// What was decided.
        note: String,
        /// Grants credits to this customer for it.
        #[serde(default)]
        customer: Option<CustomerRef>,
        /// How many; with a customer.
        #[serde(default)]
        credits: Option<i64>,
        /// Whether the money goes back.
        #[serde(default)]
        refund: bool,
        /// Whether only to say what would happen.
        #[serde(default)]
        dry_run: bool,
    },
}

impl OperatorCommand {
    /// The permissions that a member of the staff needs for it; all of them.
    pub const fn needs(&self) -> &'static [Permission] {
        match self {
            Self::ListCustomers { .. }
            | Self::ShowCustomer { .. }
            | Self::FindCustomers { .. }
            | Self::ShowCall { .. }
            | Self::Liability {}
            | Self::ListDisputes { .. }
            | Self::ListUnmatched { .. } => Permission::TO_VIEW_CUSTOMERS,
            Self::SuspendCustomer { cancel_subscription: true, .. } => {
                Permission::TO_CHANGE_AND_MOVE_MONEY
            }
            Self::SuspendCustomer { .. }
            | Self::ResumeCustomer { .. }
            | Self::EndSessions { .. }
            | Self::EraseCustomer { .. } => Permission::TO_CHANGE_CUSTOMERS,
            Self::RefundOrder { .. } | Self::SettleUnmatched { .. } => Permission::TO_MOVE_MONEY,
        }
    }
}

/// Runs a command.
pub async fn run(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    command: OperatorCommand,
) -> Result<OperatorOutcome, Failure> {
    match command {
        OperatorCommand::ListCustomers { state, plan, in_debt, text, cursor, limit } => {
            let filter = customers::CustomerFilter { state, plan, in_debt, text };
            customers::list(operators, &filter, cursor, limit).await
        }
        OperatorCommand::ShowCustomer { customer } => {
            Box::pin(profile::show(operators, who, &customer)).await
        }
        OperatorCommand::FindCustomers { text } => customers::find(operators, who, &text).await,
        OperatorCommand::SuspendCustomer { customer, reason, cancel_subscription, dry_run } => {
            let wish = suspend::SuspensionWish { reason: &reason, cancel_subscription, dry_run };
            Box::pin(suspend::suspend(operators, who, &customer, &wish)).await
        }
        OperatorCommand::ResumeCustomer { customer } => {
            suspend::resume(operators, who, &customer).await
        }
        OperatorCommand::EndSessions { customer } => {
            suspend::end_sessions(operators, who, &customer).await
        }
        OperatorCommand::EraseCustomer { customer, forfeit, dry_run } => {
            let wish = erase::ErasureRequest { customer: &customer, forfeit, dry_run };
            erase::erase(operators, who, wish).await
        }
        OperatorCommand::ShowCall { request, customer, idempotency_key } => {
            let named = (request.as_deref(), idempotency_key.as_deref());
            calls::show(operators, who, named, customer.as_ref()).await
        }
        OperatorCommand::RefundOrder { order, credits, dry_run } => {
            Box::pin(refunds::refund(operators, who, order, credits, dry_run)).await
        }
        OperatorCommand::Liability {} => liability::read(operators).await,
        OperatorCommand::ListDisputes { with_ended, limit } => {
            disputes::list(operators, with_ended, limit).await
        }
        OperatorCommand::ListUnmatched { with_settled, limit } => {
            unmatched::list(operators, with_settled, limit).await
        }
        OperatorCommand::SettleUnmatched { object, note, customer, credits, refund, dry_run } => {
            let grant = granted(customer, credits)?;
            let wish = SettlementWish { object, note, grant, refund, dry_run };
            Box::pin(unmatched::settle(operators, who, &wish)).await
        }
    }
}

/// Whom a settlement grants how many credits. Half of it is a mistake: without this the payment
/// would be settled for good and nobody would have the credits.
fn granted(
    customer: Option<CustomerRef>,
    credits: Option<i64>,
) -> Result<Option<(CustomerRef, i64)>, Failure> {
    let missing = |field, with: &str| {
        let message = format!("is required with `{with}`");
        Err(FieldProblem::new("body", field, FieldErrorKind::Missing, message).into())
    };
    match (customer, credits) {
        (Some(customer), Some(credits)) => Ok(Some((customer, credits))),
        (None, None) => Ok(None),
        (Some(_), None) => missing("credits", "customer"),
        (None, Some(_)) => missing("customer", "credits"),
    }
}
