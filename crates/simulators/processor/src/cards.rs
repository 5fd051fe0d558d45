//! The test cards: the behaviour of each number, and the payment methods created from them.

use serde_json::{Value, json};

use super::fields::{self, text};
use super::object_store::ObjectStore;
use super::problem::ApiError;

/// How a card behaves when it is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CardBehaviour {
    /// Every charge succeeds.
    Pays,
    /// Declined with this code, even when it is attached.
    Declines(&'static str),
    /// Can be attached; then every charge is declined.
    DeclinesLater,
    /// Requires authentication unless it was set up for off-session charges.
    AuthenticatesUntilSetUp,
    /// Needs authentication for every payment.
    AuthenticatesAlways,
    /// Already set up: requires authentication only on session.
    AuthenticatesOnSession,
    /// Requires authentication, and then has insufficient funds.
    AuthenticatesThenDeclines,
    /// Pays, and is disputed immediately.
    Disputes,
    /// Pays, and its bank inquires immediately.
    Inquires,
    /// Pays, and its bank warns of fraud immediately.
    Warns,
    /// Pays; its refunds are pending first.
    RefundsLater,
    /// Pays; its refunds succeed first, and fail later.
    RefundsFail,
    /// Pays, and the money is available immediately.
    PaysAvailable,
    /// A bank account: the payment succeeds or fails later.
    PaysLater,
    FailsLater,
}

/// A test card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestCard {
    pub(crate) number: &'static str,
    /// The names that the API accepts as a payment method.
    pub(crate) names: &'static [&'static str],
    pub(crate) brand: &'static str,
    pub(crate) behaviour: CardBehaviour,
    /// The label of its button on the pages.
    pub(crate) says: &'static str,
}

const fn card(
    number: &'static str,
    names: &'static [&'static str],
    behaviour: CardBehaviour,
    says: &'static str,
) -> TestCard {
    TestCard { number, names, brand: "visa", behaviour, says }
}

/// All test cards. Objects store the first names.
pub(crate) const CARDS: [TestCard; 25] = [
    card("4242424242424242", &["pm_card_visa", "pm_card_us"], CardBehaviour::Pays, "Pays"),
    TestCard {
        brand: "mastercard",
        ..card("5555555555554444", &["pm_card_mastercard"], CardBehaviour::Pays, "Pays")
    },
    TestCard {
        brand: "amex",
        ..card("378282246310005", &["pm_card_amex"], CardBehaviour::Pays, "Pays")
    },
    card(
        "4000000000000002",
        &["pm_card_visa_chargeDeclined", "pm_card_chargeDeclined"],
        CardBehaviour::Declines("generic_decline"),
        "Is declined",
    ),
    card(
        "4000000000009995",
        &[
            "pm_card_visa_chargeDeclinedInsufficientFunds",
            "pm_card_chargeDeclinedInsufficientFunds",
        ],
        CardBehaviour::Declines("insufficient_funds"),
        "Has too little money",
    ),
    card(
        "4000000000009987",
        &["pm_card_visa_chargeDeclinedLostCard", "pm_card_chargeDeclinedLostCard"],
        CardBehaviour::Declines("lost_card"),
        "Was lost",
    ),
    card(
        "4000000000009979",
        &["pm_card_visa_chargeDeclinedStolenCard", "pm_card_chargeDeclinedStolenCard"],
        CardBehaviour::Declines("stolen_card"),
        "Was stolen",
    ),
    card(
        "4000000000000069",
        &["pm_card_chargeDeclinedExpiredCard"],
        CardBehaviour::Declines("expired_card"),
        "Has expired",
    ),
    card(
        "4000000000000127",
        &["pm_card_chargeDeclinedIncorrectCvc"],
        CardBehaviour::Declines("incorrect_cvc"),
        "Has another code",
    ),
    card(
        "4000000000000119",
        &["pm_card_chargeDeclinedProcessingError"],
        CardBehaviour::Declines("processing_error"),
        "Meets an error",
    ),
    card(
        "4000000000000341",
        &["pm_card_chargeCustomerFail"],
        CardBehaviour::DeclinesLater,
        "Is saved, later declined",
    ),
    card(
        "4000002500003155",
        &["pm_card_authenticationRequiredOnSetup"],
        CardBehaviour::AuthenticatesUntilSetUp,
        "Wants authentication once",
    ),
    card(
        "4000002760003184",
        &["pm_card_authenticationRequired"],
        CardBehaviour::AuthenticatesAlways,
        "Always wants authentication",
    ),
    card(
        "4000003800000446",
        &["pm_card_authenticationRequiredSetupForOffSession"],
        CardBehaviour::AuthenticatesOnSession,
        "Is set up already",
    ),
    card(
        "4000008260003178",
        &["pm_card_authenticationRequiredChargeDeclinedInsufficientFunds"],
        CardBehaviour::AuthenticatesThenDeclines,
        "Authenticates, has no money",
    ),
    card(
        "4000000000003220",
        &["pm_card_threeDSecure2Required"],
        CardBehaviour::AuthenticatesAlways,
        "Wants 3-D Secure 2",
    ),
    card(
        "4000000000000259",
        &["pm_card_createDispute"],
        CardBehaviour::Disputes,
        "Pays, is disputed",
    ),
    card(
        "4000000000001976",
        &["pm_card_createDisputeInquiry"],
        CardBehaviour::Inquires,
        "Pays, its bank inquires",
    ),
    card(
        "4000000000005423",
        &["pm_card_createIssuerFraudRecord"],
        CardBehaviour::Warns,
        "Pays, its bank warns of fraud",
    ),
    card(
        "4000000000007726",
        &["pm_card_pendingRefund"],
        CardBehaviour::RefundsLater,
        "Pays, its refunds take time",
    ),
    card(
        "4000000000005126",
        &["pm_card_refundFail"],
        CardBehaviour::RefundsFail,
        "Pays, its refunds fail later",
    ),
    card("4000056655665556", &["pm_card_visa_debit"], CardBehaviour::Pays, "Pays"),
    card(
        "4000000000000077",
        &["pm_card_bypassPending"],
        CardBehaviour::PaysAvailable,
        "Pays, available immediately",
    ),
    TestCard {
        brand: "bank",
        ..card(
            "000123456789",
            &["pm_usBankAccount_success"],
            CardBehaviour::PaysLater,
            "Bank: pays later",
        )
    },
    TestCard {
        brand: "bank",
        ..card(
            "000111111116",
            &["pm_usBankAccount_accountClosed"],
            CardBehaviour::FailsLater,
            "Bank: fails later",
        )
    },
];

