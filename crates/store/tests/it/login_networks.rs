//! Networks of logins, which earlier versions stored.

use store::{login_networks, testing};

use crate::support::NOON;
use crate::whole_customer::whole_customer;

#[tokio::test]
async fn networks_are_deleted_90_days_after_their_last_login() {
    let store = testing::store().await;
    whole_customer(&store, "countess").await;
    let late = NOON.plus_seconds(90 * 86_400);

    assert_eq!(login_networks::delete_old(&store, late.plus_seconds(-1)).await.unwrap(), 0);
    assert_eq!(login_networks::delete_old(&store, late).await.unwrap(), 3);
}
