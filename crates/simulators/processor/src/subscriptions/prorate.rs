//! Prorations: the rest of the period of a changed item is credited, and its new state is charged
//! for the same rest.

use serde_json::Value;
use simulator_kit::calendar;

use super::change::SubscriptionChange;
use super::items::{interval, period};
use crate::fields::{list, text, whole};
use crate::invoices::InvoiceLine;
use crate::object_store::ObjectStore;
use crate::prices;
use crate::rounding::share;

/// The lines of a change: credits first, then debits. Unchanged items have none.
pub(crate) fn lines(
    store: &ObjectStore,
    subscription: &Value,
    change: &SubscriptionChange,
) -> Vec<InvoiceLine> {
    let (before, after) = (list(subscription, "items.data"), change.items.as_slice());
    if change.restarts {
        return restart(store, subscription, change);
    }
    if change.proration == "none" || text(subscription, "status") == "trialing" {
        return Vec::new();
    }
    let (start, end) = period(subscription);
    let rest = PeriodRest::of(start, end, change.date);
    let mut lines = Vec::new();
    for item in before.iter().filter(|item| !after.iter().any(|other| is_same(item, other))) {
        lines.push(rest.line(store, item, -1));
    }
    for item in after.iter().filter(|item| !before.iter().any(|other| is_same(item, other))) {
        lines.push(rest.line(store, item, 1));
    }
    lines.retain(|line| line.quantity > 0);
    lines
}

/// The period restarts: the rest of the old one is credited, the new one is charged in full.
fn restart(
    store: &ObjectStore,
    subscription: &Value,
    change: &SubscriptionChange,
) -> Vec<InvoiceLine> {
    let (start, end) = period(subscription);
    let rest = PeriodRest::of(start, end, change.date);
    let credits = list(subscription, "items.data").iter().map(|item| rest.line(store, item, -1));
    let mut lines: Vec<InvoiceLine> = credits.filter(|line| line.amount != 0).collect();
    let (interval, count) = interval(&change.items);
    let period = (change.date, calendar::after(change.date, &interval, count));
    for item in change.items.iter().filter(|item| whole(item, "quantity") > 0) {
        let price = crate::fields::at(item, "price").clone();
        let quantity = whole(item, "quantity");
        lines.push(InvoiceLine {
            amount: prices::amount(&price, quantity),
            description: format!("{quantity} × {}", prices::describe(store, &price)),
            price,
            quantity,
            period,
            proration: false,
            item: text(item, "id").to_owned(),
            discounts: Vec::new(),
        });
    }
    lines
}

fn is_same(one: &Value, other: &Value) -> bool {
    ["id", "price.id"].iter().all(|path| text(one, path) == text(other, path))
        && whole(one, "quantity") == whole(other, "quantity")
}

/// The rest of a period, from a given time.
struct PeriodRest {
    from: i64,
    to: i64,
    whole: i64,
}

impl PeriodRest {
    fn of(start: i64, end: i64, date: i64) -> Self {
        let from = date.clamp(start, end.max(start));
        Self { from, to: end, whole: (end - start).max(1) }
    }

    fn line(&self, store: &ObjectStore, item: &Value, sign: i64) -> InvoiceLine {
        let price = crate::fields::at(item, "price").clone();
        let quantity = whole(item, "quantity");
        let name = prices::describe(store, &price);
        let word = if sign < 0 { "Unused time on" } else { "Remaining time on" };
        InvoiceLine {
            amount: sign * share(prices::amount(&price, quantity), self.to - self.from, self.whole),
            description: format!("{word} {quantity} × {name} after {}", calendar::shown(self.from)),
            price,
            quantity,
            period: (self.from, self.to),
            proration: true,
            item: text(item, "id").to_owned(),
            discounts: Vec::new(),
        }
    }
}
