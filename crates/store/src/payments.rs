//! Payments: the only way to grant credits for money.
//!
//! However the service hears of a payment (an event, a charge, a returning checkout page, the
//! reconciler, automatic top-up), it ends in `fulfil`, whose input was read from the processor. One
//! transaction compares it with the order, records the sale once with what it sold, adds a lot for
//! what brings credits (debt is paid first) and closes the order. A payment that does not match
//! grants nothing and is recorded for the operator.

use domain::credits::Credits;
use domain::id::{CustomerId, EntryId, LotId, OrderId};
use domain::lots::{LATE_LIFE_S, Lot, LotSource};
use domain::payment::{Mismatch, OrderChannel, PaymentSource};
use domain::sales::{MoneyBack, PartKind, Sale, SalePart, pot_of_period, pot_of_sale};
use domain::time::Timestamp;

use crate::lots::{self, CreditHoldings, EntryLabel, LotSelection};
use crate::orders::{self, Order};
use crate::sales::{self, SaleScope, SoldLine};
use crate::tx::Tx;
use crate::unmatched::{self, UnmatchedMoney};
use crate::{Store, StoreError, processor_customers, top_ups};

/// A payment, as the processor's object describes it.
#[derive(Debug, Clone, Copy)]
pub struct NewPayment<'a> {
    /// The id of the first ledger entry, if there will be one.
    pub entry: EntryId,
    /// What it paid for.
    pub what: PaidFor<'a>,
    /// The id of the payment intent or invoice, which is granted once.
    pub payment: &'a str,
    /// The payment intent of the money, if the processor says so; refunds refer to it.
    pub intent: Option<&'a str>,
    /// The processor's id of the customer who paid.
    pub processor_customer: Option<&'a str>,
    /// The amount charged, in the smallest unit of the currency.
    pub amount_cents: i64,
    /// The part of it that is tax.
    pub tax_cents: i64,
    /// Its currency, in lower case.
    pub currency: &'a str,
    /// Whether it was real money.
    pub livemode: bool,
    /// The current time.
    pub at: Timestamp,
}

/// What a payment paid for.
#[derive(Debug, Clone, Copy)]
pub enum PaidFor<'a> {
    /// A pack. The order says how many credits.
    Order {
        /// The order.
        id: OrderId,
        /// The amount before discounts and without tax, which must equal the order's price.
        subtotal_cents: i64,
        /// When the credits expire; none if they do not.
        expires_at: Option<Timestamp>,
    },
    /// An invoice of a subscription.
    Invoice(&'a SoldInvoice),
}

/// What an invoice sold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoldInvoice {
    /// The subscription.
    pub subscription: String,
    /// The invoice number, which orders invoices of the same second.
    pub number: String,
    /// When the processor created it.
    pub sold_at: Timestamp,
    /// The parts sold, in the order of the lines.
    pub parts: Vec<SoldPart>,
    /// The lines.
    pub lines: Vec<SoldLine>,
    /// Whether this deployment uses real money.
    pub livemode: bool,
}

/// One part of what an invoice sold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoldPart {
    /// The kind of part.
    pub kind: PartKind,
    /// The end of the period it is for.
    pub period_end: Timestamp,
    /// Its price after discounts and without tax, in cents.
    pub money_cents: i64,
    /// The credits that it brings; negative if it gives some up.
    pub credits: i64,
    /// When the credits expire.
    pub expires_at: Option<Timestamp>,
    /// A reference for people, such as the plan's id.
    pub reference: String,
}

/// The outcome of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaymentOutcome {
    /// Its credits were granted now.
    Granted(PaymentReceipt),
    /// It was granted before; nothing changed.
    Repeated(PaymentReceipt),
    /// Not granted.
    Unmatched {
        /// The reason.
        reason: Mismatch,
        /// What was expected and what was found.
        details: String,
        /// Whether this was not recorded before.
        is_new: bool,
    },
}

/// What a payment granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentReceipt {
    /// The customer.
    pub customer: CustomerId,
    /// The credits granted.
    pub credits: Credits,
    /// The available credits now.
    pub balance: Credits,
}

/// Why a payment does not match.
struct PaymentMismatch {
    reason: Mismatch,
    details: String,
}

/// The customer a payment is granted to, and what for.
struct PaymentGrantee {
    customer: CustomerId,
    order: Option<OrderId>,
    goods: Vec<SoldGoods>,
}

/// What is granted for one part of a sale.
struct SoldGoods {
    part: SalePart,
    source: LotSource,
    expires_at: Option<Timestamp>,
    reference: String,
}

