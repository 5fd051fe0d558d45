//! Pages of the processor's: where a pack or a plan is paid, and where a customer looks after cards
//! and invoices.

use super::error::ProcessorError;
use super::form::FormParameters;
use super::listing::ListFilter;
use super::objects::{CheckoutSession, ListPage, PortalConfiguration, PortalSession};
use super::transport::{IdempotencyKey, ProcessorClient};

/// What our configurations of the portal say of themselves; one that offers something else has
/// another value.
const OWN_CONFIGURATION: (&str, &str) = ("made_by", "creator-gateway 1");
const COMPANY_CONFIGURATION: (&str, &str) = ("made_by", "creator-gateway 1 with companies");

/// Our prices are without tax.
pub(super) const TAX_BEHAVIOR: &str = "exclusive";

/// A page on which something is bought.
#[derive(Debug, Clone, Copy)]
pub struct NewCheckout<'a> {
    /// What happens when it is paid.
    pub purpose: CheckoutPurpose,
    /// The processor's customer.
    pub customer: &'a str,
    /// What we know it by: the order's id.
    pub client_reference_id: Option<&'a str>,
    /// What is bought.
    pub lines: &'a [CheckoutLine<'a>],
    /// Where the customer goes after paying; `{CHECKOUT_SESSION_ID}` in it is replaced.
    pub success_url: &'a str,
    /// Where the customer goes instead.
    pub cancel_url: &'a str,
    /// What we know it by; it is written to the session and to what the session makes.
    pub metadata: &'a [(&'a str, &'a str)],
    /// When the page closes, in seconds since 1970: 30 minutes to 24 hours away; none: in 24 hours.
    pub expires_at: Option<i64>,
    /// What the page asks for besides the card, and whether tax is added.
    pub asks: CheckoutQuestions,
    /// Whether a payment gets an invoice; a subscription always does.
    pub makes_invoice: bool,
}

/// What a checkout asks for besides the card. What the customer enters is saved for later invoices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct CheckoutQuestions {
    /// Whether the processor computes tax from the address and adds it.
    pub automatic_tax: bool,
    /// Whether a billing address is required.
    pub billing_address: bool,
    /// Whether companies may enter their name and tax id.
    pub tax_ids: bool,
    /// Whether promotion codes may be entered.
    pub promotion_codes: bool,
}

/// What a checkout makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckoutPurpose {
    /// One payment; its card is kept for later ones without the customer.
    Payment,
    /// A subscription.
    Subscription,
}

/// One line of a checkout.
#[derive(Debug, Clone, Copy)]
pub struct CheckoutLine<'a> {
    /// What it costs.
    pub price: LinePrice<'a>,
    /// How often.
    pub quantity: i64,
}

/// The price of a line.
#[derive(Debug, Clone, Copy)]
pub enum LinePrice<'a> {
    /// One that exists at the processor.
    Known(&'a str),
    /// One that is written out.
    Inline {
        /// What is bought, for people.
        name: &'a str,
        /// In the currency's smallest unit.
        unit_amount_cents: i64,
        /// Such as `usd`.
        currency: &'a str,
        /// `month` or `year` for what is paid again and again.
        interval: Option<&'a str>,
    },
    /// One that is written out for a product that exists at the processor.
    OfProduct {
        /// The product.
        product: &'a str,
        /// In the currency's smallest unit.
        unit_amount_cents: i64,
        /// Such as `usd`.
        currency: &'a str,
        /// `month` or `year` for what is paid again and again.
        interval: Option<&'a str>,
    },
}

/// A portal page.
#[derive(Debug, Clone, Copy)]
pub struct NewPortal<'a> {
    /// The processor's customer.
    pub customer: &'a str,
    /// Where the customer comes back to.
    pub return_url: &'a str,
    /// Which configuration of the portal; none: the account's default.
    pub configuration: Option<&'a str>,
    /// Where it opens; none: its first page.
    pub flow: Option<PortalFlow<'a>>,
}

/// What customers look after in the portal besides cards, invoices and the end of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortalOffer {
    /// Nothing.
    Plain,
    /// Their address, the name of their company, and its tax ids.
    Company,
}

