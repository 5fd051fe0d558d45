//! Captures the log of this process as fields. Tests run concurrently and find their lines by the
//! request's id.

use std::fmt::Debug;
use std::sync::OnceLock;

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The crates whose lines are captured.
const OURS: [&str; 12] = [
    "accounts", "api", "billing", "console", "emails", "exports", "gateway", "identity", "jobs",
    "node", "runtime", "web",
];

/// The lines so far: each with its fields, its `level` and its `message`.
static LINES: Mutex<Vec<Map<String, Value>>> = Mutex::new(Vec::new());

/// Captures all lines of these crates from now on.
pub fn catch() {
    static CAUGHT: OnceLock<()> = OnceLock::new();
    CAUGHT.get_or_init(|| tracing::subscriber::set_global_default(Catcher).unwrap());
}

/// Lets the code panic that logs this message next.
pub fn panic_at(message: &'static str) {
    *PANIC_AT.lock() = Some(message);
}

static PANIC_AT: Mutex<Option<&str>> = Mutex::new(None);

/// The final lines of the request with this id, oldest first.
pub fn lines_of(request_id: &str) -> Vec<Map<String, Value>> {
    let is_end = |line: &&Map<String, Value>| {
        line["message"] == "call ended" || line["message"] == "request ended"
    };
    let lines = LINES.lock();
    let own = lines.iter().filter(|line| line.get("request.id").is_some_and(|id| id == request_id));
    own.filter(is_end).cloned().collect()
}

/// Everything that was logged, as text.
pub fn everything() -> String {
    let lines = LINES.lock();
    lines.iter().map(|line| Value::from(line.clone()).to_string() + "\n").collect()
}

struct Catcher;

impl Subscriber for Catcher {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let own = metadata.target().split("::").next().unwrap_or_default();
        OURS.contains(&own)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        fields.0.insert("level".to_owned(), event.metadata().level().as_str().into());
        let message = fields.0.get("message").cloned();
        LINES.lock().push(fields.0);
        let is_awaited = |awaited: &mut &str| message.is_some_and(|known| known == *awaited);
        let reached = PANIC_AT.lock().take_if(is_awaited);
        assert!(reached.is_none(), "made for the test, at {reached:?}");
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}
