//! The published Rust client (crate ticketing 0.3.0) against our server. Only its public names are used.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use ticketing::{TicketBroker, TicketError};
use ticketing_interop::Server;
use tokio::task::JoinSet;

const READY: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_secs(60);

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

async fn open(server: &Server) -> TicketBroker {
    let broker = TicketBroker::connect([server.address.as_str()]);
    assert!(broker.wait_ready(READY).await, "no session came up");
    broker
}

/// What one key guards: changed by reading, pausing and writing, so that two holders lose an update.
#[derive(Default)]
struct Counter {
    value: AtomicU64,
    last_token: AtomicU64,
}

impl Counter {
    async fn add_one(&self, token: u64) {
        let last = self.last_token.swap(token, Ordering::SeqCst);
        assert!(token > last, "a later grant has no greater token: {token} after {last}");
        let value = self.value.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_micros(200)).await;
        self.value.store(value + 1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contended_counters_lose_no_update() {
    const TASKS: usize = 64;
    const KEYS: usize = 4;
    const ROUNDS: u64 = 15;
    let server = Server::start();
    let brokers = [open(&server).await, open(&server).await, open(&server).await];
    let counters: Arc<[Counter; KEYS]> = Arc::default();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let broker = brokers[task % brokers.len()].clone();
        let counters = Arc::clone(&counters);
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let ticket = broker.acquire(&format!("counter-{}", task % KEYS), WAIT, LEASE).await.unwrap();
                counters[task % KEYS].add_one(ticket.token()).await;
                assert!(ticket.release().await.unwrap(), "a held ticket was not current");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for counter in counters.iter() {
        assert_eq!(counter.value.load(Ordering::SeqCst), TASKS as u64 * ROUNDS / KEYS as u64);
    }
}

/// The shape of the client's own benchmark: every acquire is sent before the first ends, and
/// tickets are given back by dropping them.
#[tokio::test(flavor = "multi_thread")]
async fn tens_of_thousands_of_acquires_at_once_are_all_served() {
    const KEYS: usize = 4;
    const EACH: u64 = 10_000;
    let server = Server::start();
    let broker = open(&server).await;
    let counters: Arc<[AtomicU64; KEYS]> = Arc::default();
    let mut tasks = JoinSet::new();
    for n in 0..KEYS * EACH as usize {
        let broker = broker.clone();
        let counters = Arc::clone(&counters);
        tasks.spawn(async move {
            let _ticket = broker.acquire(&format!("worker-{}", n % KEYS), seconds(200), seconds(200)).await.unwrap();
            let value = counters[n % KEYS].load(Ordering::SeqCst);
            tokio::task::yield_now().await;
            counters[n % KEYS].store(value + 1, Ordering::SeqCst);
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for counter in counters.iter() {
        assert_eq!(counter.load(Ordering::SeqCst), EACH);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_ends_in_their_timeout() {
    let server = Server::start();
    let broker = open(&server).await;
    let held = broker.acquire("busy", seconds(5), LEASE).await.unwrap();
    for wait in [Duration::ZERO, Duration::from_millis(300), seconds(1)] {
        match broker.acquire("busy", wait, LEASE).await {
            Err(TicketError::Timeout) => {}
            other => panic!("wait {wait:?} ended in {other:?}"),
        }
    }
    assert!(held.release().await.unwrap());
    // The waits were taken out of the queue: the key is free.
    assert!(broker.acquire("busy", Duration::ZERO, LEASE).await.unwrap().release().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn release_of_an_expired_ticket_is_not_current() {
    let server = Server::start();
    let broker = open(&server).await;
    let expired = broker.acquire("short", seconds(5), seconds(1)).await.unwrap();
    let follower = broker.acquire("short", WAIT, LEASE).await.unwrap(); // granted by the end of the lease
    assert!(follower.token() > expired.token());
    assert!(!expired.release().await.unwrap());
    assert!(matches!(broker.acquire("short", Duration::ZERO, LEASE).await, Err(TicketError::Timeout)));
    assert!(follower.release().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn client_goes_on_after_a_restart_on_the_same_port() {
    let first = Server::start();
    let address = first.address.clone();
    let broker = open(&first).await;
    let held = broker.acquire("restart", seconds(5), LEASE).await.unwrap();
    let waiting = tokio::spawn({
        let broker = broker.clone();
        async move { broker.acquire("restart", WAIT, LEASE).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await; // sent or not, the outcome is the same
    drop(first); // SIGKILL
    let second = Server::with(&address, None);
    assert_eq!(second.address, address);
    let follower = waiting.await.unwrap().unwrap(); // sent again by their retry
    assert!(follower.token() > held.token(), "tokens went back over a restart");
    assert!(!held.release().await.unwrap(), "the lost ticket was current");
    assert!(follower.release().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_up_to_128_bytes_of_any_script() {
    let server = Server::start();
    let broker = open(&server).await;
    for key in ["k", &"k".repeat(128), "키-잠금", &"é".repeat(64), "tab\tquote\"zero\0"] {
        assert!(broker.acquire(key, seconds(5), LEASE).await.unwrap().release().await.unwrap(), "{key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn right_token_is_served_and_wrong_one_ends_in_their_timeout() {
    let server = Server::with("127.0.0.1:0", Some("a-long-enough-secret"));
    let connect =
        |token: &str| TicketBroker::builder().addrs([server.address.as_str()]).token(token).connect().unwrap();
    let right = connect("a-long-enough-secret");
    let wrong = connect("another-secret");
    assert!(matches!(wrong.acquire("guarded", seconds(3), LEASE).await, Err(TicketError::Timeout)));
    // What the refused client sent was never granted.
    assert!(right.wait_ready(READY).await);
    assert!(right.acquire("guarded", Duration::ZERO, LEASE).await.unwrap().release().await.unwrap());
}
