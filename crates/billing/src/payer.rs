//! A customer's id at the processor: created before the first purchase, and stored before it is
//! used.
//!
//! The processor's customer names ours in its metadata. One whose id is not stored here, because
//! the response was lost more than a day ago or the database was restored from an older copy, is
//! found by that before another one is created.

use std::cmp::Reverse;

use domain::customer::Email;
use domain::id::CustomerId;
use failures::Failure;
use processor_client::objects::ProcessorCustomer;
use processor_client::{NewCustomer, ProcessorError};
use store::processor_customers;

use crate::BillingState;
use crate::jobs::update_email;
use crate::listing::{all, listing};

/// The customer's id at the processor, created if there is none. Two concurrent calls create one,
/// because both send the same request.
pub async fn ensure(billing: &BillingState, customer: CustomerId) -> Result<String, Failure> {
    if let Some(known) = processor_customers::find(&billing.store, customer).await? {
        return Ok(known);
    }
    let found = store::customers::find_by_id(&billing.store, customer).await?;
    let email = found.ok_or(Failure::InvalidKey)?.email;
    let payer = match find_made(billing, customer).await? {
        Some(made) => made,
        None => create(billing, customer, &email).await?,
    };
    link(billing, customer, &payer).await
}

/// The customer's id at the processor, if there is one there or here.
pub(super) async fn find(
    billing: &BillingState,
    customer: CustomerId,
) -> Result<Option<String>, Failure> {
    if let Some(known) = processor_customers::find(&billing.store, customer).await? {
        return Ok(Some(known));
    }
    match find_made(billing, customer).await? {
        Some(made) => link(billing, customer, &made).await.map(Some),
        None => Ok(None),
    }
}

/// Links customers that were created at the processor since `from` (seconds since 1970), and whose
/// ids are not stored here, with the customers of ours that they name.
pub(super) async fn link_made_since(billing: &BillingState, from: i64) -> Result<(), Failure> {
    for made in made_since(billing, from).await? {
        let Some(customer) = names_ours(billing, &made).await? else { continue };
        let store = &billing.store;
        if processor_customers::find(store, customer).await?.is_none()
            && processor_customers::owner(store, &made.id).await?.is_none()
        {
            link(billing, customer, &made).await?;
            tracing::info!(customer.id = %customer, "a customer was found again at the payment processor");
        }
    }
    Ok(())
}

/// The processor's customers created since `from` (seconds since 1970), oldest first.
pub(super) async fn made_since(
    billing: &BillingState,
    from: i64,
) -> Result<Vec<ProcessorCustomer>, Failure> {
    let processor = billing.processor()?;
    let made = all(move |after| {
        let processor = processor.clone();
        async move { processor.list_customers(&listing(from, after.as_deref())).await }
    });
    Ok(made.await?)
}

/// The existing customer of ours that a customer at the processor was created for.
pub(super) async fn names_ours(
    billing: &BillingState,
    made: &ProcessorCustomer,
) -> Result<Option<CustomerId>, Failure> {
    let Some(named) = made.made_for().and_then(|named| named.parse().ok()) else {
        return Ok(None);
    };
    let found = store::customers::find_by_id(&billing.store, named).await?;
    Ok(found.map(|found| found.id))
}

/// The customer that the processor has for this one of ours; of several, the oldest.
async fn find_made(
    billing: &BillingState,
    customer: CustomerId,
) -> Result<Option<ProcessorCustomer>, Failure> {
    let named = customer.to_string();
    let mut made = match billing.processor()?.search_customers(&named).await {
        // Some accounts of the processor may not search. The key still protects for a day.
        Err(ProcessorError::Refused(refusal)) => {
            tracing::warn!(%refusal, "the payment processor's customers cannot be searched");
            return Ok(None);
        }
        found => found?.data,
    };
    // Newest first: those of one second stay in the order of the search.
    made.sort_by_key(|made| Reverse(made.created));
    while let Some(oldest) = made.pop() {
        let is_named = oldest.made_for() == Some(&named);
        let owner = processor_customers::owner(&billing.store, &oldest.id).await?;
        if is_named && !oldest.deleted && owner.is_none() {
            return Ok(Some(oldest));
        }
    }
    Ok(None)
}

async fn create(
    billing: &BillingState,
    customer: CustomerId,
    email: &Email,
) -> Result<ProcessorCustomer, Failure> {
    let customer_id = customer.to_string();
    let new = NewCustomer { email: email.as_str(), customer_id: &customer_id };
    // If the processor's customer was deleted, another one is created with a new key.
    let key = match processor_customers::count(&billing.store, customer).await? {
        0 => super::key("cus", customer)?,
        earlier => super::key("cus", format!("{customer}:{earlier}"))?,
    };
    Ok(billing.processor()?.create_customer(&new, &key).await?)
}

/// Stores the id, and returns the current one, which may be one that was stored first. The
/// processor gets the customer's address if it has another one.
async fn link(
    billing: &BillingState,
    customer: CustomerId,
    made: &ProcessorCustomer,
) -> Result<String, Failure> {
    let now = billing.clock.now();
    let linked = processor_customers::link(&billing.store, customer, &made.id, now).await?;
    let current = store::customers::find_by_id(&billing.store, customer).await?;
    if current.is_some_and(|current| made.email.as_deref() != Some(current.email.as_str())) {
        store::jobs::enqueue(&billing.store, &update_email::job(billing, customer)).await?;
        billing.jobs.wake();
    }
    Ok(linked)
}
