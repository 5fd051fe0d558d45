//! Invoices as the processor last showed them: mirrored, so that listing them asks the processor
//! nothing. An invoice only moves forward: an older reading that arrives late changes nothing.

use domain::id::{CustomerId, OrderId};
use domain::invoice::InvoiceState;
use domain::sales::PartKind;
use domain::time::Timestamp;

use crate::sql::{SqlRow, SqlValue};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// An invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredInvoice {
    /// Its id at the processor.
    pub id: String,
    /// The customer who pays.
    pub customer: CustomerId,
    /// Its number for people.
    pub number: String,
    /// Its state.
    pub state: InvoiceState,
    /// The processor's word for why it was made, such as `subscription_cycle`.
    pub reason: String,
    /// The subscription, of an invoice for one.
    pub subscription: Option<String>,
    /// The order, of an invoice for a pack.
    pub order: Option<OrderId>,
    /// Its currency, in lower case.
    pub currency: String,
    /// The sums, in the smallest unit of the currency.
    pub sums: InvoiceSums,
    /// The processor's page for it. The address works for a limited time.
    pub hosted_url: Option<String>,
    /// The document. The address works for a limited time.
    pub pdf_url: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was paid.
    pub paid_at: Option<Timestamp>,
    /// When it was last read from the processor.
    pub read_at: Timestamp,
    /// Its lines.
    pub lines: Vec<StoredInvoiceLine>,
}

/// The sums of an invoice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InvoiceSums {
    /// Before discounts and tax.
    pub subtotal_cents: i64,
    /// What came off by discounts.
    pub discount_cents: i64,
    /// The tax.
    pub tax_cents: i64,
    /// After discounts, with tax.
    pub total_cents: i64,
    /// What was to be charged: the total, changed by the customer's balance at the processor.
    pub due_cents: i64,
    /// What was paid.
    pub paid_cents: i64,
}

/// A line of an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredInvoiceLine {
    /// What it is for.
    pub kind: PartKind,
    /// The plan, the platform or the pack.
    pub reference: Option<String>,
    /// For people.
    pub description: String,
    /// How many.
    pub quantity: i64,
    /// Before discounts and tax; negative for what is given back.
    pub amount_cents: i64,
    /// What came off by discounts.
    pub discount_cents: i64,
    /// The tax on it.
    pub tax_cents: i64,
    /// The start of the time that it is for.
    pub starts_at: Timestamp,
    /// The end of it.
    pub ends_at: Timestamp,
    /// Whether it is for a part of a period.
    pub is_proration: bool,
}

/// What of an invoice may change after it was made.
#[derive(Debug, Clone, Copy)]
pub struct InvoiceChange<'a> {
    /// The invoice.
    pub id: &'a str,
    /// Its state.
    pub state: InvoiceState,
    /// What was to be charged.
    pub due_cents: i64,
    /// What was paid.
    pub paid_cents: i64,
    /// The processor's page for it.
    pub hosted_url: Option<&'a str>,
    /// The document.
    pub pdf_url: Option<&'a str>,
    /// When it was paid.
    pub paid_at: Option<Timestamp>,
    /// When this was read.
    pub read_at: Timestamp,
}

/// A page of invoices.
#[derive(Debug, Clone, Copy)]
pub struct InvoiceQuery<'a> {
    /// The customer whose invoices to list.
    pub customer: CustomerId,
    /// Only invoices older than this one of the same customer.
    pub before: Option<&'a str>,
    /// The page size.
    pub limit: i64,
}

const COLUMNS: &str = "
    i.id, i.customer_id, i.number, i.state, i.reason, i.subscription_id, i.order_id, i.currency, i.subtotal_cents,
    i.discount_cents, i.tax_cents, i.total_cents, i.due_cents, i.paid_cents, i.hosted_url, i.pdf_url, i.created_at,
    i.paid_at, i.read_at";
const LINE_COLUMNS: &str = "
    l.invoice_id, l.kind, l.reference, l.description, l.quantity, l.amount_cents, l.discount_cents, l.tax_cents,
    l.starts_at, l.ends_at, l.is_proration";

