//! How serving ends: running requests finish, and nothing new begins.

use std::time::Duration;

use http::Response;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use transport::{ArrivedRequest, ListenerSettings, RequestHandler};

use crate::support::{Client, echo, run, settings};

/// A handler that hands the test what makes it respond.
fn waiting() -> (impl RequestHandler, mpsc::UnboundedReceiver<oneshot::Sender<()>>) {
    let (asked, was_asked) = mpsc::unbounded_channel();
    let handler = move |_: ArrivedRequest| {
        let (respond, response) = oneshot::channel::<()>();
        asked.send(respond).unwrap();
        async move {
            response.await.ok();
            Response::new("done".to_owned())
        }
    };
    (handler, was_asked)
}

#[tokio::test]
async fn a_running_request_is_answered_after_the_command_to_stop_and_its_connection_closed() {
    let (handler, mut asked) = waiting();
    let mut listener = run(&settings(), handler);
    let address = listener.address();
    let idle = Client::connect(address).await;
    let mut client = Client::connect(address).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let respond = asked.recv().await.unwrap();

    let draining = async {
        listener.drain().await;
        listener.limits().counts().open
    };
    let using = async {
        // Only the listener's end closes an idle connection so early.
        assert!(idle.rest().await.is_empty());
        respond.send(()).unwrap();
        let response = client.response().await;
        assert!(response.ends_with("done"), "{response}");
        assert!(client.rest().await.is_empty());
    };
    let (open, ()) = tokio::join!(draining, using);

    assert_eq!(open, 0);
    assert!(TcpStream::connect(address).await.is_err(), "nothing listens any more");
    listener.stop().await;
}

#[tokio::test]
async fn a_request_that_never_ends_is_cut_off_when_its_time_is_over() {
    let (handler, mut asked) = waiting();
    let settings = ListenerSettings { drain_timeout: Duration::from_millis(20), ..settings() };
    let mut listener = run(&settings, handler);
    let mut client = Client::connect(listener.address()).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut respond = asked.recv().await.unwrap();

    listener.drain().await;

    assert!(client.rest().await.is_empty());
    respond.closed().await;
    let counts = listener.limits().counts();
    assert_eq!((counts.open, counts.closed_idle, counts.closed_stalled), (0, 0, 0));
    listener.stop().await;
}

#[tokio::test]
async fn a_dropped_listener_ends_without_anybody_waiting() {
    let listener = run(&settings(), echo());
    let mut client = Client::connect(listener.address()).await;
    assert!(client.get("/before").await.ends_with("/before"));

    drop(listener);

    assert!(client.rest().await.is_empty());
}

#[tokio::test]
async fn work_of_a_core_goes_on_after_its_connections_until_the_listener_is_stopped() {
    let (said, mut heard) = mpsc::unbounded_channel();
    let (go_on, goes_on) = oneshot::channel::<()>();
    let goes_on = std::sync::Arc::new(std::sync::Mutex::new(Some(goes_on)));
    let mut listener = run(&settings(), move |_: ArrivedRequest| {
        let (said, goes_on) = (said.clone(), goes_on.lock().unwrap().take().unwrap());
        let runtime = tokio::runtime::Handle::current();
        runtime.spawn(async move {
            goes_on.await.unwrap();
            said.send("settled").unwrap();
            std::future::pending::<()>().await;
        });
        async { Response::new(String::new()) }
    });
    let mut client = Client::connect(listener.address()).await;
    drop(client.get("/").await);

    listener.drain().await;
    go_on.send(()).unwrap();

    assert_eq!(heard.recv().await, Some("settled"));
    listener.stop().await;
    assert_eq!(heard.recv().await, None, "the core's runtime ended and dropped its tasks");
}

#[tokio::test]
async fn a_listener_without_connections_stops_and_may_be_drained_twice() {
    let mut listener = run(&ListenerSettings { cores: 2, ..settings() }, echo());

    listener.drain().await;
    listener.drain().await;
    listener.stop().await;
}
