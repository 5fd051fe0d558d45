//! Who a customer is at the processor: made before the first purchase, and remembered before it is used.

use clients::processor::NewCustomer;
use domain::id::CustomerId;
use failures::Failure;

use crate::BillingState;
use crate::jobs::update_email;

/// The processor's customer; made when there is none. Two at once make one: both send the same request.
pub async fn ensure(billing: &BillingState, customer: CustomerId) -> Result<String, Failure> {
    if let Some(known) = store::processor_customers::find(&billing.store, customer).await? {
        return Ok(known);
    }
    let processor = billing.processor()?;
    let found = store::customers::find_by_id(&billing.store, customer).await?;
    let email = found.ok_or(Failure::InvalidKey)?.email;
    let customer_id = customer.to_string();
    let new = NewCustomer { email: email.as_str(), customer_id: &customer_id };
    // One that the processor deleted is followed by another.
    let key = match store::processor_customers::count(&billing.store, customer).await? {
        0 => super::key("cus", customer)?,
        earlier => super::key("cus", format!("{customer}:{earlier}"))?,
    };
    let made = processor.create_customer(&new, &key).await?;
    let now = billing.clock.now();
    let linked = store::processor_customers::link(&billing.store, customer, &made.id, now).await?;
    // A change of the address before the link found nobody to be told of it.
    let current = store::customers::find_by_id(&billing.store, customer).await?;
    if current.is_some_and(|current| current.email != email) {
        store::jobs::enqueue(&billing.store, &update_email::job(billing, customer)).await?;
        billing.jobs.wake();
    }
    Ok(linked)
}
