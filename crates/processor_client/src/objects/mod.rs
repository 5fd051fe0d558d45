//! The processor's objects, read tolerantly: fields may be new, missing or null, and some stand
//! elsewhere in other versions of the interface. Methods hide where; amounts are in the currency's
//! smallest unit, times in seconds since 1970.

mod balance;
mod cards;
mod checkout;
mod credit_note;
mod discount;
mod event;
mod history;
mod invoice;
mod invoice_line;
mod payment;
mod setup;
mod subscription;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};
use zeroize::Zeroizing;

pub use balance::BalanceTransaction;
pub use cards::{InvoiceSettings, PaymentMethod, ProcessorCard, ProcessorCustomer};
pub use checkout::{
    CheckoutLineItem, CheckoutSession, PaymentStatus, PortalConfiguration, PortalFeature,
    PortalFeatures, PortalSession, SessionStatus, SetupIntent, TotalDetails,
};
pub use credit_note::{CreditNote, CreditNoteLine, CreditNoteStatus, NoteRefund};
pub use discount::{AppliedDiscount, DiscountCoupon};
pub use event::{MalformedEvent, ProcessorEvent};
pub use history::{
    CardCharge, DisputeStatus, EarlyFraudWarning, EvidenceDetails, PaymentDispute, PaymentRefund,
};
pub use invoice::{InvoicePayment, InvoiceStatus, ProcessorInvoice};
pub use invoice_line::{CreditedItems, InvoiceItem, InvoiceLine, LineParentKind, LinePeriod};
pub use payment::{IntentStatus, NextAction, PaymentFault, PaymentIntent};
pub use setup::{MerchantBalance, TaxSettings, WebhookEndpoint};
pub use subscription::{
    BillingInterval, ProcessorPrice, ProcessorProduct, ProcessorSubscription, SubscriptionItem,
    SubscriptionStatus,
};

/// What we wrote to an object: names and texts.
pub type ObjectMetadata = BTreeMap<String, String>;

/// One page of a list.
#[derive(Debug, Clone, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub struct ListPage<T> {
    /// The objects.
    #[serde(default, deserialize_with = "or_default")]
    pub data: Vec<T>,
    /// Whether a page follows.
    #[serde(default, deserialize_with = "or_default")]
    pub has_more: bool,
}

/// One page of what a search found.
#[derive(Debug, Clone, Deserialize)]
#[serde(bound = "T: Deserialize<'de>")]
pub struct SearchPage<T> {
    /// The objects.
    #[serde(default, deserialize_with = "or_default")]
    pub data: Vec<T>,
    /// Whether a page follows.
    #[serde(default, deserialize_with = "or_default")]
    pub has_more: bool,
    /// What the next page is asked for with.
    #[serde(default)]
    pub next_page: Option<String>,
}

/// Another object: its id, or all of it where that was asked for.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum ExpandableObject<T> {
    /// Its id.
    Id(String),
    /// The object.
    Object(Box<T>),
}

/// What the customer's browser proves itself with. It is given to that customer alone, and neither
/// logged nor kept.
#[derive(Clone, Deserialize)]
#[serde(from = "String")]
pub struct ClientSecret(Zeroizing<String>);

/// An object with an id.
pub trait HasId {
    /// Its id.
    fn id(&self) -> &str;
}

macro_rules! identified {
    ($($name:ty),+) => {$(
        impl HasId for $name {
            fn id(&self) -> &str {
                &self.id
            }
        }
    )+};
}

identified!(
    ProcessorCustomer,
    PaymentMethod,
    PaymentIntent,
    SetupIntent,
    CheckoutSession,
    CheckoutLineItem,
    CardCharge,
    PaymentRefund,
    PaymentDispute,
    EarlyFraudWarning,
    CreditNote,
    CreditNoteLine,
    ProcessorSubscription,
    SubscriptionItem,
    ProcessorPrice,
    ProcessorProduct,
    ProcessorInvoice,
    InvoiceLine,
    InvoiceItem,
    BalanceTransaction,
    AppliedDiscount,
    DiscountCoupon,
    ProcessorEvent
);

impl<T: HasId> ExpandableObject<T> {
    /// Its id.
    pub fn id(&self) -> &str {
        match self {
            Self::Id(id) => id,
            Self::Object(object) => object.id(),
        }
    }

    /// The object, where it was asked for.
    pub fn object(&self) -> Option<&T> {
        match self {
            Self::Id(_) => None,
            Self::Object(object) => Some(object),
        }
    }
}

impl<T> Default for ListPage<T> {
    fn default() -> Self {
        Self { data: Vec::new(), has_more: false }
    }
}

impl<T: HasId> ListPage<T> {
    /// What the next page comes after; none at the end.
    pub fn next(&self) -> Option<&str> {
        self.data.last().filter(|_| self.has_more).map(HasId::id)
    }
}

impl From<String> for ClientSecret {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl ClientSecret {
    /// The secret, to be given to the customer.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ClientSecret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClientSecret")
    }
}

/// A sum that stays a sum, whatever the amounts are.
fn sum(amounts: impl Iterator<Item = i64>) -> i64 {
    amounts.fold(0, i64::saturating_add)
}

/// A null is as good as a missing field.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Declares the words of a field; a word that is new is the last variant.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $text)] $variant,)+
            /// A word that is not known here.
            #[default]
            #[serde(other)]
            Other,
        }

        impl $name {
            /// The processor's word; a word that is not known here is `unknown`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ Self::Other => "unknown" }
            }
        }
    };
}

use words;
