//! Customers that registered themselves, know their password and log in.

use serde_json::json;

use super::app::{Customer, TestApp};
use super::client::{Client, Reply};

/// The password of every member.
pub const PASSWORD: &str = "correct horse battery";

/// A customer with a password and a first key of full scope.
pub struct Member {
    /// The customer.
    pub customer: Customer,
    /// Its email address.
    pub email: String,
}

impl TestApp {
    /// A client that says, where the test trusts proxies, that it came over https.
    fn over_https(&self) -> Client {
        self.anonymous().with("x-forwarded-proto", "https")
    }

    /// Registers a customer.
    pub async fn member(&self, email: &str) -> Member {
        let form = json!({"email": email, "password": PASSWORD});
        let reply = self.over_https().post("/v1/auth/register", &form).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        let made = reply.json();
        let text = |pointer: &str| made.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let customer = Customer {
            id: text("/customer/customer_id"),
            key_id: text("/key_id"),
            key: text("/api_key"),
        };
        Member { customer, email: email.to_owned() }
    }

    /// Registers a customer, which confirms its address with its key.
    pub async fn confirmed(&self, email: &str) -> Member {
        let member = self.member(email).await;
        self.confirm(&member.customer.key, email).await;
        member
    }

    /// Uses the newest link that was emailed to an address, with a key of its customer.
    pub async fn confirm(&self, key: &str, email: &str) -> Reply {
        let link = json!({"token": self.mailed_token(email).await});
        let reply = self.over_https().with_key(key).post("/v1/auth/email/verify", &link).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply
    }

    /// Grants credits to a customer, as staff do.
    pub async fn grant(&self, customer: &Customer, credits: i64) {
        let grant = json!({
            "command": "grant_credits", "customer": customer.id, "credits": credits,
            "reference": "for a test",
        });
        self.staff(grant).await;
    }

    /// Grants further credits to a customer, as staff do.
    pub async fn grant_more(&self, customer: &Customer, credits: i64) {
        let grant = json!({
            "command": "grant_credits", "customer": customer.id, "credits": credits,
            "reference": format!("{credits} more"),
        });
        self.staff(grant).await;
    }

    /// The response to a login.
    pub async fn try_log_in(&self, email: &str, password: &str) -> Reply {
        let form = json!({"email": email, "password": password});
        self.anonymous().post("/v1/auth/login", &form).await
    }

    /// The cookie of a new session of a member.
    pub async fn session(&self, member: &Member) -> String {
        let reply = self.try_log_in(&member.email, PASSWORD).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.cookie()
    }

    /// A client with a new session of the member, on a page of the service.
    pub async fn signed_in(&self, member: &Member) -> Client {
        self.anonymous().with_session(&self.session(member).await)
    }
}
