//! Objects that the service does not use, described by data in `declared.json`: which parameters
//! they are created from, what of them changes, and which events follow.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::api_call::ApiCall;
use super::fields::{at, set, text, whole};
use super::form::{FormParams, name};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{events, lists, render};

/// All of them, by path.
static DECLARED: LazyLock<BTreeMap<String, DeclaredResource>> =
    LazyLock::new(|| serde_json::from_str(include_str!("declared.json")).unwrap_or_default());

/// A kind of object.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeclaredResource {
    object: String,
    prefix: String,
    /// Where it is created, if not at its own path.
    create_at: Option<String>,
    /// The object in the path of creating it.
    parent: Option<DeclaredParent>,
    /// The parameters of creating one: `text`, `integer`, `number`, `boolean` or the id of a kind
    /// (`id:customer`); with a `!` if it is required.
    params: BTreeMap<String, String>,
    /// Values of a new one.
    fields: Map<String, Value>,
    /// Values that it has once it has been processed, which is immediately.
    #[serde(default)]
    becomes: Map<String, Value>,
    /// The parameters that can be changed, besides metadata. Without it, nothing changes.
    updates: Option<Vec<String>>,
    events: DeclaredEvents,
    #[serde(default)]
    actions: BTreeMap<String, DeclaredAction>,
}

/// An object in the path.
#[derive(Debug, Deserialize)]
struct DeclaredParent {
    field: String,
    object: String,
    sums: Option<DeclaredSum>,
}

/// An amount that is added up in the parent.
#[derive(Debug, Deserialize)]
struct DeclaredSum {
    of: String,
    into: String,
    at_most: String,
    /// The field that says that all of it is used.
    all: String,
}

/// Which events follow what.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DeclaredEvents {
    create: Vec<String>,
    /// About the object in the path.
    create_of_parent: Vec<String>,
    /// Only if this parameter is given.
    create_with: BTreeMap<String, Vec<String>>,
    update: Vec<String>,
    delete: Vec<String>,
}

/// A step from one status to another.
#[derive(Debug, Deserialize)]
struct DeclaredAction {
    from: Vec<String>,
    set: Map<String, Value>,
    events: Vec<String>,
}

/// What a request does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeclaredStep {
    Create,
    Retrieve,
    List,
    Update,
    Delete,
    Act(&'static str),
}

/// A request for a declared object: method, path below `/v1/`, and what it does.
#[derive(Debug)]
pub(crate) struct DeclaredRoute {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    resource: &'static DeclaredResource,
    base: &'static str,
    step: DeclaredStep,
}

/// The routes of all declared objects.
pub(crate) fn routes() -> Vec<DeclaredRoute> {
    let mut all = Vec::new();
    for (base, resource) in &*DECLARED {
        let mut add = |method, path: String, step| {
            all.push(DeclaredRoute { method, path, resource, base, step });
        };
        let create_at = resource.create_at.clone().unwrap_or_else(|| base.clone());
        add("POST", create_at, DeclaredStep::Create);
        add("GET", base.clone(), DeclaredStep::List);
        add("GET", format!("{base}/{{}}"), DeclaredStep::Retrieve);
        if resource.updates.is_some() {
            add("POST", format!("{base}/{{}}"), DeclaredStep::Update);
        }
        if !resource.events.delete.is_empty() {
            add("DELETE", format!("{base}/{{}}"), DeclaredStep::Delete);
        }
        for action in resource.actions.keys() {
            add("POST", format!("{base}/{{}}/{action}"), DeclaredStep::Act(action));
        }
    }
    all
}

impl DeclaredRoute {
    /// The patterns of the parameters that it takes.
    pub(crate) fn patterns(&self) -> Vec<String> {
        let metadata = || ["metadata?", "metadata.*?"].map(str::to_owned);
        match self.step {
            DeclaredStep::Create => {
                self.resource.params.keys().cloned().chain(metadata()).collect()
            }
            DeclaredStep::Update => {
                self.resource.updates.iter().flatten().cloned().chain(metadata()).collect()
            }
            DeclaredStep::List => lists::PARAMS.map(str::to_owned).to_vec(),
            DeclaredStep::Retrieve | DeclaredStep::Delete | DeclaredStep::Act(_) => Vec::new(),
        }
    }

    /// Carries the request out.
    pub(crate) fn handle(&self, call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
        let resource = self.resource;
        match self.step {
            DeclaredStep::Create => resource.create(call),
            DeclaredStep::List => {
                lists::page(call, &resource.object, &format!("/v1/{}", self.base), |_| true)
            }
            DeclaredStep::Retrieve => resource.found(call).cloned(),
            DeclaredStep::Update => resource.update(call),
            DeclaredStep::Delete => resource.delete(call),
            DeclaredStep::Act(action) => resource.act(call, action),
        }
    }
}

impl DeclaredResource {
    fn found<'a>(&self, call: &'a ApiCall<'_>) -> Result<&'a Value, ApiError> {
        call.store.find(&self.object, &call.id(0), "id")
    }

    fn create(&self, call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
        let id = call.store.new_id(&self.prefix);
        let mut made = json!({"id": id, "object": self.object, "created": call.store.now});
        for (field, value) in &self.fields {
            set(&mut made, field, value.clone());
        }
        for (path, kind) in &self.params {
            take(call, &mut made, path, kind)?;
        }
        set(&mut made, "metadata", render::metadata(call.params, "metadata", &Value::Null)?);
        let parent = self.parent_of(call, &mut made)?;
        for (field, value) in &self.becomes {
            set(&mut made, field, value.clone());
        }
        call.store.put(listed(made));
        emit_all(call.store, &self.events.create, &id);
        for (path, kinds) in &self.events.create_with {
            if call.params.has(path) {
                emit_all(call.store, kinds, &id);
            }
        }
        if let Some(parent) = parent {
            emit_all(call.store, &self.events.create_of_parent, &parent);
        }
        call.store.find(&self.object, &id, "id").cloned()
    }

