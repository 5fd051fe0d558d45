//! Usage: ended calls counted by key and day, and by endpoint and day, in the transaction that ends them.
//!
//! A key that is used is counted for again and again. On SQLite the writer remembers where its counts are, and adds to
//! them there without looking for them by their names.

use std::collections::{BTreeMap, HashMap};

use domain::charge;
use domain::id::{CustomerId, KeyId};
use domain::time::Timestamp;
use foldhash::{fast, quality};

use super::end::Ended;
use crate::StoreError;
use crate::parts::Part;
use crate::sql::{Kind, Row, Value};
use crate::tx::{Table, Tx};

/// A key of a customer, and a day by its number.
type KeyDay = (CustomerId, KeyId, i64);
/// That, an account, its platform, a method and a route.
type RouteDay<'a> = (KeyDay, [&'a str; 4]);

/// What ended calls add to the counts.
pub(crate) struct Counted<'a> {
    days: BTreeMap<KeyDay, Counts>,
    routes: BTreeMap<RouteDay<'a>, Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    calls: i64,
    credits: i64,
    errors: i64,
    last_at: Option<Timestamp>,
    last_status: Option<i64>,
}

/// Where counts are: SQLite's numbers of their rows, which stay the same as long as nobody else writes.
#[derive(Debug, Default)]
pub(crate) struct Places {
    days: HashMap<KeyDay, DayPlace, fast::RandomState>,
    count: usize,
}

#[derive(Debug)]
struct DayPlace {
    row: i64,
    /// By account, platform, method and route, joined.
    routes: HashMap<String, i64, quality::RandomState>,
}

impl Counts {
    fn add(&mut self, call: &Ended<'_>) {
        self.calls += 1;
        self.credits = self.credits.saturating_add(call.end.credits(call.cost));
        self.errors += i64::from(!charge::is_ok(call.end.outcome, call.end.status));
        if self.last_at.is_none_or(|last_at| last_at <= call.held_at) {
            self.last_at = Some(call.held_at);
            self.last_status = call.end.status_number();
        }
    }
}

impl<'a> Counted<'a> {
    /// Counts calls.
    pub(crate) fn of(calls: &'a [Ended<'_>]) -> Self {
        let mut counted = Self { days: BTreeMap::new(), routes: BTreeMap::new() };
        for call in calls {
            let day = (call.customer, call.key, call.held_at.day().number());
            let route = [&*call.creator_id, &*call.platform, &*call.method, &*call.route];
            counted.days.entry(day).or_default().add(call);
            counted.routes.entry((day, route)).or_default().add(call);
        }
        counted
    }

    /// What adds them: at their places where these are known, by name where not.
    pub(crate) fn parts(&self, places: &Places) -> [Part<'a>; 4] {
        let (mut days_known, mut days_new) = (Vec::new(), Table::new(DAY_KINDS));
        for (day, counts) in &self.days {
            match places.day(day) {
                Some(row) => days_known.extend(counts.of_day(row)),
                None => days_new.push(counts.named_by_day(day)),
            }
        }
        let (mut routes_known, mut routes_new) = (Vec::new(), Table::new(ROUTE_KINDS));
        let mut name = String::new();
        for (route, counts) in &self.routes {
            match places.route(route, &mut name) {
                Some(row) => routes_known.extend(counts.of_route(row)),
                None => routes_new.push(counts.named_by_route(route)),
            }
        }
        [
            Part::update(ADD_TO_DAY, DAY_COLUMNS, days_known),
            Part::over(ADD_DAY, days_new, &[]),
            Part::update(ADD_TO_ROUTE, ROUTE_COLUMNS, routes_known),
            Part::over(ADD_ROUTE, routes_new, &[]),
        ]
    }

    /// Remembers where those are that were added by name. Only on SQLite.
    pub(crate) async fn learn(&self, tx: &mut Tx, places: &mut Places) -> Result<(), StoreError> {
        let mut days = Table::new(KEY_DAY_KINDS);
        self.days
            .keys()
            .filter(|day| places.day(day).is_none())
            .for_each(|day| days.push(names_of(day)));
        let mut routes = Table::new(NAME_KINDS);
        let mut name = String::new();
        for route in self.routes.keys() {
            if places.route(route, &mut name).is_none() {
                routes.push(names_of_route(route));
            }
        }
        for row in tx.rows_over(DAY_PLACES, days).await? {
            places.learn_day(&row)?;
        }
        for row in tx.rows_over(ROUTE_PLACES, routes).await? {
            places.learn_route(&row)?;
        }
        Ok(())
    }
}

impl Places {
    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn day(&self, day: &KeyDay) -> Option<i64> {
        self.days.get(day).map(|place| place.row)
    }

    fn route(&self, (day, names): &RouteDay<'_>, joined: &mut String) -> Option<i64> {
        let routes = &self.days.get(day)?.routes;
        join(names, joined);
        routes.get(joined.as_str()).copied()
    }

    fn learn_day(&mut self, row: &Row) -> Result<(), StoreError> {
        let day = (row.parse(1, "usage_daily")?, row.parse(2, "usage_daily")?, row.int(3)?);
        let place = DayPlace { row: row.int(0)?, routes: HashMap::default() };
        self.count += usize::from(self.days.insert(day, place).is_none());
        Ok(())
    }

    fn learn_route(&mut self, row: &Row) -> Result<(), StoreError> {
        let day = (row.parse(1, "usage_routes")?, row.parse(2, "usage_routes")?, row.int(3)?);
        let Some(place) = self.days.get_mut(&day) else { return Ok(()) };
        let names = [row.text(4)?, row.text(5)?, row.text(6)?, row.text(7)?];
        let mut joined = String::new();
        join(&names.each_ref().map(String::as_str), &mut joined);
        self.count += usize::from(place.routes.insert(joined, row.int(0)?).is_none());
        Ok(())
    }
}