/// Grants the credits of a payment, once, if it matches the order.
pub async fn fulfil(store: &Store, paid: &NewPayment<'_>) -> Result<PaymentOutcome, StoreError> {
    let mut tx = store.write().await?;
    let grantee = match paid.what {
        PaidFor::Order { id, subtotal_cents, expires_at } => {
            let order = orders::lock(&mut tx, id).await?;
            of_order(order.as_ref(), paid, subtotal_cents, expires_at)
        }
        PaidFor::Invoice(invoice) => of_invoice(&mut tx, paid, invoice).await?,
    };
    let grantee = match grantee {
        Ok(grantee) => grantee,
        Err(difference) => return refuse(tx, difference, paid).await,
    };
    let wanted = if grantee.order.is_some() { LotSelection::None } else { LotSelection::Plans };
    let opened = lots::open(&mut tx, grantee.customer, wanted, paid.entry, paid.at).await?;
    let Some(holdings) = opened else {
        return Err(StoreError::corrupt("customer_credits", grantee.customer));
    };
    if !insert_sale(&mut tx, &grantee, paid).await? {
        return repeated(tx, &grantee, paid).await;
    }
    if is_given(&mut tx, grantee.customer, paid.payment).await? {
        return Ok(refuse_given(paid));
    }
    unmatched::close_granted(&mut tx, paid.payment, paid.at).await?;
    if let Some(order) = grantee.order {
        orders::mark_paid(&mut tx, order, paid.payment, paid.at).await?;
        top_ups::succeed_in(&mut tx, order, paid.payment, paid.at).await?;
    }
    let receipt = grant(&mut tx, holdings, grantee, paid).await?;
    tx.commit().await?;
    Ok(PaymentOutcome::Granted(receipt))
}

/// What an order's payment granted, and the current balance; none before it is paid.
pub async fn receipt(store: &Store, order: OrderId) -> Result<Option<PaymentReceipt>, StoreError> {
    const SQL: &str = "
        select s.customer_id, p.credits, c.available
        from sales s join sale_parts p on p.sale_id = s.id
        join customer_credits c on c.customer_id = s.customer_id
        where s.order_id = $1";
    let row = store.read().await?.row(SQL, &[order.into()]).await?;
    row.map(|row| {
        let customer = row.parse("customer_id", "sales")?;
        Ok(PaymentReceipt {
            customer,
            credits: row.credits("credits")?,
            balance: row.credits("available")?,
        })
    })
    .transpose()
}

/// Records an unmatched payment. True if it was not known yet.
pub async fn note_unmatched(store: &Store, it: &UnmatchedMoney<'_>) -> Result<bool, StoreError> {
    let mut tx = store.write().await?;
    let is_new = unmatched::note(&mut tx, it).await?;
    tx.commit().await?;
    Ok(is_new)
}

impl PaidFor<'_> {
    /// The kind of the ledger entry.
    const fn kind(&self) -> &'static str {
        match self {
            Self::Order { .. } => "pack",
            Self::Invoice(_) => "plan",
        }
    }

    const fn source(&self) -> PaymentSource {
        match self {
            Self::Order { .. } => PaymentSource::Intent,
            Self::Invoice(_) => PaymentSource::Invoice,
        }
    }
}

/// Whom to grant an order's payment to, if it matches the order.
fn of_order(
    order: Option<&Order>,
    paid: &NewPayment<'_>,
    subtotal_cents: i64,
    expires_at: Option<Timestamp>,
) -> Result<PaymentGrantee, PaymentMismatch> {
    let differ = |reason, details: String| Err(PaymentMismatch { reason, details });
    let Some(order) = order else {
        return differ(Mismatch::UnknownOrder, format!("{} names no order of ours", paid.payment));
    };
    if paid.processor_customer != Some(order.processor_customer.as_str()) {
        let who = paid.processor_customer.unwrap_or("no customer");
        let details = format!("{} is of {}, paid by {who}", order.id, order.processor_customer);
        return differ(Mismatch::OtherCustomer, details);
    }
    if order.livemode != paid.livemode {
        let details =
            format!("{} has livemode {}, the payment {}", order.id, order.livemode, paid.livemode);
        return differ(Mismatch::OtherMode, details);
    }
    if order.currency != paid.currency {
        let details = format!("{} is in {}, paid in {}", order.id, order.currency, paid.currency);
        return differ(Mismatch::OtherCurrency, details);
    }
    if order.amount_cents != subtotal_cents {
        let details =
            format!("{} costs {} cents, not {subtotal_cents}", order.id, order.amount_cents);
        return differ(Mismatch::OtherAmount, details);
    }
    let payment = order.payment.as_deref();
    if order.state.is_paid() && payment != Some(paid.payment) {
        let details = format!("{} was already paid by {}", order.id, payment.unwrap_or("nothing"));
        return differ(Mismatch::OtherPayment, details);
    }
    let part = SalePart {
        kind: PartKind::Pack,
        pot: pot_of_sale(paid.payment),
        money: paid.amount_cents.saturating_sub(paid.tax_cents),
        credits: order.credits.whole(),
        taken: 0,
        credited: 0,
        lot: None,
    };
    let source =
        if order.channel == OrderChannel::TopUp { LotSource::TopUp } else { LotSource::Pack };
    let goods = SoldGoods { part, source, expires_at, reference: order.id.to_string() };
    Ok(PaymentGrantee { customer: order.customer, order: Some(order.id), goods: vec![goods] })
}

