//! What is recorded of money that went back: refunds and disputes, and the credit notes that say
//! what it was for.

use std::collections::BTreeMap;

use domain::id::CustomerId;
use domain::payment::PaymentSource;
use domain::sales::{CreditNote, MoneyBack, NotedPart, RefundedMoney};
use domain::time::Timestamp;

use crate::sql::{SqlRow, SqlValue};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// A credit note as it was read from the processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadNote {
    /// The processor's id.
    pub id: String,
    /// Whether it was voided, which cannot be taken back.
    pub is_void: bool,
    /// What it says; each pot and each refund once, in the order of their names.
    pub says: CreditNote,
}

/// A recorded sale, as far as refunds, disputes and credit notes need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedSale {
    /// The invoice, or the payment intent of a pack.
    pub id: String,
    /// Whether it is an invoice or a pack.
    pub source: PaymentSource,
    /// The customer.
    pub customer: CustomerId,
}

/// The sale that a payment intent paid; none if it is unknown.
pub async fn sale_paid_by(store: &Store, intent: &str) -> Result<Option<RecordedSale>, StoreError> {
    const SQL: &str = "select id, source, customer_id from sales where intent_id = $1";
    recorded(store, SQL, intent).await
}

/// The sale with this id: an invoice, or the payment intent of a pack; none if it is unknown.
pub async fn sale(store: &Store, id: &str) -> Result<Option<RecordedSale>, StoreError> {
    const SQL: &str = "select id, source, customer_id from sales where id = $1";
    recorded(store, SQL, id).await
}

async fn recorded(
    store: &Store,
    sql: &'static str,
    named: &str,
) -> Result<Option<RecordedSale>, StoreError> {
    let row = store.read().await?.row(sql, &[named.into()]).await?;
    row.map(|row| {
        Ok(RecordedSale {
            id: row.text("id")?,
            source: row.parse("source", "sales")?,
            customer: row.parse("customer_id", "sales")?,
        })
    })
    .transpose()
}

/// A credit note as it is stored.
struct StoredNote {
    sale: String,
    read: ReadNote,
    changed_at: Timestamp,
}

/// Records the credit notes of a sale as they were read at this time. False if nothing is new: a
/// voided note stays voided, and what was read later counts.
pub(crate) async fn record(
    tx: &mut Tx,
    (sale, customer): (&str, CustomerId),
    notes: &[ReadNote],
    read_at: Timestamp,
) -> Result<bool, StoreError> {
    if notes.is_empty() {
        return Ok(false);
    }
    let known = stored(tx, "s.id = $1", &[sale.into()]).await?;
    let mut changed = false;
    for note in notes {
        let before = known.iter().find(|one| one.read.id == note.id);
        let stays = before
            .is_some_and(|one| one.read.is_void || one.changed_at > read_at || one.read == *note);
        if !stays {
            write(tx, (sale, customer), note, read_at).await?;
            changed = true;
        }
    }
    Ok(changed)
}

async fn write(
    tx: &mut Tx,
    (sale, customer): (&str, CustomerId),
    note: &ReadNote,
    read_at: Timestamp,
) -> Result<(), StoreError> {
    const NOTE: &str = "
        insert into credit_notes
            (id, payment_id, customer_id, state, tax_cents, other_cents, unasked_cents, credited_cents, created_at,
             changed_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)
        on conflict (id) do update set
            state = excluded.state, tax_cents = excluded.tax_cents, other_cents = excluded.other_cents,
            unasked_cents = excluded.unasked_cents, credited_cents = excluded.credited_cents,
            changed_at = excluded.changed_at";
    const NO_PARTS: &str = "delete from credit_note_parts where note_id = $1";
    const NO_REFUNDS: &str = "delete from credit_note_refunds where note_id = $1";
    const PART: &str = "insert into credit_note_parts (note_id, pot, cents) values ($1, $2, $3)";
    const REFUND: &str =
        "insert into credit_note_refunds (note_id, refund_id, cents) values ($1, $2, $3)";
    let (id, says) = (note.id.as_str(), &note.says);
    let values = [
        id.into(),
        sale.into(),
        customer.into(),
        if note.is_void { "void" } else { "issued" }.into(),
        says.tax.into(),
        says.other.into(),
        says.unasked.into(),
        says.credited.into(),
        read_at.into(),
    ];
    tx.execute(NOTE, &values).await?;
    tx.execute(NO_PARTS, &[id.into()]).await?;
    tx.execute(NO_REFUNDS, &[id.into()]).await?;
    for part in &says.parts {
        tx.execute(PART, &[id.into(), part.pot.as_str().into(), part.cents.into()]).await?;
    }
    for refund in &says.refunds {
        tx.execute(REFUND, &[id.into(), refund.id.as_str().into(), refund.cents.into()]).await?;
    }
    Ok(())
}