/// A page of the portal.
#[derive(Debug, Clone, Copy)]
pub enum PortalFlow<'a> {
    /// Where a card is replaced.
    UpdateCard,
    /// Where this subscription is cancelled.
    Cancel(&'a str),
}

impl ProcessorClient {
    /// Opens a page on which something is bought.
    pub async fn create_checkout(
        &self,
        new: &NewCheckout<'_>,
        key: &IdempotencyKey,
    ) -> Result<CheckoutSession, ProcessorError> {
        let (mode, data) = match new.purpose {
            CheckoutPurpose::Payment => ("payment", "payment_intent_data"),
            CheckoutPurpose::Subscription => ("subscription", "subscription_data"),
        };
        let mut form = FormParameters::new()
            .with("mode", mode)
            .with("customer", new.customer)
            .with_some("client_reference_id", new.client_reference_id)
            .with("success_url", new.success_url)
            .with("cancel_url", new.cancel_url)
            .with_some("expires_at", new.expires_at)
            .with("payment_method_types[]", "card")
            .with_map("metadata", new.metadata)
            // What a session knows is not copied to what it makes.
            .with_map(&format!("{data}[metadata]"), new.metadata);
        if new.purpose == CheckoutPurpose::Payment {
            form = form.with("payment_intent_data[setup_future_usage]", "off_session");
        }
        if new.purpose == CheckoutPurpose::Subscription {
            // A proration then shows its price and its discount apart, as a full period does.
            let billing = "subscription_data[billing_mode]";
            form = form
                .with(format!("{billing}[type]"), "flexible")
                .with(format!("{billing}[flexible][proration_discounts]"), "itemized");
        }
        form = new.asks.write(form);
        if new.makes_invoice && new.purpose == CheckoutPurpose::Payment {
            form = form
                .with("invoice_creation[enabled]", true)
                .with_map("invoice_creation[invoice_data][metadata]", new.metadata);
        }
        for (index, line) in new.lines.iter().enumerate() {
            form = line.write(form, &format!("line_items[{index}]"), new.asks.automatic_tax);
        }
        self.post(&["checkout", "sessions"], form, key).await
    }

    /// Reads a session with what it sold, its payment and the card that paid.
    pub async fn retrieve_checkout(&self, id: &str) -> Result<CheckoutSession, ProcessorError> {
        let expanded = [
            "line_items",
            "payment_intent.payment_method",
            "payment_intent.latest_charge",
            "setup_intent.payment_method",
        ];
        self.get(&["checkout", "sessions", id], FormParameters::new().expanding(&expanded)).await
    }

    /// Lists sessions, newest first; filters: customer, subscription, intent, status, created.
    pub async fn list_checkouts(
        &self,
        listing: &ListFilter<'_>,
    ) -> Result<ListPage<CheckoutSession>, ProcessorError> {
        self.get(&["checkout", "sessions"], listing.form()).await
    }

    /// Closes a page that is still open.
    pub async fn expire_checkout(
        &self,
        id: &str,
        key: &IdempotencyKey,
    ) -> Result<CheckoutSession, ProcessorError> {
        self.post(&["checkout", "sessions", id, "expire"], FormParameters::new(), key).await
    }

    /// Opens the portal for a customer; the link is for one use, soon.
    pub async fn create_portal(
        &self,
        new: &NewPortal<'_>,
        key: &IdempotencyKey,
    ) -> Result<PortalSession, ProcessorError> {
        let form = FormParameters::new()
            .with("customer", new.customer)
            .with("return_url", new.return_url)
            .with_some("configuration", new.configuration);
        let form = match new.flow {
            None => form,
            Some(PortalFlow::UpdateCard) => form.with("flow_data[type]", "payment_method_update"),
            Some(PortalFlow::Cancel(subscription)) => form
                .with("flow_data[type]", "subscription_cancel")
                .with("flow_data[subscription_cancel][subscription]", subscription),
        };
        self.post(&["billing_portal", "sessions"], form, key).await
    }

