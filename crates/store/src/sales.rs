//! Sales in the database: what paid invoices and packs sold, read and written in the form that
//! `domain::sales` needs.

use domain::id::CustomerId;
use domain::lots::CustomerLots;
use domain::sales::{
    CustomerSales, MoneyBack, PartKind, PotTransfer, Sale, SalePart, pot_of_period,
};
use domain::time::Timestamp;

use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError, balance, money_back};

/// The sales that a change affects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaleScope<'a> {
    /// One pack, which affects no other sale.
    Pack(&'a str),
    /// All invoices of a customer.
    Invoices(CustomerId),
}

/// A line of an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoldLine {
    /// The index of the part of the sale that it belongs to.
    pub part: usize,
    /// The processor's price.
    pub price_id: Option<String>,
    /// Cents before discounts; negative for a credit.
    pub amount_cents: i64,
    /// Cents of discount; negative if a credit was reduced by it.
    pub discount_cents: i64,
    /// The quantity.
    pub quantity: i64,
    /// The start of the time it pays for.
    pub starts_at: Timestamp,
    /// The end of that time.
    pub ends_at: Timestamp,
    /// Whether it is for the rest of a period.
    pub is_proration: bool,
    /// The credits of a whole period, negative if they are given back; 0 if it brings none.
    pub monthly_credits: i64,
    /// The length of the whole period in seconds; more than zero.
    pub period_s: i64,
}

/// The price of the plan that an upgrade of this subscription with this proration date asked for.
pub async fn plan_price_at(
    store: &Store,
    subscription: &str,
    proration_date_s: i64,
) -> Result<Option<String>, StoreError> {
    const SQL: &str = "
        select i.price_id from slot_changes c join slot_change_items i on i.change_id = c.id
        where c.subscription_id = $1 and c.proration_date = $2 and c.kind = 'plan'
            and c.charged_at_once = 1 and c.state <> 'failed' and i.plan_id is not null
        order by c.created_at desc, c.id desc limit 1";
    let values = [subscription.into(), proration_date_s.into()];
    let row = store.read().await?.row(SQL, &values).await?;
    row.map(|row| row.text("price_id")).transpose()
}

/// Cents that are withdrawn from the customer's credit at the processor because money of this sale
/// went back twice; negative if they are returned. None if the sale is unknown.
pub async fn withdrawn(store: &Store, sale: &str) -> Result<Option<i64>, StoreError> {
    const SQL: &str = "select withdrawn_cents from sales where id = $1";
    let row = store.read().await?.row(SQL, &[sale.into()]).await?;
    row.map(|row| row.int("withdrawn_cents")).transpose()
}

/// Whether no money paid for slots of this period has gone back. Only then is a slot that is given
/// up credited.
pub async fn slot_money_is_whole(
    store: &Store,
    subscription: &str,
    period_end: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        select 1 from sale_parts p join sales s on s.id = p.sale_id
        where p.pot = $1 and (s.reversed_cents > 0 or exists (
            select 1 from credit_notes n
            where n.payment_id = s.id and n.state = 'issued' and n.unasked_cents + n.credited_cents > 0)) limit 1";
    let pot = pot_of_period(PartKind::Slot, subscription, period_end);
    Ok(store.read().await?.row(SQL, &[pot.into()]).await?.is_none())
}

/// The money that a lowering of slots credited.
#[derive(Debug, Clone, Copy)]
pub struct SlotCredit<'a> {
    /// The processor's id of the subscription.
    pub subscription: &'a str,
    /// The end of the period.
    pub period_end: Timestamp,
    /// The id of the change.
    pub change: &'a str,
    /// How much.
    pub cents: i64,
}

