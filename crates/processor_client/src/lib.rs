//! The payment processor, spoken to over its HTTP interface: form-encoded requests, JSON answers,
//! signed events.
//!
//! A [`ProcessorClient`] sends one request at a time, with the retry rule of its documentation;
//! every request with an effect carries an [`IdempotencyKey`] that its caller derived from a row
//! that is already committed. What cannot be known after a failure is an error of its own,
//! [`ProcessorError::Unknown`]. Nothing here decides what a payment is worth, and nothing is
//! granted here.

pub mod objects;
pub mod webhook;

mod balance;
mod cards;
mod checkout;
mod credit_notes;
mod endpoints;
mod error;
mod form;
mod history;
mod intents;
mod invoices;
mod listing;
mod prices;
mod settings;
mod subscriptions;
mod transport;

pub use balance::NewBalanceTransaction;
pub use cards::{CustomerChange, NewCustomer};
pub use checkout::{
    CheckoutLine, CheckoutPurpose, CheckoutQuestions, LinePrice, NewCheckout, NewPortal,
    PortalFlow, PortalOffer,
};
pub use error::{PaymentDecline, ProcessorError, RateLimit, RequestRefusal, TransportTrouble};
pub use history::{EventListing, NewRefund};
pub use intents::{CustomerPresence, IntentConfirmation, NewIntent};
pub use invoices::InvoicePreview;
pub use listing::ListFilter;
pub use prices::{NewPrice, NewProduct};
pub use settings::{API_VERSION, ProcessorSettings};
pub use subscriptions::{ItemChange, ItemPrice, ProrationBehavior, SubscriptionChange};
pub use transport::{IdempotencyKey, ProcessorClient};
