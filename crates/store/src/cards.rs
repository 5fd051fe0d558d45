//! Saved cards: the details by which people recognize a card. A customer has at most one. It is
//! charged with one click, or by automatic top-up without the customer.

use domain::id::CustomerId;
use domain::time::Timestamp;

use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError, top_up_settings};

/// A saved card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedCard {
    /// The processor's id of the payment method.
    pub payment_method: String,
    /// The brand, such as `visa`.
    pub brand: String,
    /// The last four digits of its number.
    pub last4: String,
    /// The month in which it expires, 1 to 12.
    pub exp_month: i64,
    /// The year in which it expires.
    pub exp_year: i64,
    /// The processor's fingerprint of the card number, if given: equal for the same card.
    pub fingerprint: Option<String>,
}

/// The saved card of a customer.
pub async fn find(store: &Store, customer: CustomerId) -> Result<Option<SavedCard>, StoreError> {
    find_saved_after(store, customer, Timestamp::from_unix_micros(i64::MIN)).await
}

/// The saved card of a customer, if it was saved after `since`.
pub async fn find_saved_after(
    store: &Store,
    customer: CustomerId,
    since: Timestamp,
) -> Result<Option<SavedCard>, StoreError> {
    const SQL: &str = "
        select payment_method_id, brand, last4, exp_month, exp_year, fingerprint
        from cards where customer_id = $1 and saved_at > $2";
    let row = store.read().await?.row(SQL, &[customer.into(), since.into()]).await?;
    row.as_ref().map(card).transpose()
}

/// Saves a card, replacing an earlier one.
pub async fn save(
    store: &Store,
    customer: CustomerId,
    card: &SavedCard,
    at: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into cards (customer_id, payment_method_id, brand, last4, exp_month, exp_year, fingerprint, saved_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8)
        on conflict (customer_id) do update set
            payment_method_id = excluded.payment_method_id, brand = excluded.brand, last4 = excluded.last4,
            exp_month = excluded.exp_month, exp_year = excluded.exp_year, fingerprint = excluded.fingerprint,
            saved_at = excluded.saved_at,
            chosen_at = case when cards.payment_method_id = excluded.payment_method_id then cards.chosen_at end";
    let values = [
        customer.into(),
        card.payment_method.as_str().into(),
        card.brand.as_str().into(),
        card.last4.as_str().into(),
        card.exp_month.into(),
        card.exp_year.into(),
        card.fingerprint.as_deref().into(),
        at.into(),
    ];
    let mut tx = store.write().await?;
    tx.execute(SQL, &values).await?;
    tx.commit().await
}

/// Records when the customer chose the saved card, if it is this one, over another card at the
/// processor.
pub async fn note_choice(
    store: &Store,
    customer: CustomerId,
    payment_method: &str,
    chosen_at: Timestamp,
) -> Result<(), StoreError> {
    const SQL: &str =
        "update cards set chosen_at = $3 where customer_id = $1 and payment_method_id = $2";
    let mut tx = store.write().await?;
    tx.execute(SQL, &[customer.into(), payment_method.into(), chosen_at.into()]).await?;
    tx.commit().await
}

/// When the customer chose the saved card, if it is this one; none if it was not chosen over
/// another card.
pub async fn find_choice(
    store: &Store,
    customer: CustomerId,
    payment_method: &str,
) -> Result<Option<Timestamp>, StoreError> {
    const SQL: &str =
        "select chosen_at from cards where customer_id = $1 and payment_method_id = $2";
    let row = store.read().await?.row(SQL, &[customer.into(), payment_method.into()]).await?;
    row.map_or(Ok(None), |row| row.optional_time("chosen_at"))
}

/// Deletes the saved card and turns automatic top-up off in the same transaction. False if there
/// was no card; top-up is turned off all the same.
pub async fn remove(
    store: &Store,
    customer: CustomerId,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let mut tx = store.write().await?;
    let removed = remove_in(&mut tx, customer, at).await?;
    tx.commit().await?;
    Ok(removed)
}

/// Deletes this card, which the processor detached, and turns automatic top-up off. Returns its
/// customer.
pub async fn remove_detached(
    store: &Store,
    payment_method: &str,
    at: Timestamp,
) -> Result<Option<CustomerId>, StoreError> {
    const SQL: &str = "select customer_id from cards where payment_method_id = $1";
    let mut tx = store.write().await?;
    let Some(row) = tx.row(SQL, &[payment_method.into()]).await? else { return Ok(None) };
    let customer = row.parse("customer_id", "cards")?;
    remove_in(&mut tx, customer, at).await?;
    tx.commit().await?;
    Ok(Some(customer))
}

pub(crate) async fn remove_in(
    tx: &mut Tx,
    customer: CustomerId,
    at: Timestamp,
) -> Result<bool, StoreError> {
    const SQL: &str = "delete from cards where customer_id = $1";
    let removed = tx.execute(SQL, &[customer.into()]).await? > 0;
    top_up_settings::stop_in(tx, customer, Some("card_removed"), at).await?;
    Ok(removed)
}

fn card(row: &SqlRow) -> Result<SavedCard, StoreError> {
    Ok(SavedCard {
        payment_method: row.text("payment_method_id")?,
        brand: row.text("brand")?,
        last4: row.text("last4")?,
        exp_month: row.int("exp_month")?,
        exp_year: row.int("exp_year")?,
        fingerprint: row.optional_text("fingerprint")?,
    })
}