/// None of the names has a line break.
fn join(names: &[&str; 4], into: &mut String) {
    into.clear();
    for name in names {
        into.push_str(name);
        into.push('\n');
    }
}

fn names_of((customer, key, day): &KeyDay) -> [Value<'static>; 3] {
    [(*customer).into(), (*key).into(), (*day).into()]
}

fn names_of_route<'a>((day, names): &RouteDay<'a>) -> [Value<'a>; 7] {
    let [customer, key, day] = names_of(day);
    let [creator_id, platform, method, route] = names.map(Value::from);
    [customer, key, day, creator_id, platform, method, route]
}

impl Counts {
    fn of_day(&self, row: i64) -> [Value<'static>; 5] {
        [
            row.to_string().into(),
            self.calls.into(),
            self.credits.into(),
            (self.calls - self.errors).into(),
            self.errors.into(),
        ]
    }

    fn named_by_day(&self, day: &KeyDay) -> [Value<'static>; 7] {
        let [customer, key, number] = names_of(day);
        let ok = self.calls - self.errors;
        [
            customer,
            key,
            number,
            self.calls.into(),
            self.credits.into(),
            ok.into(),
            self.errors.into(),
        ]
    }

    fn of_route(&self, row: i64) -> [Value<'static>; 5] {
        [
            row.to_string().into(),
            self.calls.into(),
            self.errors.into(),
            self.last_status.into(),
            self.last_at.into(),
        ]
    }

    fn named_by_route<'a>(&self, route: &RouteDay<'a>) -> [Value<'a>; 11] {
        let [customer, key, day, creator_id, platform, method, name] = names_of_route(route);
        let (calls, errors) = (self.calls.into(), self.errors.into());
        let (last_status, last_at) = (self.last_status.into(), self.last_at.into());
        [
            customer,
            key,
            day,
            creator_id,
            platform,
            method,
            name,
            calls,
            errors,
            last_status,
            last_at,
        ]
    }
}

const ADD_TO_DAY: &str = "
    update usage_daily set
        calls = usage_daily.calls + {calls}, credits = usage_daily.credits + {credits},
        ok = usage_daily.ok + {ok}, errors = usage_daily.errors + {errors}
    {from} where usage_daily.rowid = {place} {returning}";

const ADD_DAY: &str = "
    insert into usage_daily (customer_id, key_id, day, calls, credits, ok, errors)
    {rows}
    on conflict (customer_id, key_id, day) do update set
        calls = usage_daily.calls + excluded.calls,
        credits = usage_daily.credits + excluded.credits,
        ok = usage_daily.ok + excluded.ok, errors = usage_daily.errors + excluded.errors";

const ADD_TO_ROUTE: &str = "
    update usage_routes set
        calls = usage_routes.calls + {calls}, errors = usage_routes.errors + {errors},
        last_status = case when {last_at} >= usage_routes.last_at
            then {last_status} else usage_routes.last_status end,
        last_at = max({last_at}, usage_routes.last_at)
    {from} where usage_routes.rowid = {place} {returning}";

const ADD_ROUTE: &str = "
    insert into usage_routes (customer_id, key_id, day, creator_id, platform, method, route, calls,
                              errors, last_status, last_at)
    {rows}
    on conflict (customer_id, key_id, day, creator_id, platform, method, route) do update set
        calls = usage_routes.calls + excluded.calls,
        errors = usage_routes.errors + excluded.errors,
        last_status = case when excluded.last_at >= usage_routes.last_at
            then excluded.last_status else usage_routes.last_status end,
        last_at = case when excluded.last_at >= usage_routes.last_at
            then excluded.last_at else usage_routes.last_at end";

const DAY_PLACES: &str = "
    with v (customer_id, key_id, day) as ({rows})
    select u.rowid, u.customer_id, u.key_id, u.day
    from v join usage_daily u
        on u.customer_id = v.customer_id and u.key_id = v.key_id and u.day = v.day";

const ROUTE_PLACES: &str = "
    with v (customer_id, key_id, day, creator_id, platform, method, route) as ({rows})
    select u.rowid, u.customer_id, u.key_id, u.day, u.creator_id, u.platform, u.method, u.route
    from v join usage_routes u
        on u.customer_id = v.customer_id and u.key_id = v.key_id and u.day = v.day
        and u.creator_id = v.creator_id and u.platform = v.platform and u.method = v.method
        and u.route = v.route";

const DAY_COLUMNS: &[(&str, Kind)] = &[
    ("place", Kind::Text),
    ("calls", Kind::Int),
    ("credits", Kind::Int),
    ("ok", Kind::Int),
    ("errors", Kind::Int),
];

const ROUTE_COLUMNS: &[(&str, Kind)] = &[
    ("place", Kind::Text),
    ("calls", Kind::Int),
    ("errors", Kind::Int),
    ("last_status", Kind::Int),
    ("last_at", Kind::Int),
];

const KEY_DAY_KINDS: &[Kind] = &[Kind::Text, Kind::Text, Kind::Int];

const DAY_KINDS: &[Kind] =
    &[Kind::Text, Kind::Text, Kind::Int, Kind::Int, Kind::Int, Kind::Int, Kind::Int];

const NAME_KINDS: &[Kind] =
    &[Kind::Text, Kind::Text, Kind::Int, Kind::Text, Kind::Text, Kind::Text, Kind::Text];

const ROUTE_KINDS: &[Kind] = &[
    Kind::Text,
    Kind::Text,
    Kind::Int,
    Kind::Text,
    Kind::Text,
    Kind::Text,
    Kind::Text,
    Kind::Int,
    Kind::Int,
    Kind::Int,
    Kind::Int,
];