/// Records which invoices' money a lowering of slots credited, starting with the latest of the
/// period. Once for each change.
pub async fn note_slot_credit(
    store: &Store,
    customer: CustomerId,
    SlotCredit { subscription, period_end, change, cents }: SlotCredit<'_>,
) -> Result<(), StoreError> {
    const ONCE: &str = "
        insert into slot_credits (change_id, customer_id, subscription_id, period_end, cents)
        values ($1, $2, $3, $4, $5) on conflict (change_id) do nothing";
    const PARTS: &str = "
        select p.sale_id, p.place, p.money_cents - p.credited_cents as uncredited_cents
        from sale_parts p join sales s on s.id = p.sale_id
        where p.customer_id = $1 and p.pot = $2 and p.money_cents > p.credited_cents
        order by s.sold_at desc, length(s.number) desc, s.number desc, s.id desc";
    const NOTE: &str = "
        update sale_parts set credited_cents = credited_cents + $3 where sale_id = $1 and place = $2";
    let mut tx = store.write().await?;
    balance::lock(&mut tx, std::iter::once(customer)).await?;
    let once =
        [change.into(), customer.into(), subscription.into(), period_end.into(), cents.into()];
    if tx.execute(ONCE, &once).await? == 0 {
        return Ok(());
    }
    let pot = pot_of_period(PartKind::Slot, subscription, period_end);
    let mut rest = cents.max(0);
    for row in tx.rows(PARTS, &[customer.into(), pot.into()]).await? {
        let credited = rest.min(row.int("uncredited_cents")?);
        tx.execute(NOTE, &[row.text("sale_id")?.into(), row.int("place")?.into(), credited.into()])
            .await?;
        rest -= credited;
    }
    tx.commit().await
}

/// Reads sales, and combines them with the lots of their credits and the customer's credit at the
/// processor, in cents.
pub(crate) async fn read(
    tx: &mut Tx,
    scope: SaleScope<'_>,
    lots: CustomerLots,
    credit_cents: i64,
    now: Timestamp,
) -> Result<CustomerSales, StoreError> {
    const SALES: &str = "
        select s.id, s.sold_at, s.number, s.amount_cents, s.tax_cents, s.withdrawn_cents from sales s where";
    const PARTS: &str = "
        select p.sale_id, p.kind, p.pot, p.money_cents, p.credits, p.taken, p.credited_cents, p.lot_id
        from sale_parts p join sales s on s.id = p.sale_id where";
    const TRANSFERS: &str = "
        select t.sale_id, t.pot, t.cents from sale_transfers t join sales s on s.id = t.sale_id where";
    let (condition, value) = match scope {
        SaleScope::Pack(id) => ("s.id = $1", id.to_owned()),
        SaleScope::Invoices(customer) => {
            ("s.source = 'invoice' and s.customer_id = $1", customer.to_string())
        }
    };
    let value = [value.into()];
    let text = |select: &str, order: &str| {
        sqlx::AssertSqlSafe(format!("{select} {condition} order by {order}"))
    };
    let mut sales = Vec::new();
    let mut back = money_back::read(tx, condition, &value).await?;
    for row in tx.rows(text(SALES, "s.id"), &value).await? {
        let mut sale = sale(&row)?;
        sale.back = back.remove(&sale.id).unwrap_or_default();
        sales.push(sale);
    }
    for row in tx.rows(text(PARTS, "p.sale_id, p.place"), &value).await? {
        let id = row.text("sale_id")?;
        if let Some(sale) = sales.iter_mut().find(|sale| sale.id == id) {
            sale.parts.push(part(&row)?);
        }
    }
    for row in tx.rows(text(TRANSFERS, "t.sale_id, t.pot"), &value).await? {
        let id = row.text("sale_id")?;
        let transfer = PotTransfer { pot: row.text("pot")?, cents: row.int("cents")? };
        if let Some(sale) = sales.iter_mut().find(|sale| sale.id == id) {
            sale.transfers.push(transfer);
        }
    }
    Ok(CustomerSales::new(sales, lots, credit_cents, now))
}

/// Writes the changes to sales that were read before.
pub(crate) async fn save(
    tx: &mut Tx,
    customer: CustomerId,
    before: &[Sale],
    now: &[Sale],
) -> Result<(), StoreError> {
    const SALE: &str = "update sales set withdrawn_cents = $2 where id = $1";
    for sale in now {
        let known = before.iter().find(|known| known.id == sale.id);
        if known == Some(sale) {
            continue;
        }
        tx.execute(SALE, &[sale.id.as_str().into(), sale.withdrawn.into()]).await?;
        save_parts(tx, sale, known).await?;
        save_transfers(tx, customer, sale).await?;
    }
    Ok(())
}