    /// The id of the object in the path, which the new one names, and in which amounts add up.
    fn parent_of(
        &self,
        call: &mut ApiCall<'_>,
        made: &mut Value,
    ) -> Result<Option<String>, ApiError> {
        let Some(declared) = &self.parent else { return Ok(None) };
        let id = call.id(0);
        let parent = call.store.find(&declared.object, &id, "id")?;
        set(made, &declared.field, id.as_str());
        if let Some(sum) = &declared.sums {
            let used = whole(parent, &sum.into) + whole(made, &sum.of);
            let most = whole(parent, &sum.at_most);
            if used > most || whole(made, &sum.of) < 1 {
                let message = format!("This value must be at least 1 and leave {used} of {most}.");
                return Err(ApiError::param(&sum.of, message));
            }
            call.store.change(&id, |parent| {
                set(parent, &sum.into, used);
                set(parent, &sum.all, used == most);
            });
        }
        Ok(Some(id))
    }

    fn update(&self, call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
        let before = self.found(call)?.clone();
        let mut changed = before.clone();
        for path in self.updates.iter().flatten() {
            let kind = self.params.get(path).map_or("text", |kind| kind.trim_end_matches('!'));
            if let Some(value) = typed(call.store, call.params, path, kind)? {
                set(&mut changed, path, value);
            }
        }
        let metadata = render::metadata(call.params, "metadata", at(&before, "metadata"))?;
        set(&mut changed, "metadata", metadata);
        call.store.put(changed);
        for kind in &self.events.update {
            events::emit_changed(call.store, kind, &before);
        }
        self.found(call).cloned()
    }

    fn delete(&self, call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
        let id = text(self.found(call)?, "id").to_owned();
        emit_all(call.store, &self.events.delete, &id);
        call.store.remove(&id);
        Ok(json!({"id": id, "object": self.object, "deleted": true}))
    }

    fn act(&self, call: &mut ApiCall<'_>, name: &str) -> Result<Value, ApiError> {
        let found = self.found(call)?;
        let (id, status) = (text(found, "id").to_owned(), text(found, "status").to_owned());
        let Some(action) = self.actions.get(name) else { return Ok(found.clone()) };
        if !action.from.contains(&status) {
            let message = format!("You cannot {name} this {}: it is {status}.", self.object);
            return Err(ApiError::invalid(message));
        }
        call.store.change(&id, |object| {
            for (field, value) in &action.set {
                set(object, field, value.clone());
            }
        });
        emit_all(call.store, &action.events, &id);
        self.found(call).cloned()
    }
}

fn emit_all(store: &mut ObjectStore, kinds: &[String], id: &str) {
    for kind in kinds {
        events::emit(store, kind, id);
    }
}

/// Takes a parameter into a new object. A `*` stands for the places of a list.
fn take(call: &ApiCall<'_>, made: &mut Value, path: &str, kind: &str) -> Result<(), ApiError> {
    let (kind, is_required) = kind.strip_suffix('!').map_or((kind, false), |kind| (kind, true));
    let places = match path.split_once(".*.") {
        None => vec![path.to_owned()],
        Some((list, field)) => {
            let names = call.params.names(list);
            if names.is_empty() && is_required {
                return Err(ApiError::missing(&name(list)));
            }
            names.iter().map(|place| format!("{list}.{place}.{field}")).collect()
        }
    };
    for place in places {
        if is_required {
            call.params.required(&place)?;
        }
        if let Some(value) = typed(call.store, call.params, &place, kind)? {
            set(made, &place, value);
        }
    }
    Ok(())
}

/// A parameter's value, if it is given.
fn typed(
    store: &ObjectStore,
    params: &FormParams,
    path: &str,
    kind: &str,
) -> Result<Option<Value>, ApiError> {
    let given = params.text(path);
    Ok(match kind {
        "integer" => params.integer(path)?.map(Value::from),
        "boolean" => params.flag(path)?.map(Value::from),
        "number" => {
            let number = given.map(|given| given.parse::<f64>().map(Value::from));
            let refuse = |_| ApiError::param(&name(path), "Invalid decimal");
            number.transpose().map_err(refuse)?
        }
        kind => {
            if let (Some(of), Some(id)) = (kind.strip_prefix("id:"), given) {
                store.find(of, id, &name(path))?;
            }
            given.map(Value::from)
        }
    })
}

/// The same, with lists where all names in an object are numbers.
pub(crate) fn listed(value: Value) -> Value {
    let Value::Object(map) = value else { return value };
    let is_list = !map.is_empty() && map.keys().all(|key| key.parse::<usize>().is_ok());
    if !is_list {
        return map.into_iter().map(|(key, inner)| (key, listed(inner))).collect();
    }
    let mut all: Vec<(usize, Value)> = map
        .into_iter()
        .map(|(key, inner)| (key.parse().unwrap_or_default(), listed(inner)))
        .collect();
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, inner)| inner).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_valid() {
        let read: Result<BTreeMap<String, DeclaredResource>, _> =
            serde_json::from_str(include_str!("declared.json"));

        assert!(read.is_ok_and(|read| !read.is_empty()));
    }

    #[test]
    fn numbered_names_become_lists() {
        let listed = listed(json!({"lines": {"10": {"a": 2}, "2": {"a": 1}}, "b": {"1x": 0}}));

        assert_eq!(listed, json!({"lines": [{"a": 1}, {"a": 2}], "b": {"1x": 0}}));
    }
}
