//! `/console/billing/invoices`: what was charged, with the processor's documents.

use askama::Template;
use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use crate::orders::{ListQuery, beginning_at};
use crate::part::{BillingPart, BillingTab, show};
use crate::words;
use console_kit::ConsoleState;
use console_kit::address::segment;
use console_kit::failure::PageFailure;
use console_kit::format;
use console_kit::page_query::PageQuery;
use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;

const PATH: &str = "/console/billing/invoices";

pub(crate) fn router() -> Router<ConsoleState> {
    Router::new().route(PATH, get(list)).route("/console/billing/invoices/{invoice_id}", get(one))
}

#[derive(serde::Deserialize)]
struct InvoiceList {
    invoices: Vec<ShownInvoice>,
    next_before: Option<String>,
}

/// An invoice.
#[derive(serde::Deserialize)]
struct ShownInvoice {
    invoice_id: String,
    number: String,
    status: String,
    reason: String,
    subtotal_cents: i64,
    discount_cents: i64,
    tax_cents: i64,
    amount_cents: i64,
    due_cents: i64,
    paid_cents: i64,
    returned_cents: i64,
    hosted_url: Option<String>,
    pdf_url: Option<String>,
    created_at: String,
    lines: Vec<InvoiceLine>,
}

#[derive(serde::Deserialize)]
struct InvoiceLine {
    description: String,
    quantity: i64,
    amount_cents: i64,
    period_start: String,
    period_end: String,
}

impl ShownInvoice {
    /// The number on the document, else its id.
    fn name(&self) -> &str {
        if self.number.is_empty() { &self.invoice_id } else { &self.number }
    }

    fn state(&self) -> (&'static str, &'static str) {
        words::invoice_status(&self.status)
    }

    fn reason(&self) -> &str {
        words::invoice_reason(&self.reason)
    }

    fn time(&self) -> String {
        format::day(&self.created_at)
    }

    fn subtotal(&self) -> String {
        format::dollars(self.subtotal_cents)
    }

    /// What came off, if something did.
    fn discount(&self) -> Option<String> {
        (self.discount_cents != 0).then(|| format::dollars(self.discount_cents.saturating_neg()))
    }

    fn tax(&self) -> String {
        format::dollars(self.tax_cents)
    }

    fn amount(&self) -> String {
        format::dollars(self.amount_cents)
    }

    fn due(&self) -> String {
        format::dollars(self.due_cents)
    }

    /// What has gone back, if something has.
    fn returned(&self) -> Option<String> {
        (self.returned_cents != 0).then(|| format::dollars(self.returned_cents))
    }

    fn paid(&self) -> String {
        format::dollars(self.paid_cents)
    }
}

impl InvoiceLine {
    fn amount(&self) -> String {
        format::dollars(self.amount_cents)
    }

    fn quantity(&self) -> String {
        format::number(self.quantity)
    }

    /// The time that it is for, if it is for some.
    fn period(&self) -> Option<String> {
        let (from, to) = (format::day(&self.period_start), format::day(&self.period_end));
        (from != to).then(|| format!("{from} to {to}"))
    }
}

#[derive(Template)]
#[template(path = "console/billing/invoices.html")]
struct InvoicesPage {
    frame: PageShell,
    part: BillingPart,
    list: InvoiceList,
    /// The link to older ones, if there are some.
    older: Option<String>,
    is_first: bool,
}

#[derive(Template)]
#[template(path = "console/billing/invoice.html")]
struct InvoicePage {
    frame: PageShell,
    part: BillingPart,
    invoice: ShownInvoice,
}

async fn list(
    PageQuery(query): PageQuery<ListQuery>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    let list: InvoiceList =
        visitor.get(&format!("/v1/billing/invoices{}", query.written())).await?;
    let older = list.next_before.as_deref().map(beginning_at);
    let page = InvoicesPage {
        frame: visitor.shell(ConsoleSection::Billing),
        part: BillingPart::new(&visitor, BillingTab::Invoices),
        older: older.map(|place| format!("{PATH}{place}")),
        list,
        is_first: query.is_first(),
    };
    Ok(show(&visitor, StatusCode::OK, &page))
}

async fn one(
    Path(invoice_id): Path<String>,
    visitor: ConsoleVisitor,
) -> Result<Response, PageFailure> {
    let path = format!("/v1/billing/invoices/{}", segment(&invoice_id));
    let page = InvoicePage {
        frame: visitor.shell(ConsoleSection::Billing),
        part: BillingPart::new(&visitor, BillingTab::Invoices),
        invoice: visitor.get(&path).await?,
    };
    Ok(show(&visitor, StatusCode::OK, &page))
}
