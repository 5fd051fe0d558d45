//! One click: the saved card is charged while the customer is present and can authenticate.
//!
//! The order is committed before the request is sent. If the outcome of the request is unknown, the
//! order stays pending, and the next charge of the same pack continues that order with the same
//! request, so that nothing is paid twice.

use domain::id::{CustomerId, OrderId};
use domain::payment::{OrderChannel, OrderState};
use domain::request_key::RequestKey;
use domain::time::Timestamp;
use domain::top_up::WAIT_S;
use failures::Failure;
use failures::{ChargePhase, ChargeUnderWay, PaymentProblem};
use processor_client::objects::{ClientSecret, IntentStatus, PaymentIntent};
use processor_client::{CustomerPresence, NewIntent, PaymentDecline, ProcessorError};
use store::orders::{self, Order};
use store::payments::{self, PaymentReceipt};

use super::earlier_requests;
use super::fulfil::{self, FulfilmentOutcome};
use super::lost::{self, FoundPayment};
use super::marks::{self, OrderMark, OrderMetadata};
use super::opening::{self, PackPurchase};
use crate::BillingState;

/// The time in which the processor answers a charge. One that is still open then waits for its
/// customer or bank.
const ANSWER_WITHIN_S: i64 = 10;
const NO_PAYMENT: Failure =
    Failure::NotFound("there is no payment with that id; `POST /v1/billing/charge` creates one");

/// A charge: its order and its state.
pub struct PackCharge {
    /// The order.
    pub order: OrderId,
    /// The state of the charge.
    pub state: ChargeState,
}

/// The state of a charge.
pub enum ChargeState {
    /// Paid, and its credits are granted.
    Paid(PaymentReceipt),
    /// The bank requires the customer to authenticate.
    ActionRequired(RequiredAction),
    /// The bank is still processing it; an event will report the result.
    Processing {
        /// The payment intent.
        intent: String,
    },
}

/// What a browser needs so that the customer can authenticate a payment.
pub struct RequiredAction {
    /// The payment intent, to be confirmed afterwards.
    pub intent: String,
    /// Only for the customer's browser.
    pub client_secret: ClientSecret,
    /// The card that pays.
    pub payment_method: Option<String>,
    /// When the payment is cancelled.
    pub until: Timestamp,
}

/// The state of an order's payment, read without changing anything.
pub enum PaymentStanding {
    /// The bank requires the customer to authenticate.
    Waiting(RequiredAction),
    /// It is being processed, or was paid a moment ago.
    Processing,
    /// Paid, and its credits are granted.
    Paid,
    /// Declined or cancelled.
    Over,
}

/// Charges the saved card for a pack, or continues the charge of that pack that is in progress.
pub async fn charge(
    billing: &BillingState,
    customer: CustomerId,
    pack_id: &str,
    idempotency: Option<RequestKey>,
) -> Result<PackCharge, Failure> {
    let pack = super::pack(billing, pack_id)?;
    billing.processor()?;
    if let Some(earlier) = earlier_requests::charge(billing, customer, idempotency).await? {
        return continued(billing, &earlier, pack_id).await;
    }
    let super::cards::ChargeableCard { card, payer } =
        super::cards::to_charge(billing, customer).await?;
    let purchase = PackPurchase {
        customer,
        pack,
        channel: OrderChannel::Charge,
        payer: &payer,
        card: Some(&card.payment_method),
        idempotency,
    };
    let order = opening::open(billing, &purchase).await?;
    if let Some(state) = carry_on(billing, &order).await? {
        return Ok(PackCharge { order: order.id, state });
    }
    // If it was an old order whose request never arrived, it is closed now, and this opens the next
    // one.
    let next = opening::open(billing, &purchase).await?;
    let state = carry_on(billing, &next).await?.ok_or(PaymentProblem::ChangeInProgress)?;
    Ok(PackCharge { order: next.id, state })
}

/// The charge that the same `Idempotency-Key` made before the database was restored.
async fn continued(
    billing: &BillingState,
    earlier: &Order,
    pack_id: &str,
) -> Result<PackCharge, Failure> {
    if earlier.pack_id != pack_id || earlier.channel != OrderChannel::Charge {
        return Err(Failure::IdempotencyMismatch);
    }
    let state = carry_on(billing, earlier).await?.ok_or(PaymentProblem::ChangeInProgress)?;
    Ok(PackCharge { order: earlier.id, state })
}

