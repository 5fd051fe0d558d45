//! Prorations: what is left of the period of an item that changes is given back, and what it becomes is charged for
//! the same rest.

use serde_json::Value;

use super::super::books::Books;
use super::super::calendar;
use super::super::fields::{list, text, whole};
use super::super::invoices::Line;
use super::super::prices;
use super::change::Change;

/// The lines of a change: credits first, then debits. Items that stay as they are have none.
pub(in super::super) fn lines(books: &Books, subscription: &Value, change: &Change) -> Vec<Line> {
    let (before, after) = (list(subscription, "items.data"), change.items.as_slice());
    if change.restarts {
        return restart(books, subscription, change);
    }
    if change.proration == "none" || text(subscription, "status") == "trialing" {
        return Vec::new();
    }
    let rest = Rest::of(super::period(subscription), change.date);
    let mut lines = Vec::new();
    for item in before.iter().filter(|item| !after.iter().any(|other| is_same(item, other))) {
        lines.push(rest.line(books, item, -1));
    }
    for item in after.iter().filter(|item| !before.iter().any(|other| is_same(item, other))) {
        lines.push(rest.line(books, item, 1));
    }
    lines.retain(|line| line.quantity > 0);
    lines
}

/// The period begins anew: the rest of the old one is given back, the new one is charged whole.
fn restart(books: &Books, subscription: &Value, change: &Change) -> Vec<Line> {
    let rest = Rest::of(super::period(subscription), change.date);
    let credits = list(subscription, "items.data").iter().map(|item| rest.line(books, item, -1));
    let mut lines: Vec<Line> = credits.filter(|line| line.amount != 0).collect();
    let (interval, count) = super::interval(&change.items);
    let period = (change.date, calendar::after(change.date, &interval, count));
    for item in change.items.iter().filter(|item| whole(item, "quantity") > 0) {
        let price = super::super::fields::at(item, "price").clone();
        let quantity = whole(item, "quantity");
        lines.push(Line {
            amount: prices::amount(&price, quantity),
            description: format!("{quantity} × {}", prices::describe(books, &price)),
            price,
            quantity,
            period,
            proration: false,
            item: text(item, "id").to_owned(),
        });
    }
    lines
}

fn is_same(one: &Value, other: &Value) -> bool {
    ["id", "price.id"].iter().all(|path| text(one, path) == text(other, path))
        && whole(one, "quantity") == whole(other, "quantity")
}

/// The rest of a period, from a moment on.
struct Rest {
    from: i64,
    to: i64,
    whole: i64,
}

impl Rest {
    fn of((start, end): (i64, i64), date: i64) -> Self {
        let from = date.clamp(start, end.max(start));
        Self { from, to: end, whole: (end - start).max(1) }
    }

    fn line(&self, books: &Books, item: &Value, sign: i64) -> Line {
        let price = super::super::fields::at(item, "price").clone();
        let quantity = whole(item, "quantity");
        let name = prices::describe(books, &price);
        let word = if sign < 0 { "Unused time on" } else { "Remaining time on" };
        Line {
            amount: sign * share(prices::amount(&price, quantity), self.to - self.from, self.whole),
            description: format!("{word} {quantity} × {name} after {}", calendar::shown(self.from)),
            price,
            quantity,
            period: (self.from, self.to),
            proration: true,
            item: text(item, "id").to_owned(),
        }
    }
}

/// A part of an amount, rounded to the nearest cent.
fn share(amount: i64, part: i64, of: i64) -> i64 {
    let (amount, part, of) = (i128::from(amount), i128::from(part.max(0)), i128::from(of));
    i64::try_from((amount * part * 2 + of) / (of * 2)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_share_is_rounded_to_the_nearest_cent() {
        assert_eq!(share(1000, 15, 30), 500);
        assert_eq!(share(999, 1, 2), 500);
        assert_eq!(share(1000, 1, 3), 333);
        assert_eq!(share(1000, 30, 30), 1000);
        assert_eq!(share(1000, -5, 30), 0);
    }
}