    /// The newest configuration of the portal that `create_portal_configuration` made and that is
    /// in use.
    pub async fn find_portal_configuration(
        &self,
        offer: PortalOffer,
    ) -> Result<Option<PortalConfiguration>, ProcessorError> {
        let form = ListFilter::default().form().with("active", true);
        let page: ListPage<PortalConfiguration> =
            self.get(&["billing_portal", "configurations"], form).await?;
        let (name, value) = offer.name();
        let is_own = |found: &PortalConfiguration| {
            found.metadata.get(name).is_some_and(|written| written == value)
        };
        Ok(page.data.into_iter().find(is_own))
    }

    /// Makes a configuration of the portal in which cards and invoices are looked after and a
    /// subscription ends with its period, but in which neither quantities nor plans change.
    pub async fn create_portal_configuration(
        &self,
        offer: PortalOffer,
        key: &IdempotencyKey,
    ) -> Result<PortalConfiguration, ProcessorError> {
        let form = FormParameters::new()
            .with("features[payment_method_update][enabled]", true)
            .with("features[invoice_history][enabled]", true)
            .with("features[subscription_cancel][enabled]", true)
            .with("features[subscription_cancel][mode]", "at_period_end")
            .with("features[subscription_update][enabled]", false)
            .with_map("metadata", &[offer.name()]);
        let form = match offer {
            PortalOffer::Plain => form,
            PortalOffer::Company => form
                .with("features[customer_update][enabled]", true)
                .with("features[customer_update][allowed_updates][0]", "address")
                .with("features[customer_update][allowed_updates][1]", "name")
                .with("features[customer_update][allowed_updates][2]", "tax_id"),
        };
        self.post(&["billing_portal", "configurations"], form, key).await
    }
}

impl PortalOffer {
    /// What customers need of whom a company's name and tax id are asked, or are not.
    pub const fn of(asks_companies: bool) -> Self {
        if asks_companies { Self::Company } else { Self::Plain }
    }

    const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Plain => OWN_CONFIGURATION,
            Self::Company => COMPANY_CONFIGURATION,
        }
    }
}

impl CheckoutQuestions {
    fn write(self, form: FormParameters) -> FormParameters {
        let said = |word: bool| word.then_some(true);
        let auto = |word: bool| word.then_some("auto");
        let keeps_address = self.automatic_tax || self.billing_address;
        form.with_some("automatic_tax[enabled]", said(self.automatic_tax))
            .with_some("billing_address_collection", self.billing_address.then_some("required"))
            .with_some("tax_id_collection[enabled]", said(self.tax_ids))
            .with_some("allow_promotion_codes", said(self.promotion_codes))
            // Without these the processor refuses to collect from a customer that it knows.
            .with_some("customer_update[address]", auto(keeps_address))
            .with_some("customer_update[name]", auto(self.tax_ids))
    }
}

impl CheckoutLine<'_> {
    fn write(&self, form: FormParameters, key: &str, is_taxed: bool) -> FormParameters {
        let form = form.with(format!("{key}[quantity]"), self.quantity);
        let data = format!("{key}[price_data]");
        let behavior = is_taxed.then_some(TAX_BEHAVIOR);
        match self.price {
            LinePrice::Known(price) => form.with(format!("{key}[price]"), price),
            LinePrice::Inline { name, unit_amount_cents, currency, interval } => form
                .with_some(&format!("{data}[tax_behavior]"), behavior)
                .with(format!("{data}[currency]"), currency)
                .with(format!("{data}[unit_amount]"), unit_amount_cents)
                .with(format!("{data}[product_data][name]"), name)
                .with_some(&format!("{data}[recurring][interval]"), interval),
            LinePrice::OfProduct { product, unit_amount_cents, currency, interval } => form
                .with_some(&format!("{data}[tax_behavior]"), behavior)
                .with(format!("{data}[currency]"), currency)
                .with(format!("{data}[unit_amount]"), unit_amount_cents)
                .with(format!("{data}[product]"), product)
                .with_some(&format!("{data}[recurring][interval]"), interval),
        }
    }
}