/// Stores a new invoice with its lines. An invoice that is known stays as it is. One of an erased
/// customer is stored without addresses.
pub async fn insert(store: &Store, invoice: &StoredInvoice) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into invoices
            (id, customer_id, number, state, reason, subscription_id, order_id, currency, subtotal_cents, discount_cents,
             tax_cents, total_cents, due_cents, paid_cents, hosted_url, pdf_url, created_at, paid_at, read_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
            case when exists (select 1 from customers where id = $2 and erased_at is null) then $15 end,
            case when exists (select 1 from customers where id = $2 and erased_at is null) then $16 end,
            $17, $18, $19)
        on conflict (id) do nothing";
    let order = invoice.order.map(|order| order.to_string());
    let sums = &invoice.sums;
    let values = [
        invoice.id.as_str().into(),
        invoice.customer.into(),
        invoice.number.as_str().into(),
        invoice.state.as_str().into(),
        invoice.reason.as_str().into(),
        invoice.subscription.as_deref().into(),
        order.as_deref().into(),
        invoice.currency.as_str().into(),
        sums.subtotal_cents.into(),
        sums.discount_cents.into(),
        sums.tax_cents.into(),
        sums.total_cents.into(),
        sums.due_cents.into(),
        sums.paid_cents.into(),
        invoice.hosted_url.as_deref().into(),
        invoice.pdf_url.as_deref().into(),
        invoice.created_at.into(),
        invoice.paid_at.into(),
        invoice.read_at.into(),
    ];
    let mut tx = store.write().await?;
    if tx.execute(SQL, &values).await? == 1 {
        for (place, line) in (0_i64..).zip(&invoice.lines) {
            insert_line(&mut tx, &invoice.id, place, line).await?;
        }
    }
    tx.commit().await
}

async fn insert_line(
    tx: &mut Tx,
    invoice: &str,
    place: i64,
    line: &StoredInvoiceLine,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into invoice_lines
            (invoice_id, place, kind, reference, description, quantity, amount_cents, discount_cents, tax_cents, starts_at,
             ends_at, is_proration)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    let values = [
        invoice.into(),
        place.into(),
        line.kind.as_str().into(),
        line.reference.as_deref().into(),
        line.description.as_str().into(),
        line.quantity.into(),
        line.amount_cents.into(),
        line.discount_cents.into(),
        line.tax_cents.into(),
        line.starts_at.into(),
        line.ends_at.into(),
        i64::from(line.is_proration).into(),
    ];
    tx.execute(SQL, &values).await.map(drop)
}

/// Updates an invoice that is stored. One that is paid or void never goes back to an earlier state,
/// and one of an erased customer gets no addresses again.
pub async fn update(store: &Store, change: &InvoiceChange<'_>) -> Result<(), StoreError> {
    const SQL: &str = "
        with found as (
            select c.erased_at is null as is_kept
            from invoices i join customers c on c.id = i.customer_id where i.id = $1
        )
        update invoices set state = $2, due_cents = $3, paid_cents = $4, paid_at = $7, read_at = $8,
            hosted_url = case when (select is_kept from found) then $5 end,
            pdf_url = case when (select is_kept from found) then $6 end
        where id = $1 and (state not in ('paid', 'void') or state = $2)";
    let values = [
        change.id.into(),
        change.state.as_str().into(),
        change.due_cents.into(),
        change.paid_cents.into(),
        change.hosted_url.into(),
        change.pdf_url.into(),
        change.paid_at.into(),
        change.read_at.into(),
    ];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    tx.commit().await
}

/// The state in which an invoice is stored; none if it is not.
pub async fn state_of(store: &Store, id: &str) -> Result<Option<InvoiceState>, StoreError> {
    const SQL: &str = "select state from invoices where id = $1";
    let row = store.read().await?.row(SQL, &[id.into()]).await?;
    row.map(|row| row.parse("state", "invoices")).transpose()
}

/// An invoice of this customer.
pub async fn find(
    store: &Store,
    customer: CustomerId,
    id: &str,
) -> Result<Option<StoredInvoice>, StoreError> {
    const TAIL: &str = "from invoices i where i.id = $1 and i.customer_id = $2";
    const LINES: &str = "from invoice_lines l where l.invoice_id = $1 order by l.place";
    let mut tx = store.read().await?;
    let found = tx.row(select(COLUMNS, TAIL), &[id.into(), customer.into()]).await?;
    let Some(mut invoice) = found.as_ref().map(invoice).transpose()? else { return Ok(None) };
    for row in tx.rows(select(LINE_COLUMNS, LINES), &[id.into()]).await? {
        invoice.lines.push(line(&row)?);
    }
    Ok(Some(invoice))
}

