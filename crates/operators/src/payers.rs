//! Who is behind an object of the payment processor that is not stored here: the processor is asked
//! whose it is.

use failures::Failure;
use processor_client::objects::{
    ExpandableObject, PaymentDispute, PaymentIntent, PaymentRefund, ProcessorCustomer,
};
use processor_client::{ProcessorClient, ProcessorError};
use store::customer_search::FoundCustomer;

use crate::OperatorsState;

/// The customer whose object of the processor has this id, by the processor's word; `None` if the
/// text is no such id, or the processor does not know it, or not one of our customers.
pub(crate) async fn find(
    operators: &OperatorsState,
    text: &str,
) -> Result<Option<FoundCustomer>, Failure> {
    let Some(kind) = ObjectKind::of(text) else { return Ok(None) };
    let Ok(processor) = operators.billing.processor() else { return Ok(None) };
    let payer = match kind.payer(processor, text).await {
        Ok(Some(payer)) => payer,
        Ok(None) | Err(ProcessorError::Missing) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let owner = store::processor_customers::owner(&operators.store, &payer).await?;
    let Some(id) = owner else { return Ok(None) };
    Ok(store::customer_search::describe(&operators.store, id, kind.word(), text).await?)
}

/// What the beginning of an id says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ObjectKind {
    Charge,
    Dispute,
    Warning,
    Payment,
    Refund,
    Invoice,
    Checkout,
    Subscription,
}

impl ObjectKind {
    fn of(id: &str) -> Option<Self> {
        let (prefix, _) = id.split_once('_')?;
        match prefix {
            "ch" | "py" => Some(Self::Charge),
            "dp" | "du" | "pdp" => Some(Self::Dispute),
            "issfr" => Some(Self::Warning),
            "pi" => Some(Self::Payment),
            "re" | "pyr" => Some(Self::Refund),
            "in" => Some(Self::Invoice),
            "cs" => Some(Self::Checkout),
            "sub" => Some(Self::Subscription),
            _ => None,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Dispute => "dispute",
            Self::Warning => "warning",
            Self::Payment => "payment",
            Self::Refund => "refund",
            Self::Invoice => "invoice",
            Self::Checkout => "checkout",
            Self::Subscription => "subscription",
        }
    }

    /// The processor's id of the customer.
    async fn payer(
        self,
        processor: &ProcessorClient,
        id: &str,
    ) -> Result<Option<String>, ProcessorError> {
        match self {
            Self::Charge => of_charge(processor, id).await,
            Self::Dispute => {
                let PaymentDispute { payment_intent, charge, .. } =
                    processor.retrieve_dispute(id).await?;
                of_money(processor, payment_intent, charge.map(|charge| charge.id().to_owned()))
                    .await
            }
            Self::Warning => {
                let warning = processor.retrieve_fraud_warning(id).await?;
                let charge = warning.charge.map(|charge| charge.id().to_owned());
                of_money(processor, warning.payment_intent, charge).await
            }
            Self::Refund => {
                let PaymentRefund { payment_intent, charge, .. } =
                    processor.retrieve_refund(id).await?;
                of_money(processor, payment_intent, charge.map(|charge| charge.id().to_owned()))
                    .await
            }
            Self::Payment => of_intent(processor, id).await,
            Self::Invoice => {
                Ok(processor.retrieve_invoice(id).await?.customer_id().map(str::to_owned))
            }
            Self::Checkout => {
                Ok(processor.retrieve_checkout(id).await?.customer_id().map(str::to_owned))
            }
            Self::Subscription => {
                Ok(processor.retrieve_subscription(id).await?.customer_id().map(str::to_owned))
            }
        }
    }
}

async fn of_charge(
    processor: &ProcessorClient,
    id: &str,
) -> Result<Option<String>, ProcessorError> {
    let payer: Option<ExpandableObject<ProcessorCustomer>> =
        processor.retrieve_charge(id).await?.customer;
    Ok(payer.map(|payer| payer.id().to_owned()))
}

async fn of_intent(
    processor: &ProcessorClient,
    id: &str,
) -> Result<Option<String>, ProcessorError> {
    Ok(processor.retrieve_intent(id).await?.customer_id().map(str::to_owned))
}

async fn of_money(
    processor: &ProcessorClient,
    intent: Option<ExpandableObject<PaymentIntent>>,
    charge: Option<String>,
) -> Result<Option<String>, ProcessorError> {
    match (intent, charge) {
        (Some(intent), _) => of_intent(processor, intent.id()).await,
        (None, Some(charge)) => of_charge(processor, &charge).await,
        (None, None) => Ok(None),
    }
}