/// The money of these sales that went back, by sale; without sales of which none did. The condition
/// is about `sales s`.
pub(crate) async fn read(
    tx: &mut Tx,
    condition: &str,
    values: &[SqlValue<'_>],
) -> Result<BTreeMap<String, MoneyBack>, StoreError> {
    const REVERSALS: &str = "
        select r.payment_id, r.id, r.amount_cents as cents from reversals r join sales s on s.id = r.payment_id
        where r.state = 'standing' and r.kept = 0 and";
    let mut found: BTreeMap<String, MoneyBack> = BTreeMap::new();
    for row in tx.rows(query(REVERSALS, condition, "r.id"), values).await? {
        let back = found.entry(row.text("payment_id")?).or_default();
        back.reversals.push(refunded(&row, "id")?);
    }
    for note in stored(tx, condition, values).await? {
        if !note.read.is_void {
            found.entry(note.sale).or_default().notes.push(note.read.says);
        }
    }
    Ok(found)
}

async fn stored(
    tx: &mut Tx,
    condition: &str,
    values: &[SqlValue<'_>],
) -> Result<Vec<StoredNote>, StoreError> {
    const NOTES: &str = "
        select n.* from credit_notes n join sales s on s.id = n.payment_id where";
    const PARTS: &str = "
        select p.* from credit_note_parts p join credit_notes n on n.id = p.note_id
        join sales s on s.id = n.payment_id where";
    const REFUNDS: &str = "
        select r.* from credit_note_refunds r join credit_notes n on n.id = r.note_id
        join sales s on s.id = n.payment_id where";
    let mut notes = Vec::new();
    for row in tx.rows(query(NOTES, condition, "n.id"), values).await? {
        notes.push(note(&row)?);
    }
    if notes.is_empty() {
        return Ok(notes);
    }
    for row in tx.rows(query(PARTS, condition, "p.note_id, p.pot"), values).await? {
        let part = NotedPart { pot: row.text("pot")?, cents: row.int("cents")? };
        let id = row.text("note_id")?;
        if let Some(note) = notes.iter_mut().find(|note| note.read.id == id) {
            note.read.says.parts.push(part);
        }
    }
    for row in tx.rows(query(REFUNDS, condition, "r.note_id, r.refund_id"), values).await? {
        let (refund, id) = (refunded(&row, "refund_id")?, row.text("note_id")?);
        if let Some(note) = notes.iter_mut().find(|note| note.read.id == id) {
            note.read.says.refunds.push(refund);
        }
    }
    Ok(notes)
}

fn query(select: &str, condition: &str, order: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("{select} {condition} order by {order}"))
}

fn refunded(row: &SqlRow, id: &str) -> Result<RefundedMoney, StoreError> {
    Ok(RefundedMoney { id: row.text(id)?, cents: row.int("cents")? })
}

fn note(row: &SqlRow) -> Result<StoredNote, StoreError> {
    let says = CreditNote {
        tax: row.int("tax_cents")?,
        other: row.int("other_cents")?,
        unasked: row.int("unasked_cents")?,
        credited: row.int("credited_cents")?,
        ..CreditNote::default()
    };
    let (id, is_void) = (row.text("id")?, row.text("state")? == "void");
    Ok(StoredNote {
        sale: row.text("payment_id")?,
        read: ReadNote { id, is_void, says },
        changed_at: row.time("changed_at")?,
    })
}