/// The newest invoices, newest first; those of one second are ordered by their numbers.
pub async fn list(
    store: &Store,
    query: &InvoiceQuery<'_>,
) -> Result<Vec<StoredInvoice>, StoreError> {
    const TAIL: &str = "
        from invoices i
        where i.customer_id = $1
          and (cast($2 as text) is null
               or (i.created_at, i.number, i.id)
                  < (select created_at, number, id from invoices where id = $2 and customer_id = $1))
        order by i.created_at desc, i.number desc, i.id desc limit $3";
    const LINES: &str = "
        from invoice_lines l join invoices i on i.id = l.invoice_id
        where i.customer_id = $1 and i.created_at >= $2 and i.created_at <= $3
        order by l.invoice_id, l.place";
    let values = [query.customer.into(), query.before.into(), query.limit.into()];
    let mut tx = store.read().await?;
    let rows = tx.rows(select(COLUMNS, TAIL), &values).await?;
    let mut invoices = rows.iter().map(invoice).collect::<Result<Vec<_>, _>>()?;
    let (Some(newest), Some(oldest)) = (invoices.first(), invoices.last()) else {
        return Ok(invoices);
    };
    let times: [SqlValue<'_>; 3] =
        [query.customer.into(), oldest.created_at.into(), newest.created_at.into()];
    for row in tx.rows(select(LINE_COLUMNS, LINES), &times).await? {
        let id = row.text("invoice_id")?;
        if let Some(invoice) = invoices.iter_mut().find(|invoice| invoice.id == id) {
            invoice.lines.push(line(&row)?);
        }
    }
    Ok(invoices)
}

/// Claims a listing of a customer's invoices at the processor, unless there was one after `before`.
/// Of concurrent claims one succeeds.
pub async fn claim_listing(
    store: &Store,
    customer: CustomerId,
    now: Timestamp,
    before: Timestamp,
) -> Result<ListingClaim, StoreError> {
    const FIRST: &str = "
        insert into invoice_reads (customer_id, read_at) values ($1, $2) on conflict (customer_id) do nothing";
    const AGAIN: &str = "
        update invoice_reads set read_at = $2 where customer_id = $1 and read_at < $3";
    let mut tx = store.write().await?;
    let first = tx.execute(FIRST, &[customer.into(), now.into()]).await?;
    let claim = if first == 1 {
        ListingClaim::First
    } else if tx.execute(AGAIN, &[customer.into(), now.into(), before.into()]).await? == 1 {
        ListingClaim::Again
    } else {
        return Ok(ListingClaim::NotDue);
    };
    tx.commit().await?;
    Ok(claim)
}

/// Whether a customer's invoices are to be listed at the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingClaim {
    /// They were never listed.
    First,
    /// The last listing is old.
    Again,
    /// They were listed recently, or another request is listing them.
    NotDue,
}

/// Lets a claimed listing that failed be claimed again after `due`.
pub async fn listing_failed(
    store: &Store,
    customer: CustomerId,
    claim: ListingClaim,
    due: Timestamp,
) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    if claim == ListingClaim::First {
        // The next listing is a first one again.
        const SQL: &str = "delete from invoice_reads where customer_id = $1";
        tx.execute(SQL, &[customer.into()]).await?;
    } else {
        const SQL: &str = "update invoice_reads set read_at = $2 where customer_id = $1";
        tx.execute(SQL, &[customer.into(), due.into()]).await?;
    }
    tx.commit().await
}

/// Claims a reading of one invoice, unless it was read after `before`.
pub async fn claim_reading(
    store: &Store,
    id: &str,
    now: Timestamp,
    before: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "update invoices set read_at = $2 where id = $1 and read_at < $3";
    let mut tx = store.write().await?;
    let claimed = tx.execute(SQL, &[id.into(), now.into(), before.into()]).await?;
    tx.commit().await?;
    Ok(claimed == 1)
}

fn select(columns: &str, tail: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("select {columns} {tail}"))
}

fn invoice(row: &SqlRow) -> Result<StoredInvoice, StoreError> {
    Ok(StoredInvoice {
        id: row.text("id")?,
        customer: row.parse("customer_id", "invoices")?,
        number: row.text("number")?,
        state: row.parse("state", "invoices")?,
        reason: row.text("reason")?,
        subscription: row.optional_text("subscription_id")?,
        order: row.parse_optional("order_id", "invoices")?,
        currency: row.text("currency")?,
        sums: InvoiceSums {
            subtotal_cents: row.int("subtotal_cents")?,
            discount_cents: row.int("discount_cents")?,
            tax_cents: row.int("tax_cents")?,
            total_cents: row.int("total_cents")?,
            due_cents: row.int("due_cents")?,
            paid_cents: row.int("paid_cents")?,
        },
        hosted_url: row.optional_text("hosted_url")?,
        pdf_url: row.optional_text("pdf_url")?,
        created_at: row.time("created_at")?,
        paid_at: row.optional_time("paid_at")?,
        read_at: row.time("read_at")?,
        lines: Vec::new(),
    })
}

fn line(row: &SqlRow) -> Result<StoredInvoiceLine, StoreError> {
    Ok(StoredInvoiceLine {
        kind: row.parse("kind", "invoice_lines")?,
        reference: row.optional_text("reference")?,
        description: row.text("description")?,
        quantity: row.int("quantity")?,
        amount_cents: row.int("amount_cents")?,
        discount_cents: row.int("discount_cents")?,
        tax_cents: row.int("tax_cents")?,
        starts_at: row.time("starts_at")?,
        ends_at: row.time("ends_at")?,
        is_proration: row.int("is_proration")? != 0,
    })
}
