//! Changes laid over the generated world. An overlay belongs to one creator on one platform and has
//! tables by name; a table records which things were added to or removed from a collection, and the
//! fields that were set on things. A thing is identified by its index in the world, or by a number
//! from [`ids::CREATED`] up if it was created while running; the format of ids is up to the
//! platform.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use crate::world::ids;
use crate::world::series::Series;

/// The changes of one creator on one platform.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    made: u64,
    tables: HashMap<String, OverlayTable>,
}

#[derive(Debug, Default)]
struct OverlayTable {
    /// Things moved to the front, in the order in which that happened.
    order: BTreeMap<u64, u64>,
    place: HashMap<u64, u64>,
    /// Things that are not at their generated position: removed, or moved to the front.
    hidden: BTreeSet<u64>,
    fields: HashMap<u64, Map<String, Value>>,
}

/// One page of a collection, as indexes.
#[derive(Debug)]
pub(crate) struct OverlayPage {
    /// The things of this page, newest first.
    pub(crate) indexes: Vec<u64>,
    /// The size of the whole collection.
    pub(crate) total: u64,
    /// Whether things follow after this page.
    pub(crate) has_more: bool,
}

impl Overlay {
    /// A number for a new thing; it is never reused.
    pub(crate) fn next_index(&mut self) -> u64 {
        self.made += 1;
        ids::CREATED + self.made
    }

    /// Adds the thing at the front of the collection; if it is already in it, it moves to the
    /// front.
    pub(crate) fn put(&mut self, table: &str, index: u64) {
        let table = self.table(table);
        let last = table.order.last_key_value().map_or(0, |(place, _)| *place);
        if let Some(place) = table.place.insert(index, last + 1) {
            table.order.remove(&place);
        }
        table.order.insert(last + 1, index);
        table.hidden.insert(index);
    }

    /// Adds the thing at the front of the collection, unless it is already in it; then it keeps its
    /// position.
    pub(crate) fn put_new(&mut self, table: &str, series: Series, index: u64) {
        if !self.holds(table, series, index) {
            self.put(table, index);
        }
    }

    /// Removes the thing from the collection.
    pub(crate) fn take(&mut self, table: &str, index: u64) {
        let table = self.table(table);
        if let Some(place) = table.place.remove(&index) {
            table.order.remove(&place);
        }
        table.hidden.insert(index);
    }

    /// Replaces the collection by these things, in this order.
    pub(crate) fn arrange(&mut self, table: &str, series: Series, indexes: &[u64]) {
        let table = self.table(table);
        table.hidden.extend((0..series.count()).filter_map(|place| series.at(place)));
        table.order.clear();
        table.place.clear();
        for (place, index) in (1..).zip(indexes.iter().rev()) {
            table.order.insert(place, *index);
            table.place.insert(*index, place);
            table.hidden.insert(*index);
        }
    }

    /// Sets fields of the thing; other fields are kept.
    pub(crate) fn set(&mut self, table: &str, index: u64, fields: Map<String, Value>) {
        self.table(table).fields.entry(index).or_default().extend(fields);
    }

    /// Creates a thing with these fields at the front of the collection, and returns its number.
    pub(crate) fn create(&mut self, table: &str, fields: Map<String, Value>) -> u64 {
        let index = self.next_index();
        self.set(table, index, fields);
        self.put(table, index);
        index
    }

    /// The fields set on the thing.
    pub(crate) fn fields(&self, table: &str, index: u64) -> Option<&Map<String, Value>> {
        self.tables.get(table)?.fields.get(&index)
    }

    /// One field set on the thing.
    pub(crate) fn field(&self, table: &str, index: u64, name: &str) -> Option<&Value> {
        self.fields(table, index)?.get(name)
    }

    /// `generated` with the fields set on the thing.
    pub(crate) fn over(&self, table: &str, index: u64, generated: Value) -> Value {
        let (Some(fields), Value::Object(mut object)) =
            (self.fields(table, index), generated.clone())
        else {
            return generated;
        };
        object.extend(fields.clone());
        Value::Object(object)
    }

    /// Whether the thing is in the collection whose generated part is `series`.
    pub(crate) fn holds(&self, table: &str, series: Series, index: u64) -> bool {
        let Some(table) = self.tables.get(table) else {
            return series.place_of(index).is_some();
        };
        table.place.contains_key(&index)
            || (series.place_of(index).is_some() && !table.hidden.contains(&index))
    }

    /// The number of things in the collection.
    pub(crate) fn count(&self, table: &str, series: Series) -> u64 {
        let Some(table) = self.tables.get(table) else {
            return series.count();
        };
        table.order.len() as u64 + series.count() - table.hidden_places(series).len() as u64
    }

    /// The part of the collection that starts after `offset` things and has up to `limit`.
    pub(crate) fn page(&self, table: &str, series: Series, offset: u64, limit: u64) -> OverlayPage {
        let total = self.count(table, series);
        let end = offset.saturating_add(limit).min(total);
        let indexes = match self.tables.get(table) {
            Some(table) => table.slice(series, offset, end),
            None => (offset..end).filter_map(|place| series.at(place)).collect(),
        };
        OverlayPage { indexes, total, has_more: end < total }
    }

