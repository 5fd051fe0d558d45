//! Everything the processor knows: objects by their ids, as they are shown. What is done can be
//! undone until it is written down, so that a request that fails leaves no trace.

use std::collections::{BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use simulator_kit::seeded_random::mix;

use super::fields::text;
use super::problem::ApiError;

/// The objects, and the moment at which they are looked at.
#[derive(Debug, Default)]
pub(crate) struct ObjectStore {
    objects: HashMap<String, Value>,
    /// The ids of each kind, in the order in which they were made.
    kinds: HashMap<String, Vec<String>>,
    undo: Vec<(String, Option<Value>)>,
    changed: BTreeSet<String>,
    /// When objects that wait for a moment fall due.
    dues: HashMap<String, i64>,
    made: u64,
    salt: u64,
    /// Seconds since 1970, in the time of the processor, which can be moved.
    pub(crate) now: i64,
    /// Where a browser finds the pages, such as `http://127.0.0.1:9000`.
    pub(crate) base: String,
    /// The next charges are declined with these codes.
    pub(crate) declines: VecDeque<String>,
    /// The request that is answered: (id, idempotency key).
    pub(crate) request: (Option<String>, Option<String>),
}

/// What one request changed, as it is written down.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct StoreChange {
    pub(crate) objects: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) removed: Vec<String>,
}

impl ObjectStore {
    /// A store whose ids differ from those of a store with another salt.
    pub(crate) fn new(salt: u64) -> Self {
        Self { salt, ..Self::default() }
    }

    /// An id for something new, such as `cus_Ab3…`.
    pub(crate) fn new_id(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}_{}", letters(self.salt, self.made, 24))
    }

    /// Letters that cannot be guessed from an id.
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

    /// All objects of a kind, in the order in which they were made.
    pub(crate) fn all(&self, kind: &str) -> impl DoubleEndedIterator<Item = &Value> {
        let ids = self.kinds.get(kind).map_or(&[] as &[String], Vec::as_slice);
        ids.iter().filter_map(|id| self.objects.get(id))
    }

    /// Adds an object, or puts it in the place of the one with the same id.
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

    /// Where the store stands now; see [`ObjectStore::undo_to`].
    pub(crate) fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Undoes all that was done since the mark.
    pub(crate) fn undo_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            match self.undo.pop() {
                Some((id, Some(before))) => {
                    self.expect(&id, Some(&before));
                    self.objects.insert(id, before);
                }
                Some((id, None)) => self.forget(&id),
                None => return,
            }
        }
    }

    /// What was changed since the last time; it cannot be undone any more.
    pub(crate) fn settle(&mut self) -> StoreChange {
        self.undo.clear();
        let mut change = StoreChange::default();
        for id in std::mem::take(&mut self.changed) {
            match self.objects.get(&id) {
                Some(object) => change.objects.push(object.clone()),
                None => change.removed.push(id),
            }
        }
        // In the order of making, so that a store that is read again has it too.
        change.objects.sort_by_key(|object| self.place(object));
        change
    }

    /// Takes over what was written down.
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

    /// What falls due first, if anything does until this second: (when, id).
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

/// Letters and digits that follow from two numbers.
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
    fn what_is_undone_was_never_there() {
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
    fn what_was_written_down_is_there_again_in_its_order() {
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