const fn debit(iban: &'static str, behaviour: CardBehaviour) -> TestCard {
    TestCard { brand: "sepa", ..card(iban, &[], behaviour, "") }
}

/// European bank accounts, by their IBAN.
const DEBITS: [TestCard; 4] = [
    debit("AT611904300234573201", CardBehaviour::PaysLater),
    debit("AT321904300235473204", CardBehaviour::PaysLater),
    debit("AT861904300235473202", CardBehaviour::FailsLater),
    debit("IT60X0542811101000000123456", CardBehaviour::FailsLater),
];

/// The European bank account with this IBAN.
pub(crate) fn find_debit(iban: &str) -> Option<TestCard> {
    DEBITS.into_iter().find(|debit| debit.number == iban.replace(' ', ""))
}

/// The card with this number or name.
pub(crate) fn find(given: &str) -> Option<TestCard> {
    let number: String = given.chars().filter(|letter| !matches!(letter, ' ' | '-')).collect();
    CARDS.into_iter().find(|card| card.number == number || card.names.contains(&given))
}

impl TestCard {
    /// Whether it is a card, not a bank account.
    pub(crate) fn is_card(&self) -> bool {
        !matches!(self.brand, "bank" | "sepa")
    }

    /// Creates a payment method of the card without a customer; returns its id.
    pub(crate) fn make(&self, store: &mut ObjectStore) -> String {
        let id = store.new_id("pm");
        let last4 = self.number.get(self.number.len().saturating_sub(4)..).unwrap_or_default();
        let name = self.names.first().copied().unwrap_or(self.number);
        let fingerprint = hex::encode(
            simulator_kit::seeded_random::mix(self.number.parse().unwrap_or(0)).to_be_bytes(),
        );
        let mut method = json!({
            "id": id, "object": "payment_method", "allow_redisplay": "unspecified",
            "billing_details": {
                "address": {"city": null, "country": null, "line1": null, "line2": null, "postal_code": null, "state": null},
                "email": null, "name": null, "phone": null, "tax_id": null,
            },
            "created": store.now, "customer": null, "livemode": false, "metadata": {},
            "_": {"card": name, "set_up": self.behaviour == CardBehaviour::AuthenticatesOnSession},
        });
        if self.brand == "bank" {
            fields::set(&mut method, "type", "us_bank_account");
            let account = json!({
                "account_holder_type": "individual", "account_type": "checking", "bank_name": "TEST BANK",
                "fingerprint": fingerprint, "last4": last4, "routing_number": "110000000",
            });
            fields::set(&mut method, "us_bank_account", account);
        } else if self.brand == "sepa" {
            fields::set(&mut method, "type", "sepa_debit");
            let account = json!({
                "bank_code": self.number.get(4..9), "branch_code": "", "country": self.number.get(..2),
                "fingerprint": fingerprint, "last4": last4,
            });
            fields::set(&mut method, "sepa_debit", account);
        } else {
            fields::set(&mut method, "type", "card");
            let card = json!({
                "brand": self.brand,
                "checks": {"address_line1_check": null, "address_postal_code_check": null, "cvc_check": "pass"},
                "country": "US", "display_brand": self.brand, "exp_month": 12, "exp_year": 2034,
                "fingerprint": fingerprint, "funding": "credit", "generated_from": null, "last4": last4,
                "networks": {"available": [self.brand], "preferred": null}, "regulated_status": "unregulated",
                "three_d_secure_usage": {"supported": true}, "wallet": null,
            });
            fields::set(&mut method, "card", card);
        }
        store.put(method);
        id
    }
}

/// The behaviour of a payment method's card.
pub(crate) fn behaviour(method: &Value) -> CardBehaviour {
    let name = text(method, "_.card");
    find(name).or_else(|| find_debit(name)).map_or(CardBehaviour::Pays, |card| card.behaviour)
}

/// The error for a bank's decline code, in the processor's words.
pub(crate) fn declined(decline_code: &str) -> ApiError {
    let message = match decline_code {
        "insufficient_funds" => "Your card has insufficient funds.",
        "expired_card" => "Your card has expired.",
        "incorrect_cvc" => "Your card's security code is incorrect.",
        "processing_error" => {
            "An error occurred while processing your card. Try again in a little bit."
        }
        "authentication_required" => {
            "Your card was declined. This transaction requires authentication."
        }
        _ => "Your card was declined.",
    };
    match decline_code {
        // These are error codes of their own, not decline codes.
        "expired_card" | "incorrect_cvc" | "processing_error" => {
            ApiError::card(decline_code, None, message)
        }
        "authentication_required" => ApiError::card(decline_code, Some(decline_code), message),
        other => ApiError::card("card_declined", Some(other), message),
    }
}