async fn of_invoice(
    tx: &mut Tx,
    paid: &NewPayment<'_>,
    invoice: &SoldInvoice,
) -> Result<Result<PaymentGrantee, PaymentMismatch>, StoreError> {
    if invoice.livemode != paid.livemode {
        let details = format!(
            "the deployment has livemode {}, the invoice {}",
            invoice.livemode, paid.livemode
        );
        return Ok(Err(PaymentMismatch { reason: Mismatch::OtherMode, details }));
    }
    let payer = paid.processor_customer.unwrap_or_default();
    let Some(customer) = processor_customers::owner_in(tx, payer).await? else {
        let details = format!("{payer} is not one of our customers");
        return Ok(Err(PaymentMismatch { reason: Mismatch::OtherCustomer, details }));
    };
    let goods = invoice.parts.iter().map(|sold| sold.goods(&invoice.subscription, paid.at));
    Ok(Ok(PaymentGrantee { customer, order: None, goods: goods.collect() }))
}

impl SoldPart {
    fn goods(&self, subscription: &str, now: Timestamp) -> SoldGoods {
        // Credits paid for after their period stay valid for a minimum time.
        let late = (now > self.period_end).then(|| now.plus_seconds(LATE_LIFE_S));
        let expires_at = self.expires_at.map(|end| late.map_or(end, |late| end.max(late)));
        let part = SalePart {
            kind: self.kind,
            pot: pot_of_period(self.kind, subscription, self.period_end),
            money: self.money_cents,
            credits: self.credits,
            taken: 0,
            credited: 0,
            lot: None,
        };
        SoldGoods { part, source: LotSource::Plan, expires_at, reference: self.reference.clone() }
    }
}

/// Records the sale. False if it was recorded before.
async fn insert_sale(
    tx: &mut Tx,
    grantee: &PaymentGrantee,
    paid: &NewPayment<'_>,
) -> Result<bool, StoreError> {
    const INSERT: &str = "
        insert into sales
            (id, source, intent_id, customer_id, order_id, subscription_id, number, amount_cents, tax_cents, currency,
             livemode, sold_at, at, reversed_cents, withdrawn_cents)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, 0)
        on conflict (id) do nothing";
    let invoice = match paid.what {
        PaidFor::Order { .. } => None,
        PaidFor::Invoice(invoice) => Some(invoice),
    };
    let order = grantee.order.map(|order| order.to_string());
    let values = [
        paid.payment.into(),
        paid.what.source().as_str().into(),
        paid.intent.into(),
        grantee.customer.into(),
        order.as_deref().into(),
        invoice.map(|invoice| invoice.subscription.as_str()).into(),
        invoice.map_or("", |invoice| &invoice.number).into(),
        paid.amount_cents.into(),
        paid.tax_cents.into(),
        paid.currency.into(),
        i64::from(paid.livemode).into(),
        invoice.map_or(paid.at, |invoice| invoice.sold_at).into(),
        paid.at.into(),
    ];
    Ok(tx.execute(INSERT, &values).await? == 1)
}

/// Grants a lot for each part that brings credits, and adjusts them for money already returned.
async fn grant(
    tx: &mut Tx,
    mut holdings: CreditHoldings,
    grantee: PaymentGrantee,
    paid: &NewPayment<'_>,
) -> Result<PaymentReceipt, StoreError> {
    let (mut parts, mut credits) = (Vec::new(), 0_i64);
    for (place, goods) in (0_u64..).zip(grantee.goods) {
        let mut part = goods.part;
        if part.is_purchase() && part.credits > 0 {
            let id = LotId::of(paid.entry.nth(place));
            let mut lot = Lot::new(id, goods.source, part.credits, goods.expires_at, paid.at);
            lot.reference = Some(goods.reference);
            holdings.lots.add(lot);
            part.lot = Some(id);
            credits = credits.saturating_add(part.credits);
        }
        parts.push(part);
    }
    let reference = match grantee.order {
        Some(order) => order.to_string(),
        None => paid.payment.to_owned(),
    };
    let source = Some((paid.what.source().as_str(), paid.payment));
    let label = EntryLabel { kind: paid.what.kind(), source, reference: Some(&reference) };
    holdings.book(tx, label).await?;
    write(tx, &mut holdings, parts, paid).await?;
    let balance = Credits::from_whole(holdings.available());
    let customer = grantee.customer;
    holdings.save(tx).await?;
    Ok(PaymentReceipt { customer, credits: Credits::from_whole(credits), balance })
}

