//! The page before what cannot be undone: it says what will happen and what uses the thing now,
//! asks for its name or for the password where that is worth it, and names the deed on its button.

use askama::Template;
use axum::response::Response;

use crate::form::FormView;
use crate::shell::ConsoleSection;
use crate::shell::PageShell;
use crate::visitor::ConsoleVisitor;

/// The field in which the name is typed.
pub const NAME_FIELD: &str = "confirm";
/// The field of the password.
pub const PASSWORD_FIELD: &str = "current_password";

/// What a person is about to do.
#[derive(Default)]
pub struct DangerousDeed {
    /// The path that the form is sent to, and where it stands.
    pub path: String,
    /// The page that the thing is on.
    pub back_path: &'static str,
    /// The name of that page.
    pub back_word: &'static str,
    /// The thing itself.
    pub thing: String,
    /// The question: `Revoke the key “reporting”?`.
    pub question: String,
    /// What will happen, and that it cannot be undone.
    pub consequence: String,
    /// How it is used now.
    pub facts: Vec<(&'static str, String)>,
    /// Whether the name of the thing has to be typed.
    pub asks_name: bool,
    /// Whether the password has to be typed.
    pub asks_password: bool,
    /// The deed: `Revoke key`.
    pub button: &'static str,
    /// The way back: `Keep key`.
    pub keep: &'static str,
}

#[derive(Template)]
#[template(path = "console/sure.html")]
struct SurePage<'a> {
    frame: PageShell,
    deed: &'a DangerousDeed,
    form: &'a FormView,
    token: String,
    key: String,
}

impl DangerousDeed {
    /// Whether the name that was typed is the thing's.
    pub fn is_named(&self, typed: &str) -> bool {
        !self.asks_name || typed.trim() == self.thing.trim()
    }

    /// The form with what is wrong with the name.
    pub fn unnamed() -> FormView {
        FormView::default().mark(NAME_FIELD, "That isn't the name. Type it exactly as shown.")
    }

    /// Shows the page.
    pub fn show(
        &self,
        visitor: &ConsoleVisitor,
        section: ConsoleSection,
        form: &FormView,
    ) -> Response {
        let page = SurePage {
            frame: visitor.shell(section),
            deed: self,
            form,
            token: visitor.token(&self.path),
            key: visitor.new_idempotency_key(),
        };
        visitor.show(form.status(), &page)
    }
}