/// Writes the parts and the lines of a new sale.
pub(crate) async fn insert_parts(
    tx: &mut Tx,
    customer: CustomerId,
    sale: &Sale,
    lines: &[SoldLine],
) -> Result<(), StoreError> {
    const PART: &str = "
        insert into sale_parts
            (sale_id, place, customer_id, kind, pot, money_cents, credits, taken, credited_cents, lot_id)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    for (place, part) in (0_i64..).zip(&sale.parts) {
        let lot = part.lot.map(|lot| lot.to_string());
        let values = [
            sale.id.as_str().into(),
            place.into(),
            customer.into(),
            part.kind.as_str().into(),
            part.pot.as_str().into(),
            part.money.into(),
            part.credits.into(),
            0_i64.into(),
            part.credited.into(),
            lot.as_deref().into(),
        ];
        tx.execute(PART, &values).await?;
    }
    insert_lines(tx, sale, lines).await
}

async fn insert_lines(tx: &mut Tx, sale: &Sale, lines: &[SoldLine]) -> Result<(), StoreError> {
    const LINE: &str = "
        insert into sale_lines
            (sale_id, place, part, price_id, amount_cents, discount_cents, quantity, starts_at, ends_at, is_proration,
             monthly_credits, period_s)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    for (place, line) in (0_i64..).zip(lines) {
        let values = [
            sale.id.as_str().into(),
            place.into(),
            i64::try_from(line.part).unwrap_or(0).into(),
            line.price_id.as_deref().into(),
            line.amount_cents.into(),
            line.discount_cents.into(),
            line.quantity.into(),
            line.starts_at.into(),
            line.ends_at.into(),
            i64::from(line.is_proration).into(),
            line.monthly_credits.into(),
            line.period_s.into(),
        ];
        tx.execute(LINE, &values).await?;
    }
    Ok(())
}

async fn save_parts(tx: &mut Tx, sale: &Sale, known: Option<&Sale>) -> Result<(), StoreError> {
    const SQL: &str = "update sale_parts set taken = $3 where sale_id = $1 and place = $2";
    for (place, part) in sale.parts.iter().enumerate() {
        let before = known.and_then(|earlier| earlier.parts.get(place)).map_or(0, |one| one.taken);
        if part.taken != before {
            let place = i64::try_from(place).unwrap_or(0);
            tx.execute(SQL, &[sale.id.as_str().into(), place.into(), part.taken.into()]).await?;
        }
    }
    Ok(())
}

async fn save_transfers(tx: &mut Tx, customer: CustomerId, sale: &Sale) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into sale_transfers (sale_id, pot, customer_id, cents) values ($1, $2, $3, $4)
        on conflict (sale_id, pot) do update set cents = excluded.cents";
    for one in &sale.transfers {
        let values =
            [sale.id.as_str().into(), one.pot.as_str().into(), customer.into(), one.cents.into()];
        tx.execute(SQL, &values).await?;
    }
    Ok(())
}

fn sale(row: &SqlRow) -> Result<Sale, StoreError> {
    Ok(Sale {
        id: row.text("id")?,
        sold_at: row.time("sold_at")?,
        number: row.text("number")?,
        charged: row.int("amount_cents")?,
        tax: row.int("tax_cents")?,
        back: MoneyBack::default(),
        withdrawn: row.int("withdrawn_cents")?,
        parts: Vec::new(),
        transfers: Vec::new(),
    })
}

fn part(row: &SqlRow) -> Result<SalePart, StoreError> {
    Ok(SalePart {
        kind: row.parse("kind", "sale_parts")?,
        pot: row.text("pot")?,
        money: row.int("money_cents")?,
        credits: row.int("credits")?,
        taken: row.int("taken")?,
        credited: row.int("credited_cents")?,
        lot: row.parse_optional("lot_id", "sale_parts")?,
    })
}
