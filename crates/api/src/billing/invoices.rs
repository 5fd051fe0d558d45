//! Invoices: what was charged for plans, slots and packs, with the processor's documents.

use axum::extract::State;
use billing::invoice_records;
use domain::id::OrderId;
use domain::invoice::{InvoiceId, InvoiceState};
use domain::platform::Platform;
use domain::sales::PartKind;
use domain::time::Timestamp;
use failures::Failure;
use store::invoices::{InvoiceQuery, StoredInvoice, StoredInvoiceLine};
use store::returned_money::{self, ReturnedMoney};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::auth::Caller;
use web::error::ApiError;
use web::extract::{NoQuery, Path, Query};
use web::page::PageQuery;
use web::words;

use crate::ApiState;

const NO_INVOICE: ApiError = ApiError::Failure(Failure::NotFound(
    "there is no invoice with that id; `GET /v1/billing/invoices` lists them",
));

pub(super) fn router() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(list_invoices)).routes(routes!(get_invoice))
}

/// A page of invoices, newest first.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct Invoices {
    /// The invoices, newest first.
    invoices: Vec<InvoiceOut>,
    /// The `before` for the next page; absent on the last one.
    #[schema(value_type = Option<String>)]
    next_before: Option<InvoiceId>,
}

/// An invoice. Amounts are in the smallest unit of the currency.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct InvoiceOut {
    /// The invoice's id at the payment processor.
    invoice_id: String,
    /// The number on the document.
    number: String,
    #[schema(schema_with = words::invoice_state)]
    status: InvoiceState,
    /// Why it was made: `subscription_create` (a new subscription), `subscription_cycle` (a
    /// renewal), `subscription_update` (a change of plan or slots), `manual` (a pack), or another
    /// word of the payment processor.
    reason: String,
    /// Always `usd`.
    currency: String,
    /// The sum of the lines, before discounts and tax.
    subtotal_cents: i64,
    /// What came off by promotion codes and other discounts.
    discount_cents: i64,
    /// The tax.
    tax_cents: i64,
    /// The amount of the invoice: after discounts, with tax. Negative if it returns more than it
    /// sells; that is credit for the next invoices.
    amount_cents: i64,
    /// What was to be charged: the amount, less credit of earlier invoices, and with small amounts
    /// that earlier invoices left over.
    due_cents: i64,
    /// What was paid.
    paid_cents: i64,
    /// What has gone back to the customer by refunds and disputes.
    returned_cents: i64,
    /// The order, of an invoice for a pack; null for others.
    #[schema(value_type = Option<String>)]
    order_id: Option<OrderId>,
    /// The payment processor's page for the invoice. The address may expire; `GET
    /// /v1/billing/invoices/{invoice_id}` returns a fresh one.
    hosted_url: Option<String>,
    /// The document. The address may expire, like `hosted_url`.
    pdf_url: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it was paid; null if it was not.
    #[schema(value_type = Option<String>, format = DateTime)]
    paid_at: Option<Timestamp>,
    /// What it is for.
    lines: Vec<InvoiceLineOut>,
}

/// One line of an invoice.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct InvoiceLineOut {
    #[schema(schema_with = words::invoice_line_kind)]
    kind: PartKind,
    /// The plan's id, the platform of the slots, or the pack's id; null for other lines.
    reference: Option<String>,
    /// The text on the document.
    description: String,
    /// How many.
    quantity: i64,
    /// Always `usd`.
    currency: String,
    /// Before discounts and tax; negative for unused time that is returned.
    amount_cents: i64,
    /// What came off by discounts; negative on a line that returns time.
    discount_cents: i64,
    /// The tax on the line.
    tax_cents: i64,
    /// The start of the time that it is for.
    #[schema(value_type = String, format = DateTime)]
    period_start: Timestamp,
    /// The end of the time that it is for.
    #[schema(value_type = String, format = DateTime)]
    period_end: Timestamp,
    /// Whether it is for a part of a period.
    proration: bool,
}