/// Writes the parts of a sale, after its lots.
async fn write(
    tx: &mut Tx,
    holdings: &mut CreditHoldings,
    parts: Vec<SalePart>,
    paid: &NewPayment<'_>,
) -> Result<(), StoreError> {
    let (scope, lines, number, sold_at) = match paid.what {
        PaidFor::Order { .. } => (SaleScope::Pack(paid.payment), &[][..], "", paid.at),
        PaidFor::Invoice(invoice) => (
            SaleScope::Invoices(holdings.customer),
            invoice.lines.as_slice(),
            invoice.number.as_str(),
            invoice.sold_at,
        ),
    };
    let sale = Sale {
        id: paid.payment.to_owned(),
        sold_at,
        number: number.to_owned(),
        charged: paid.amount_cents,
        tax: paid.tax_cents,
        back: MoneyBack::default(),
        withdrawn: 0,
        parts,
        transfers: Vec::new(),
    };
    holdings.save_new_lots(tx).await?;
    sales::insert_parts(tx, holdings.customer, &sale, lines).await?;
    let lots = std::mem::take(&mut holdings.lots);
    let mut known = sales::read(tx, scope, lots, 0, paid.at).await?;
    let before = known.all().to_vec();
    known.arrived(&sale.id);
    sales::save(tx, holdings.customer, &before, known.all()).await?;
    holdings.lots = known.lots;
    let label = EntryLabel { kind: "refund", source: None, reference: Some(paid.payment) };
    holdings.book(tx, label).await.map(drop)
}

/// Handles a payment that was granted before: to the same order, or to another one (a mismatch).
async fn repeated(
    mut tx: Tx,
    grantee: &PaymentGrantee,
    paid: &NewPayment<'_>,
) -> Result<PaymentOutcome, StoreError> {
    const SQL: &str = "
        select s.customer_id, s.order_id,
               cast(coalesce((select sum(p.credits) from sale_parts p where p.sale_id = s.id), 0) as bigint) as granted,
               c.available
        from sales s join customer_credits c on c.customer_id = s.customer_id
        where s.id = $1";
    let row = tx.row(SQL, &[paid.payment.into()]).await?;
    let row = row.ok_or_else(|| StoreError::corrupt("sales", paid.payment))?;
    let customer: CustomerId = row.parse("customer_id", "sales")?;
    let order: Option<OrderId> = row.parse_optional("order_id", "sales")?;
    if order == grantee.order && customer == grantee.customer {
        let (credits, balance) = (row.credits("granted")?, row.credits("available")?);
        return Ok(PaymentOutcome::Repeated(PaymentReceipt { customer, credits, balance }));
    }
    let details = format!("{} was already granted to {customer}", paid.payment);
    refuse(tx, PaymentMismatch { reason: Mismatch::OtherPayment, details }, paid).await
}

/// Whether an operator gave the customer credits for this payment while it matched nothing.
async fn is_given(tx: &mut Tx, customer: CustomerId, payment: &str) -> Result<bool, StoreError> {
    const SQL: &str = "select 1 from ledger where source = 'adjustment' and source_id = $1";
    let source = format!("{customer}:payment {payment}");
    Ok(tx.row(SQL, &[source.into()]).await?.is_some())
}

/// The outcome for a payment that an operator has settled with credits: no more are granted, and
/// there is nothing left to decide.
fn refuse_given(paid: &NewPayment<'_>) -> PaymentOutcome {
    let details = format!("{} was settled by an operator with credits", paid.payment);
    PaymentOutcome::Unmatched { reason: Mismatch::OtherPayment, details, is_new: false }
}

async fn refuse(
    mut tx: Tx,
    PaymentMismatch { reason, details }: PaymentMismatch,
    paid: &NewPayment<'_>,
) -> Result<PaymentOutcome, StoreError> {
    let unmatched = UnmatchedMoney { object: paid.payment, reason, details: &details, at: paid.at };
    let is_new = unmatched::note(&mut tx, &unmatched).await?;
    tx.commit().await?;
    Ok(PaymentOutcome::Unmatched { reason, details, is_new })
}