/// Grants a payment that the customer has authenticated, if it is paid. Another customer's payment
/// is reported as missing.
pub async fn confirm(
    billing: &BillingState,
    customer: CustomerId,
    intent: &str,
) -> Result<PackCharge, Failure> {
    let intent = match billing.processor()?.retrieve_intent(intent).await {
        Ok(intent) => intent,
        Err(ProcessorError::Missing) => return Err(NO_PAYMENT),
        Err(error) => return Err(error.into()),
    };
    let order = match marks::order_in(billing, &intent.metadata).await? {
        OrderMark::Order(id) => orders::find(&billing.store, customer, id).await?,
        OrderMark::None | OrderMark::Malformed => None,
    };
    let order = order.ok_or(NO_PAYMENT)?;
    if intent.customer_id() != Some(order.processor_customer.as_str()) {
        return Err(NO_PAYMENT);
    }
    let state = answer(billing, &order, intent).await?;
    Ok(PackCharge { order: order.id, state })
}

/// Confirms the payment of this order.
pub async fn confirm_order(billing: &BillingState, order: &Order) -> Result<ChargeState, Failure> {
    if order.state == OrderState::Pending && order.payment.is_none() {
        return Err(NO_PAYMENT);
    }
    carry_on(billing, order).await?.ok_or(NO_PAYMENT)
}

/// The state of an order's payment.
pub async fn look(billing: &BillingState, order: &Order) -> Result<PaymentStanding, Failure> {
    let intent = match (order.state, &order.payment) {
        (OrderState::Pending, Some(intent)) => billing.processor()?.retrieve_intent(intent).await?,
        (OrderState::Pending, None) => return Ok(PaymentStanding::Processing),
        (OrderState::Paid | OrderState::Refunded, _) => return Ok(PaymentStanding::Paid),
        (OrderState::Failed | OrderState::Expired, _) => return Ok(PaymentStanding::Over),
    };
    Ok(match intent.status {
        IntentStatus::Canceled => PaymentStanding::Over,
        IntentStatus::Processing | IntentStatus::Succeeded | IntentStatus::RequiresCapture => {
            PaymentStanding::Processing
        }
        IntentStatus::RequiresAction
        | IntentStatus::RequiresPaymentMethod
        | IntentStatus::RequiresConfirmation
        | IntentStatus::Other => {
            action(order, intent).map_or(PaymentStanding::Over, PaymentStanding::Waiting)
        }
    })
}

/// The problem reported for a charge in progress, which prevents another charge of the same pack.
/// It uses only what is stored here.
pub(super) fn under_way(billing: &BillingState, order: Order) -> PaymentProblem {
    let is_young = billing.clock.now() < order.created_at.plus_seconds(ANSWER_WITHIN_S);
    let phase = match order.payment {
        _ if is_young => ChargePhase::Running,
        Some(_) => ChargePhase::Waiting,
        None => ChargePhase::Unknown,
    };
    let expires_at = waits_until(&order);
    PaymentProblem::ChargeUnderWay(ChargeUnderWay {
        order: order.id,
        intent: order.payment,
        expires_at,
        phase,
    })
}

/// When a payment that waits for its customer is cancelled.
pub fn waits_until(order: &Order) -> Timestamp {
    let seconds = match order.channel {
        OrderChannel::TopUp => WAIT_S,
        OrderChannel::Charge | OrderChannel::Checkout => lost::PAGE_OPEN_FOR_S,
    };
    order.created_at.plus_seconds(seconds)
}

fn action(order: &Order, intent: PaymentIntent) -> Option<RequiredAction> {
    let of_intent = intent.payment_method_id().map(str::to_owned);
    let payment_method = of_intent.or_else(|| order.payment_method.clone());
    let (client_secret, until) = (intent.client_secret?, waits_until(order));
    Some(RequiredAction { intent: intent.id, client_secret, payment_method, until })
}

