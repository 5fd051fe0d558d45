//! Time that passes: what falls due happens in its order, each at its own moment.

use serde_json::Value;

use super::books::Books;
use super::fields::{set, text, whole};
use super::{checkout, intents, subscriptions};

/// Lets everything happen that falls due until this second.
pub(super) fn pass(books: &mut Books, until: i64) {
    while let Some((due, id)) = books.first_due(until) {
        books.now = books.now.max(due);
        fall_due(books, &id);
        // Whoever falls due and does not say when again does so once.
        if books.get(&id).is_some_and(|object| whole(object, "_.due") == due) {
            books.change(&id, |object| set(object, "_.due", Value::Null));
        }
    }
    books.now = books.now.max(until);
}

fn fall_due(books: &mut Books, id: &str) {
    let Some(object) = books.get(id).cloned() else { return };
    match text(&object, "object") {
        "checkout.session" if text(&object, "status") == "open" => checkout::close(books, id),
        "subscription" => subscriptions::pass_time(books, id),
        "invoice" => subscriptions::attempt_again(books, id),
        "payment_intent" => {
            let pays = intents::will_pay(books, &object);
            drop(intents::settle(books, id, pays));
        }
        "billing_portal.session" => books.change(id, |session| set(session, "_.over", true)),
        _ => {}
    }
}
