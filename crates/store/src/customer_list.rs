//! Customers as the operator lists them.

use domain::credits::Credits;
use domain::customer::CustomerState;
use domain::id::CustomerId;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;

use crate::sql::SqlRow;
use crate::suspensions::STATE;
use crate::{Store, StoreError};

/// Which customers to list. A filter that is not set is none.
#[derive(Debug, Clone, Default)]
pub struct CustomerQuery<'a> {
    /// Only customers in this state.
    pub state: Option<CustomerState>,
    /// Only customers with this plan; `none` for those without a plan.
    pub plan: Option<&'a str>,
    /// Only customers that owe credits.
    pub in_debt: bool,
    /// Only customers whose address contains this, in lower case.
    pub text: Option<&'a str>,
    /// Only customers that registered before this one.
    pub before: Option<CustomerId>,
    /// The page size.
    pub limit: i64,
}

/// A customer in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedCustomer {
    /// Its id.
    pub id: CustomerId,
    /// Its address.
    pub email: String,
    /// Its name.
    pub name: String,
    /// What it can do.
    pub state: CustomerState,
    /// When it registered.
    pub created_at: Timestamp,
    /// Its plan.
    pub plan: Option<String>,
    /// The status of its subscription.
    pub subscription: SubscriptionStatus,
    /// What it can spend.
    pub balance: Credits,
    /// What it owes.
    pub debt: Credits,
}

/// The customers that match, the newest first.
pub async fn list(
    store: &Store,
    query: &CustomerQuery<'_>,
) -> Result<Vec<ListedCustomer>, StoreError> {
    let sql = format!(
        "select id, email, name, state, created_at, plan_id, status, available, debt from (
            select c.id, c.email, c.name, {STATE} as state, c.created_at,
                   case when s.status in ('trialing', 'active', 'past_due') then (
                       select min(i.plan_id) from subscription_items i
                       where i.customer_id = c.id and i.kind = 'plan') end as plan_id,
                   coalesce(s.status, 'none') as status, b.available, b.debt
            from customers c
            join customer_credits b on b.customer_id = c.id
            left join subscriptions s on s.customer_id = c.id
            where cast($1 as text) is null or c.id < $1
        ) as found
        where (cast($2 as text) is null or state = $2)
          and (cast($3 as text) is null or coalesce(plan_id, 'none') = $3)
          and ($4 = 0 or debt > 0)
          and (cast($5 as text) is null or replace(email, $5, '') <> email)
        order by id desc limit $6"
    );
    let before = query.before.map(|id| id.to_string());
    let values = [
        before.as_deref().into(),
        query.state.map(CustomerState::as_str).into(),
        query.plan.into(),
        i64::from(query.in_debt).into(),
        query.text.into(),
        query.limit.into(),
    ];
    let rows = store.inspect().await?.rows(sqlx::AssertSqlSafe(sql), &values).await?;
    rows.iter().map(listed).collect()
}

fn listed(row: &SqlRow) -> Result<ListedCustomer, StoreError> {
    Ok(ListedCustomer {
        id: row.parse("id", "customers")?,
        email: row.text("email")?,
        name: row.text("name")?,
        state: row.parse("state", "customers")?,
        created_at: row.time("created_at")?,
        plan: row.optional_text("plan_id")?,
        subscription: row.parse("status", "subscriptions")?,
        balance: row.credits("available")?,
        debt: row.credits("debt")?,
    })
}
