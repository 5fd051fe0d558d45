//! Calls of any cost. A call of one credit is a real one; others are held and charged directly by
//! the service's metering.

use std::sync::Arc;

use domain::charge::Outcome;
use domain::credits::Credits;
use domain::id::{CallId, KeyId, RequestId};
use domain::method::Method;
use domain::platform::Platform;
use store::metering::{CallResolution, Hold, HoldOutcome, HoldRefusal};

use super::world::World;

const TOO_LITTLE: &str = "402 insufficient_credits";

impl World {
    /// Spends credits, and returns the response.
    pub(super) async fn spend(&mut self, credits: i64) -> String {
        let answer = if credits == 1 {
            let path = format!("/v1/{}/native/users/me", self.account);
            let reply = self.client.get(&path).await;
            super::acts::answer_of(&reply)
        } else {
            self.meter(credits).await
        };
        self.app.settled(&self.client).await;
        answer
    }

    /// Holds and charges a call of this cost.
    async fn meter(&self, credits: i64) -> String {
        let hold = self.hold(credits).await;
        let mut reservation = match self.app.running().meter().reserve(hold).await {
            Ok(reservation) => reservation,
            Err(HoldRefusal::Insufficient { .. }) => return TOO_LITTLE.to_owned(),
            Err(refusal) => panic!("{refusal:?}"),
        };
        let durable = reservation.durable().await;
        let outcome = if durable.is_held() { Outcome::Answered } else { Outcome::NotDispatched };
        let end = CallResolution {
            call_id: reservation.call_id(),
            outcome,
            status: Some(200),
            resolved_at: self.app.clock.now(),
            duration_ms: 1,
            upstream_ms: None,
            answer: None,
            frees_key: false,
        };
        let ended = reservation.resolve_and_tell(end).await;
        match durable {
            HoldOutcome::Held { .. } => {
                assert!(ended, "the call was not charged");
                "200".to_owned()
            }
            HoldOutcome::Insufficient { .. } => TOO_LITTLE.to_owned(),
            other => panic!("{other:?}"),
        }
    }

    async fn hold(&self, credits: i64) -> Hold {
        let store = self.app.store();
        let key_id: KeyId = self.customer.key_id.parse().unwrap();
        let key = store::keys::find_by_id(store, key_id).await.unwrap().unwrap();
        let creator = self.account.parse().unwrap();
        let account = store::accounts::find(store, key.customer, &creator).await.unwrap().unwrap();
        let now = self.app.clock.now();
        let random = rand_bytes();
        Hold {
            call_id: CallId::new(now, random),
            customer: key.customer,
            key: key.id,
            key_hash: domain::key::KeySecret::parse(&self.customer.key).unwrap().hash(),
            key_version: key.version,
            account: creator,
            account_version: account.version,
            platform: Platform::ALPHA,
            method: Method::Get,
            route: Arc::from("users/me"),
            path: "users/me".to_owned(),
            cost: Credits::from_whole(credits),
            held_at: now,
            expires_at: now.plus_seconds(170),
            request_id: RequestId::new(now, random).to_string(),
            idempotency: None,
            tag: None,
        }
    }
}

/// Bytes that are unique within this process.
fn rand_bytes() -> [u8; 10] {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    bytes
}
