//! The processor's state: objects by id, in the form in which they are rendered. Changes can be
//! undone until they are journaled, so that a failed request leaves no trace.

use std::collections::{BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use simulator_kit::seeded_random::mix;

use super::fields::text;
use super::problem::ApiError;

/// The objects, and the current time.
#[derive(Debug, Default)]
pub(crate) struct ObjectStore {
    objects: HashMap<String, Value>,
    /// The ids of each kind, in the order of creation.
    kinds: HashMap<String, Vec<String>>,
    undo: Vec<(String, Option<Value>)>,
    changed: BTreeSet<String>,
    /// When objects become due.
    dues: HashMap<String, i64>,
    made: u64,
    salt: u64,
    /// Seconds since 1970, in the time of the processor, which can be moved.
    pub(crate) now: i64,
    /// The base URL of the pages, such as `http://127.0.0.1:9000`.
    pub(crate) base: String,
    /// The codes with which the next charges are declined.
    pub(crate) declines: VecDeque<String>,
    /// The current request: (id, idempotency key).
    pub(crate) request: (Option<String>, Option<String>),
}

/// The changes of one request, as they are journaled.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoreChange {
    pub(crate) objects: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) removed: Vec<String>,
}

impl ObjectStore {
    /// A store whose ids differ from those of stores with another salt.
    pub(crate) fn new(salt: u64) -> Self {
        Self { salt, ..Self::default() }
    }

    /// An id for a new object, such as `cus_Ab3…`.
    pub(crate) fn new_id(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}_{}", letters(self.salt, self.made, 24))
    }

    /// A secret that cannot be derived from an id.
    pub(crate) fn secret(&mut self) -> String {
        self.made += 1;
        letters(self.salt ^ 0x005e_c2e7, self.made, 25)
    }

    /// The object with this id.
    pub(crate) fn get(&self, id: &str) -> Option<&Value> {
        self.objects.get(id)
    }

    /// The object of this kind with this id, which the request named in `param`.
    pub(crate) fn find(&self, kind: &str, id: &str, param: &str) -> Result<&Value, ApiError> {
        let found = self.get(id).filter(|object| text(object, "object") == kind);
        found.ok_or_else(|| ApiError::no_such(kind, id, param))
    }

    /// All objects of a kind, in the order of creation.
    pub(crate) fn all(&self, kind: &str) -> impl DoubleEndedIterator<Item = &Value> {
        let ids = self.kinds.get(kind).map_or(&[] as &[String], Vec::as_slice);
        ids.iter().filter_map(|id| self.objects.get(id))
    }

    /// Adds an object, or replaces the one with the same id.
    pub(crate) fn put(&mut self, object: Value) {
        let id = text(&object, "id").to_owned();
        let kind = text(&object, "object").to_owned();
        self.expect(&id, Some(&object));
        let before = self.objects.insert(id.clone(), object);
        if before.is_none() {
            self.kinds.entry(kind).or_default().push(id.clone());
        }
        self.changed.insert(id.clone());
        self.undo.push((id, before));
    }

    /// Changes the object with this id, if there is one.
    pub(crate) fn change(&mut self, id: &str, change: impl FnOnce(&mut Value)) {
        if let Some(mut object) = self.objects.get(id).cloned() {
            change(&mut object);
            self.put(object);
        }
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, id: &str) {
        let Some(before) = self.objects.get(id).cloned() else { return };
        self.forget(id);
        self.changed.insert(id.to_owned());
        self.undo.push((id.to_owned(), Some(before)));
    }

    /// The current state of the store; see [`ObjectStore::undo_to`].
    pub(crate) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Undoes all changes since the mark.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            match self.undo.pop() {
                Some((id, Some(before))) => {
                    self.expect(&id, Some(&before));
                    let kind = text(&before, "object").to_owned();
                    if self.objects.insert(id.clone(), before).is_none() {
                        self.kinds.entry(kind).or_default().push(id);
                    }
                }
                Some((id, None)) => self.forget(&id),
                None => return,
            }
        }
    }

    /// Returns the changes since the last call; they can no longer be undone.
    pub(crate) fn settle(&mut self) -> StoreChange {
        self.undo.clear();
        let mut change = StoreChange::default();
        for id in std::mem::take(&mut self.changed) {
            match self.objects.get(&id) {
                Some(object) => change.objects.push(object.clone()),
                None => change.removed.push(id),
            }
        }
        // In the order of creation, so that a restored store has the same order.
        change.objects.sort_by_key(|object| self.place(object));
        change
    }

    /// Restores journaled changes.
    pub(crate) fn restore(&mut self, change: StoreChange) {
        for object in change.objects {
            self.made += 1;
            self.put(object);
        }
        for id in change.removed {
            self.forget(&id);
        }
        self.undo.clear();
        self.changed.clear();
    }

    /// The first object due by `until`, if there is one: (when, id).
    pub(crate) fn first_due(&self, until: i64) -> Option<(i64, String)> {
        let due = self.dues.iter().filter(|(_, due)| **due <= until).map(|(id, due)| (*due, id));
        due.min().map(|(due, id)| (due, id.clone()))
    }

    fn expect(&mut self, id: &str, object: Option<&Value>) {
        match object.and_then(|object| super::fields::at(object, "_.due").as_i64()) {
            Some(due) => self.dues.insert(id.to_owned(), due),
            None => self.dues.remove(id),
        };
    }

    fn place(&self, object: &Value) -> usize {
        let ids = self.kinds.get(text(object, "object"));
        let id = text(object, "id");
        ids.and_then(|ids| ids.iter().rposition(|known| known == id)).unwrap_or_default()
    }

    fn forget(&mut self, id: &str) {
        self.expect(id, None);
        if let Some(object) = self.objects.remove(id)
            && let Some(ids) = self.kinds.get_mut(text(&object, "object"))
        {
            ids.retain(|known| known != id);
        }
    }
}

/// Letters and digits derived from two numbers.
fn letters(salt: u64, number: u64, count: usize) -> String {
    const ALL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut state = mix(salt ^ mix(number));
    let mut written = String::with_capacity(count);
    for _ in 0..count {
        state = mix(state);
        let place = usize::try_from(state % 62).unwrap_or_default();
        written.push(ALL.get(place).copied().map_or('0', char::from));
    }
    written
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn undone_changes_leave_no_trace() {
        let mut store = ObjectStore::new(1);
        store.put(json!({"id": "cus_1", "object": "customer", "name": "Ada"}));
        drop(store.settle());
        let mark = store.mark();

        store.change("cus_1", |customer| crate::fields::set(customer, "name", "Bob"));
        store.put(json!({"id": "cus_2", "object": "customer"}));
        store.undo_to(mark);

        assert_eq!(store.find("customer", "cus_1", "id").unwrap()["name"], "Ada");
        assert_eq!(store.all("customer").count(), 1);
        assert_eq!(store.find("customer", "cus_2", "id").unwrap_err().status, 404);
        assert_eq!(store.find("charge", "cus_1", "charge").unwrap_err().status, 400);
    }

    #[test]
    fn journaled_changes_are_restored_in_order() {
        let mut store = ObjectStore::new(1);
        for id in ["cus_9", "cus_1", "cus_5"] {
            store.put(json!({"id": id, "object": "customer"}));
        }
        let mut again = ObjectStore::new(2);
        again.restore(store.settle());

        let ids: Vec<_> =
            again.all("customer").map(|object| text(object, "id").to_owned()).collect();
        assert_eq!(ids, ["cus_9", "cus_1", "cus_5"]);
    }
}
