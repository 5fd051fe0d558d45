//! Credit notes: documents that say what of an invoice is credited, and how its money went back.

use serde::Deserialize;

use super::{
    BalanceTransaction, ExpandableObject, InvoiceLine, ListPage, PaymentRefund, ProcessorCustomer,
    ProcessorInvoice, or_default, sum, words,
};

words! {
    /// Whether a credit note counts.
    CreditNoteStatus {
        /// It was issued.
        Issued = "issued",
        /// It was taken back, which only one of an open invoice can be.
        Void = "void",
    }
}

/// A credit note.
#[derive(Debug, Clone, Deserialize)]
pub struct CreditNote {
    /// `cn_…`
    pub id: String,
    /// All that it credits, with tax.
    #[serde(default, deserialize_with = "or_default")]
    pub amount: i64,
    /// The invoice.
    #[serde(default)]
    pub invoice: Option<ExpandableObject<ProcessorInvoice>>,
    /// Whose it is.
    #[serde(default)]
    pub customer: Option<ExpandableObject<ProcessorCustomer>>,
    /// Whether it counts.
    #[serde(default, deserialize_with = "or_default")]
    pub status: CreditNoteStatus,
    /// By how much the invoice asked for less, before it was paid.
    #[serde(default, deserialize_with = "or_default")]
    pub pre_payment_amount: i64,
    /// What of it went back after the invoice was paid: by refunds, as the customer's credit, or
    /// outside of the processor.
    #[serde(default, deserialize_with = "or_default")]
    pub post_payment_amount: i64,
    /// What of it went back outside of the processor.
    #[serde(default)]
    pub out_of_band_amount: Option<i64>,
    /// The movement of the customer's credit, where there was one.
    #[serde(default)]
    pub customer_balance_transaction: Option<ExpandableObject<BalanceTransaction>>,
    /// The refunds by which its money went back.
    #[serde(default, deserialize_with = "or_default")]
    pub refunds: Vec<NoteRefund>,
    /// Its first lines.
    #[serde(default, deserialize_with = "or_default")]
    pub lines: ListPage<CreditNoteLine>,
    /// When it was made.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    #[serde(default, deserialize_with = "or_default")]
    total_taxes: Vec<NoteTax>,
}

/// A refund by which money of a credit note went back.
#[derive(Debug, Clone, Deserialize)]
pub struct NoteRefund {
    /// How much of the refund is for the note.
    #[serde(default, deserialize_with = "or_default")]
    pub amount_refunded: i64,
    /// The refund.
    #[serde(default)]
    pub refund: Option<ExpandableObject<PaymentRefund>>,
}

/// A line of a credit note.
#[derive(Debug, Clone, Deserialize)]
pub struct CreditNoteLine {
    /// `cnli_…`
    #[serde(default, deserialize_with = "or_default")]
    pub id: String,
    /// What it credits before discounts and tax.
    #[serde(default, deserialize_with = "or_default")]
    pub amount: i64,
    /// The line of the invoice that it credits; none where it names none.
    #[serde(default)]
    pub invoice_line_item: Option<ExpandableObject<InvoiceLine>>,
    #[serde(default, deserialize_with = "or_default")]
    discount_amounts: Vec<NoteDiscount>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct NoteDiscount {
    #[serde(default, deserialize_with = "or_default")]
    amount: i64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct NoteTax {
    #[serde(default, deserialize_with = "or_default")]
    amount: i64,
}

impl CreditNote {
    /// The tax that it credits.
    pub fn tax(&self) -> i64 {
        sum(self.total_taxes.iter().map(|tax| tax.amount))
    }

    /// What of it went back other than by refunds: as the customer's credit, or outside of the
    /// processor.
    pub fn credited(&self) -> i64 {
        if self.customer_balance_transaction.is_none()
            && self.out_of_band_amount.unwrap_or_default() == 0
        {
            return 0;
        }
        let refunded = sum(self.refunds.iter().map(|of| of.amount_refunded));
        self.post_payment_amount.saturating_sub(refunded).max(0)
    }
}

impl CreditNoteLine {
    /// What it credits after discounts, before tax.
    pub fn net_amount(&self) -> i64 {
        self.amount.saturating_sub(sum(self.discount_amounts.iter().map(|off| off.amount)))
    }
}