/// Brings an order to its end, or as far as possible now. Returns `None` if the processor never
/// received its request; the order is closed then.
async fn carry_on(billing: &BillingState, order: &Order) -> Result<Option<ChargeState>, Failure> {
    match order.state {
        OrderState::Paid | OrderState::Refunded => {
            let receipt = payments::receipt(&billing.store, order.id).await?;
            let lost =
                || Failure::Internal(format!("the payment of order {} is missing", order.id));
            return receipt.map(ChargeState::Paid).map(Some).ok_or_else(lost);
        }
        OrderState::Failed | OrderState::Expired => {
            let reason = order.failure.clone().unwrap_or_else(|| "payment_failed".to_owned());
            return Err(PaymentProblem::Failed { decline_code: reason }.into());
        }
        OrderState::Pending => {}
    }
    if let Some(intent) = &order.payment {
        let intent = billing.processor()?.retrieve_intent(intent).await?;
        return answer(billing, order, intent).await.map(Some);
    }
    if !lost::is_old(billing, order) {
        return attempt(billing, order).await.map(Some);
    }
    match lost::find_intent(billing, order).await? {
        FoundPayment::Intent(intent) => answer(billing, order, *intent).await.map(Some),
        FoundPayment::Nothing => Ok(None),
    }
}

/// Sends the charge. The processor returns the same response when the same order is sent again.
async fn attempt(billing: &BillingState, order: &Order) -> Result<ChargeState, Failure> {
    let card = order.payment_method.as_deref().ok_or(PaymentProblem::NoSavedCard)?;
    let metadata = OrderMetadata::of(order);
    let new = NewIntent {
        amount_cents: order.amount_cents,
        currency: &order.currency,
        customer: &order.processor_customer,
        payment_method: card,
        presence: CustomerPresence::OnSession { return_url: None },
        description: None,
        metadata: &metadata.pairs(),
    };
    match billing.processor()?.create_intent(&new, &super::key("pi", order.id)?).await {
        Ok(intent) => {
            orders::set_payment(&billing.store, order.id, &intent.id).await?;
            answer(billing, order, intent).await
        }
        Err(ProcessorError::Declined(decline)) => declined(billing, order, &decline).await,
        Err(ProcessorError::Refused(refusal))
            if refusal.param.as_deref() == Some("payment_method") =>
        {
            close(billing, order, "card_gone").await?;
            store::cards::remove_detached(&billing.store, card, billing.clock.now()).await?;
            Err(PaymentProblem::NoSavedCard.into())
        }
        // The outcome is unknown, or a retry may succeed: the order stays open.
        Err(error) => Err(error.into()),
    }
}

async fn declined(
    billing: &BillingState,
    order: &Order,
    decline: &PaymentDecline,
) -> Result<ChargeState, Failure> {
    if let Some(intent) = &decline.payment_intent {
        orders::set_payment(&billing.store, order.id, &intent.id).await?;
    }
    let reason = decline.reason().to_owned();
    close(billing, order, &reason).await?;
    Err(PaymentProblem::Failed { decline_code: reason }.into())
}

async fn close(billing: &BillingState, order: &Order, reason: &str) -> Result<(), Failure> {
    orders::close(&billing.store, order.id, OrderState::Failed, Some(reason), billing.clock.now())
        .await?;
    Ok(())
}

/// What an intent, as read from the processor, means for the customer.
async fn answer(
    billing: &BillingState,
    order: &Order,
    intent: PaymentIntent,
) -> Result<ChargeState, Failure> {
    match fulfil::take_intent(billing, &intent).await? {
        FulfilmentOutcome::Granted(receipt) => Ok(ChargeState::Paid(receipt)),
        FulfilmentOutcome::Ended { reason } => {
            Err(PaymentProblem::Failed { decline_code: reason }.into())
        }
        FulfilmentOutcome::Open => {
            let id = intent.id.clone();
            // The bank refused an automatic charge because the customer was absent: it can still be
            // confirmed.
            let is_refused = intent.status == IntentStatus::RequiresPaymentMethod;
            let waits = intent.status == IntentStatus::RequiresAction
                || is_refused && order.channel == OrderChannel::TopUp;
            let action = if waits { action(order, intent) } else { None };
            Ok(action.map_or(ChargeState::Processing { intent: id }, ChargeState::ActionRequired))
        }
        FulfilmentOutcome::NotOurs | FulfilmentOutcome::Unmatched => {
            Err(Failure::Internal(format!("the payment {} does not match its order", intent.id)))
        }
    }
}
