//! Events: hints that an object changed. What is in them is not believed; the object is read again.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::or_default;

/// One event, in the version that its endpoint was made with.
#[derive(Debug, Clone, Deserialize)]
pub struct ProcessorEvent {
    /// `evt_…`; the same when it is delivered again.
    pub id: String,
    /// Such as `payment_intent.succeeded`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The version that its object is written in.
    #[serde(default)]
    pub api_version: Option<String>,
    /// When it happened; events of one second have no order.
    #[serde(default, deserialize_with = "or_default")]
    pub created: i64,
    /// Whether it is about real money.
    #[serde(default, deserialize_with = "or_default")]
    pub livemode: bool,
    data: EventData,
}

#[derive(Debug, Clone, Deserialize)]
struct EventData {
    object: Value,
    /// The fields that changed, as they were before.
    #[serde(default, deserialize_with = "or_default")]
    previous_attributes: Value,
}

/// The longest id, and the longest name of a kind: the processor's have at most 255 characters.
const TEXT_BYTES_MAX: usize = 255;

fn is_short(text: &str) -> bool {
    !text.is_empty() && text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control)
}

/// A body that is no event.
#[derive(Debug, thiserror::Error)]
pub enum MalformedEvent {
    /// It is no JSON.
    #[error("the body is not JSON")]
    NotJson,
    /// It lacks what every event has.
    #[error(
        "the body is not an event: it must be an object with `id`, `object`, `type` and `data.object`"
    )]
    NotAnEvent,
    /// An id or a name is longer than any of the processor's.
    #[error("`{field}` of the event must have 1 to 255 characters and no control characters")]
    Length {
        /// Which field.
        field: &'static str,
    },
    /// It is an event of another kind: a thin one has no object.
    #[error("the body is an event of the kind `{0}`, not `event`")]
    OtherKind(String),
}

impl ProcessorEvent {
    /// Reads a body whose signature was checked.
    pub fn parse(body: &[u8]) -> Result<Self, MalformedEvent> {
        // A thin event has other fields, so its kind is looked at first.
        #[derive(Deserialize)]
        struct EventKind {
            object: String,
        }
        let body: Value = serde_json::from_slice(body).map_err(|_| MalformedEvent::NotJson)?;
        let no_event = |_| MalformedEvent::NotAnEvent;
        let kind = EventKind::deserialize(&body).map_err(no_event)?;
        if kind.object != "event" {
            return Err(MalformedEvent::OtherKind(kind.object.chars().take(64).collect()));
        }
        let event = Self::deserialize(&body).map_err(no_event)?;
        event.check_lengths()?;
        Ok(event)
    }

    /// What is written down of an event has a limit: all of it is short.
    fn check_lengths(&self) -> Result<(), MalformedEvent> {
        let optional = |text: Option<&str>| text.is_none_or(is_short);
        for (field, is_right) in [
            ("id", is_short(&self.id)),
            ("type", is_short(&self.kind)),
            ("api_version", optional(self.api_version.as_deref())),
            ("data.object.id", optional(self.object_id())),
            ("data.object.customer", optional(self.customer_id())),
        ] {
            if !is_right {
                return Err(MalformedEvent::Length { field });
            }
        }
        Ok(())
    }

    /// What the event is about, as it was then.
    pub fn object<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.data.object)
    }

    /// The id of what the event is about.
    pub fn object_id(&self) -> Option<&str> {
        self.data.object.get("id")?.as_str()
    }

    /// Whether the event says that this field of its object changed.
    pub fn changes(&self, field: &str) -> bool {
        self.data.previous_attributes.get(field).is_some()
    }

    /// The id of the processor's customer that it is about: the object itself, or whose it is.
    pub fn customer_id(&self) -> Option<&str> {
        let object = &self.data.object;
        if object.get("object").and_then(Value::as_str) == Some("customer") {
            return self.object_id();
        }
        let customer = object.get("customer")?;
        customer.as_str().or_else(|| customer.get("id")?.as_str())
    }

    /// The id of the payment intent that the object belongs to; none where it names none.
    pub fn payment_intent_id(&self) -> Option<&str> {
        let object = &self.data.object;
        if object.get("object").and_then(Value::as_str) == Some("payment_intent") {
            return self.object_id();
        }
        let intent = object.get("payment_intent")?;
        intent.as_str().or_else(|| intent.get("id")?.as_str())
    }

    /// The kind of what the event is about, such as `payment_intent`.
    pub fn object_kind(&self) -> Option<&str> {
        self.data.object.get("object")?.as_str()
    }
}