    /// The position of the thing in the collection, counted from 0.
    pub(crate) fn place_of(&self, table: &str, series: Series, index: u64) -> Option<u64> {
        if !self.holds(table, series, index) {
            return None;
        }
        let Some(table) = self.tables.get(table) else {
            return series.place_of(index);
        };
        if let Some(order) = table.place.get(&index) {
            return Some(table.order.range(order + 1..).count() as u64);
        }
        let generated = series.place_of(index)?;
        let hidden = table.hidden_places(series);
        let before = hidden.iter().filter(|place| **place < generated).count() as u64;
        Some(table.order.len() as u64 + generated - before)
    }

    fn table(&mut self, name: &str) -> &mut OverlayTable {
        if !self.tables.contains_key(name) {
            self.tables.insert(name.to_owned(), OverlayTable::default());
        }
        self.tables.entry(name.to_owned()).or_default()
    }
}

impl OverlayTable {
    /// The positions in the series of hidden things, ascending.
    fn hidden_places(&self, series: Series) -> Vec<u64> {
        let mut places: Vec<u64> =
            self.hidden.iter().filter_map(|index| series.place_of(*index)).collect();
        places.sort_unstable();
        places
    }

    fn slice(&self, series: Series, offset: u64, end: u64) -> Vec<u64> {
        let ahead = self.order.len() as u64;
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        let take = usize::try_from(end.min(ahead).saturating_sub(offset)).unwrap_or(0);
        let put = self.order.values().rev().skip(skip).take(take).copied();
        let hidden = self.hidden_places(series);
        let generated = (offset.max(ahead)..end)
            .filter_map(|place| series.at(past_hidden(&hidden, place - ahead)));
        put.chain(generated).collect()
    }
}

/// The position in the series of the `nth` thing that is not hidden.
fn past_hidden(hidden: &[u64], nth: u64) -> u64 {
    hidden.iter().fold(nth, |place, hidden| if *hidden <= place { place + 1 } else { place })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEN: Series = Series::all(10);

    fn pages(overlay: &Overlay, limit: u64) -> Vec<u64> {
        let mut all = Vec::new();
        loop {
            let page = overlay.page("things", TEN, all.len() as u64, limit);
            assert_eq!(page.total, overlay.count("things", TEN));
            all.extend(page.indexes);
            if !page.has_more {
                return all;
            }
        }
    }

    #[test]
    fn pages_of_any_size_list_each_thing_once_in_the_same_order() {
        let mut overlay = Overlay::default();
        assert_eq!(pages(&overlay, 3), (0..10).collect::<Vec<_>>());

        overlay.take("things", 0);
        overlay.take("things", 4);
        overlay.take("things", 5);
        let made = overlay.create("things", Map::new());
        overlay.put("things", 7);

        let expected = vec![7, made, 1, 2, 3, 6, 8, 9];
        for limit in 1..12 {
            assert_eq!(pages(&overlay, limit), expected, "pages of {limit}");
        }
        for (place, index) in expected.iter().enumerate() {
            assert_eq!(overlay.place_of("things", TEN, *index), Some(place as u64));
        }
        assert_eq!(overlay.place_of("things", TEN, 4), None);
    }

    #[test]
    fn a_collection_can_be_rearranged_and_then_changed() {
        let mut overlay = Overlay::default();
        overlay.take("things", 3);

        overlay.arrange("things", TEN, &[9, 3, 12, 0]);

        assert_eq!(pages(&overlay, 3), [9, 3, 12, 0]);
        assert_eq!(overlay.place_of("things", TEN, 12), Some(2));
        assert!(!overlay.holds("things", TEN, 5));
        overlay.put("things", 5);
        overlay.take("things", 9);
        assert_eq!(pages(&overlay, 3), [5, 3, 12, 0]);
    }

    #[test]
    fn existing_things_keep_their_position() {
        let mut overlay = Overlay::default();
        overlay.take("things", 3);

        for index in [3, 5, 3] {
            overlay.put_new("things", TEN, index);
        }

        assert_eq!(pages(&overlay, 10), [3, 0, 1, 2, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn removed_things_can_be_added_again() {
        let mut overlay = Overlay::default();
        overlay.take("things", 3);
        assert!(!overlay.holds("things", TEN, 3));

        overlay.put("things", 3);

        assert!(overlay.holds("things", TEN, 3));
        assert_eq!(overlay.count("things", TEN), 10);
    }

    #[test]
    fn set_fields_override_generated_ones() {
        let mut overlay = Overlay::default();
        let fields = json!({"name": "new"});
        overlay.set("things", 1, fields.as_object().unwrap().clone());

        let shown = overlay.over("things", 1, json!({"id": 1, "name": "old"}));

        assert_eq!(shown, json!({"id": 1, "name": "new"}));
        assert_eq!(overlay.over("things", 2, json!({"id": 2})), json!({"id": 2}));
    }
}
