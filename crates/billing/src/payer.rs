//! A customer's id at the processor: created before the first purchase, and stored before it is
//! used.

use domain::id::CustomerId;
use failures::Failure;
use processor_client::NewCustomer;

use crate::BillingState;
use crate::jobs::update_email;

/// The customer's id at the processor, created if there is none. Two concurrent calls create one,
/// because both send the same request.
pub async fn ensure(billing: &BillingState, customer: CustomerId) -> Result<String, Failure> {
    if let Some(known) = store::processor_customers::find(&billing.store, customer).await? {
        return Ok(known);
    }
    let processor = billing.processor()?;
    let found = store::customers::find_by_id(&billing.store, customer).await?;
    let email = found.ok_or(Failure::InvalidKey)?.email;
    let customer_id = customer.to_string();
    let new = NewCustomer { email: email.as_str(), customer_id: &customer_id };
    // If the processor's customer was deleted, another one is created with a new key.
    let key = match store::processor_customers::count(&billing.store, customer).await? {
        0 => super::key("cus", customer)?,
        earlier => super::key("cus", format!("{customer}:{earlier}"))?,
    };
    let made = processor.create_customer(&new, &key).await?;
    let now = billing.clock.now();
    let linked = store::processor_customers::link(&billing.store, customer, &made.id, now).await?;
    // If the address changed before the link was stored, the change could not be sent to the
    // processor.
    let current = store::customers::find_by_id(&billing.store, customer).await?;
    if current.is_some_and(|current| current.email != email) {
        store::jobs::enqueue(&billing.store, &update_email::job(billing, customer)).await?;
        billing.jobs.wake();
    }
    Ok(linked)
}
