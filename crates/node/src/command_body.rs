//! Bodies of commands on the admin listener.

use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admin_access::Refused;

/// The member that says which command it is.
const TAG: &str = "command";

/// A command, or why the body is none: in words that name the member, for people.
pub(crate) struct CommandBody<T>(pub(crate) Result<T, UnreadableCommand>);

/// A body that is no command. The status is 400, 413, 415 or 422.
pub(crate) struct UnreadableCommand {
    status: StatusCode,
    error: String,
}

impl IntoResponse for UnreadableCommand {
    fn into_response(self) -> Response {
        (self.status, Json(Refused { error: self.error })).into_response()
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for CommandBody<T> {
    type Rejection = std::convert::Infallible;

    /// The body is read whoever sent it; whether the sender may send commands is checked first by
    /// the handler, which has the reason only then.
    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let sent = match Json::<Value>::from_request(request, state).await {
            Ok(Json(sent)) => sent,
            Err(refused) => {
                let (status, error) = (refused.status(), refused.body_text());
                return Ok(Self(Err(UnreadableCommand { status, error })));
            }
        };
        Ok(Self(read(&sent).map_err(|error| UnreadableCommand {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            error,
        })))
    }
}

fn read<T: DeserializeOwned>(sent: &Value) -> Result<T, String> {
    T::deserialize(sent).map_err(|error| {
        let told = error.to_string();
        match wrong_member::<T>(sent, &told) {
            Some(name) if !told.contains(&format!("`{name}`")) => format!("`{name}`: {told}"),
            _ => told,
        }
    })
}

/// The member without which the body fails otherwise or not at all. A command is one of several
/// shapes, so that the parser does not say it.
fn wrong_member<'s, T: DeserializeOwned>(sent: &'s Value, told: &str) -> Option<&'s String> {
    let members = sent.as_object()?;
    members.keys().filter(|name| *name != TAG).find(|name| {
        let mut rest = members.clone();
        rest.remove(*name);
        T::deserialize(Value::Object(rest)).err().is_none_or(|error| error.to_string() != told)
    })
}

#[cfg(test)]
mod tests {
    use operators::OperatorCommand;
    use serde_json::json;

    use super::*;

    fn told(sent: &Value) -> String {
        read::<OperatorCommand>(sent).err().unwrap_or_default()
    }

    #[test]
    fn a_wrong_member_is_named() {
        let customer = "cus_019ab3c4d5e67f8091a2b3c4d5e6f708";
        for (sent, beginning) in [
            (
                json!({"command": "suspend_customer", "customer": customer, "reason": 7}),
                "`reason`: invalid type: integer `7`",
            ),
            (
                json!({"command": "suspend_customer", "customer": customer, "reason": "a", "dry_run": "yes"}),
                "`dry_run`: invalid type: string \"yes\"",
            ),
            (json!({"command": "show_customer", "customer": "no id"}), "`customer`: "),
            (json!({"command": "show_customer"}), "missing field `customer`"),
            (json!({"command": "liability", "all": 1}), "unknown field `all`"),
            (json!({"command": "list_customers", "limit": 1.5}), "`limit`: "),
            (json!({"command": "nonsense"}), "unknown variant `nonsense`"),
            (json!({}), "missing field `command`"),
            (json!([]), "missing field `command`"),
        ] {
            let said = told(&sent);
            assert!(said.starts_with(beginning), "{sent}: {said}");
        }
        assert_eq!(told(&json!({"command": "show_customer", "customer": customer})), "");
    }
}