impl InvoiceLineOut {
    fn new(line: StoredInvoiceLine, currency: &str) -> Self {
        Self {
            currency: currency.to_owned(),
            kind: line.kind,
            reference: shown_reference(line.kind, line.reference),
            description: line.description,
            quantity: line.quantity,
            amount_cents: line.amount_cents,
            discount_cents: line.discount_cents,
            tax_cents: line.tax_cents,
            period_start: line.starts_at,
            period_end: line.ends_at,
            proration: line.is_proration,
        }
    }
}

/// What a line is for. Slots name their platform as it is called now.
fn shown_reference(kind: PartKind, stored: Option<String>) -> Option<String> {
    match (kind, stored) {
        (PartKind::Slot, Some(name)) => {
            Some(name.parse::<Platform>().map_or(name, |platform| platform.to_string()))
        }
        (_, stored) => stored,
    }
}

impl InvoiceOut {
    fn new(invoice: StoredInvoice, returned: &ReturnedMoney) -> Self {
        let line = |line| InvoiceLineOut::new(line, &invoice.currency);
        Self {
            returned_cents: returned.of_invoice(&invoice.id, invoice.order),
            lines: invoice.lines.into_iter().map(line).collect(),
            invoice_id: invoice.id,
            number: invoice.number,
            status: invoice.state,
            reason: invoice.reason,
            currency: invoice.currency,
            subtotal_cents: invoice.sums.subtotal_cents,
            discount_cents: invoice.sums.discount_cents,
            tax_cents: invoice.sums.tax_cents,
            amount_cents: invoice.sums.total_cents,
            due_cents: invoice.sums.due_cents,
            paid_cents: invoice.sums.paid_cents,
            order_id: invoice.order,
            hosted_url: invoice.hosted_url,
            pdf_url: invoice.pdf_url,
            created_at: invoice.created_at,
            paid_at: invoice.paid_at,
        }
    }
}

/// Lists the customer's invoices for plans, slots and packs, newest first. Drafts are not listed.
#[utoipa::path(
    get, path = "/v1/billing/invoices", tag = "billing", params(PageQuery<InvoiceId>),
    responses((status = 200, body = Invoices))
)]
async fn list_invoices(
    State(api): State<ApiState>,
    caller: Caller,
    Query(query): Query<PageQuery<InvoiceId>>,
) -> Result<axum::Json<Invoices>, ApiError> {
    caller.refuse_limited()?;
    let before = query.before();
    let wanted = InvoiceQuery {
        customer: caller.customer,
        before: before.as_ref().map(InvoiceId::as_str),
        limit: query.to_read(),
    };
    let found = invoice_records::list(&api.billing, &wanted).await?;
    let page = query.page(found, |invoice| InvoiceId::from(invoice.id.as_str()));
    let returned = returned_money::of_customer(&api.store, caller.customer).await?;
    let invoice = |invoice| InvoiceOut::new(invoice, &returned);
    let invoices = page.entries.into_iter().map(invoice).collect();
    Ok(axum::Json(Invoices { invoices, next_before: page.next_before }))
}

/// Shows an invoice, with fresh addresses of its page and document.
#[utoipa::path(
    get, path = "/v1/billing/invoices/{invoice_id}", tag = "billing",
    params(("invoice_id" = String, Path, description = "The `invoice_id` of an invoice.")),
    responses((status = 200, body = InvoiceOut))
)]
async fn get_invoice(
    State(api): State<ApiState>,
    caller: Caller,
    Path(invoice_id): Path<String>,
    _: NoQuery,
) -> Result<axum::Json<InvoiceOut>, ApiError> {
    caller.refuse_limited()?;
    let found = invoice_records::find(&api.billing, caller.customer, &invoice_id).await?;
    let returned = returned_money::of_customer(&api.store, caller.customer).await?;
    Ok(axum::Json(InvoiceOut::new(found.ok_or(NO_INVOICE)?, &returned)))
}
