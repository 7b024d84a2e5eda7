//! The published Rust client (crate ticketing 0.4.0) against our server. Only its public names are used.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use ticketing::ReleaseOutcome::{AlreadyGoneOrNotCurrent, Released};
use ticketing::{TicketBroker, TicketError};
use ticketing_interop_framed::Server;
use tokio::task::JoinSet;

const READY: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(60);
const WAIT: Duration = Duration::from_secs(60);
const NO_BUDGET: Duration = Duration::ZERO;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

async fn open(server: &Server) -> TicketBroker {
    let broker = TicketBroker::connect_loopback([server.framed_address.as_str()]);
    assert!(broker.wait_ready(READY).await, "no session came up");
    broker
}

async fn take(broker: &TicketBroker, key: &str) -> ticketing::Ticket {
    broker.acquire(key, Duration::ZERO, LEASE, NO_BUDGET).await.unwrap()
}

async fn is_free(broker: &TicketBroker, key: &str) -> bool {
    match broker.acquire(key, Duration::ZERO, LEASE, NO_BUDGET).await {
        Ok(ticket) => ticket.release().await.unwrap() == Released,
        Err(TicketError::Timeout) => false,
        other => panic!("{key}: {other:?}"),
    }
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
        tokio::task::yield_now().await;
        self.value.store(value + 1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_tasks_on_thirty_two_keys_lose_no_update() {
    const TASKS: usize = 64;
    const KEYS: usize = 32;
    const ROUNDS: u64 = 100;
    let server = Server::start();
    let broker = open(&server).await;
    let counters: Arc<[Counter; KEYS]> = Arc::default();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let broker = broker.clone();
        let counters = Arc::clone(&counters);
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let key = format!("counter-{}", task % KEYS);
                let ticket = broker.acquire(&key, WAIT, LEASE, seconds(1)).await.unwrap();
                counters[task % KEYS].add_one(ticket.token()).await;
                assert_eq!(ticket.release().await.unwrap(), Released);
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

/// Sets that overlap, single keys among them, clients of both wires: each key's counter counts exactly.
#[tokio::test(flavor = "multi_thread")]
async fn sets_single_keys_and_both_wires_exclude_each_other() {
    const TASKS: usize = 24;
    const KEYS: usize = 6;
    const ROUNDS: usize = 40;
    let server = Server::start();
    let broker = open(&server).await;
    let line = ticketing_of_wire_2::TicketBroker::connect([server.line_address.as_str()]);
    assert!(line.wait_ready(READY).await);
    let counters: Arc<[Counter; KEYS]> = Arc::default();
    let expected: Arc<[AtomicU64; KEYS]> = Arc::default();
    let names: Vec<String> = (0..KEYS).map(|key| format!("shared-{key}")).collect();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (broker, line, names) = (broker.clone(), line.clone(), names.clone());
        let (counters, expected) = (Arc::clone(&counters), Arc::clone(&expected));
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                let first = (task * 5 + round * 7) % KEYS;
                if task % 3 == 0 {
                    let ticket = line.acquire(&names[first], WAIT, LEASE).await.unwrap();
                    counters[first].add_one(ticket.token()).await;
                    expected[first].fetch_add(1, Ordering::SeqCst);
                    assert!(ticket.release().await.unwrap());
                    continue;
                }
                if task % 3 == 1 {
                    let ticket = broker.acquire(&names[first], WAIT, LEASE, NO_BUDGET).await.unwrap();
                    counters[first].add_one(ticket.token()).await;
                    expected[first].fetch_add(1, Ordering::SeqCst);
                    assert_eq!(ticket.release().await.unwrap(), Released);
                    continue;
                }
                let mut wanted: Vec<usize> = (0..2 + round % 3).map(|n| (first + n * 2) % KEYS).collect();
                wanted.sort_unstable();
                wanted.dedup();
                let keys: Vec<&str> = wanted.iter().map(|&key| names[key].as_str()).collect();
                let tickets = broker.acquire_set(&keys, WAIT, LEASE, NO_BUDGET).await.unwrap();
                for &key in &wanted {
                    counters[key].add_one(tickets.token()).await;
                    expected[key].fetch_add(1, Ordering::SeqCst);
                }
                assert_eq!(tickets.release().await.unwrap(), Released);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for (counter, expected) in counters.iter().zip(expected.iter()) {
        assert_eq!(counter.value.load(Ordering::SeqCst), expected.load(Ordering::SeqCst));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_held_and_released_whole() {
    let server = Server::start();
    let broker = open(&server).await;
    let set = broker.acquire_set(&["b", "a", "c"], seconds(1), LEASE, NO_BUDGET).await.unwrap();
    for key in ["a", "b", "c"] {
        assert!(!is_free(&broker, key).await, "{key} is free");
    }
    assert!(is_free(&broker, "d").await);
    // Nothing of a set that cannot be had whole stays behind.
    let overlapping = broker.acquire_set(&["c", "d"], Duration::ZERO, LEASE, NO_BUDGET).await;
    assert!(matches!(overlapping, Err(TicketError::Timeout)), "{overlapping:?}");
    assert!(is_free(&broker, "d").await);
    assert_eq!(set.release().await.unwrap(), Released);
    for key in ["a", "b", "c"] {
        assert!(is_free(&broker, key).await, "{key} is held");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_of_one_and_of_sixteen_keys() {
    let server = Server::start();
    let broker = open(&server).await;
    let one = broker.acquire_set(&["only"], Duration::ZERO, LEASE, NO_BUDGET).await.unwrap();
    assert!(!is_free(&broker, "only").await);
    assert_eq!(one.release().await.unwrap(), Released);
    let names: Vec<String> = (0..16).map(|n| format!("{}{n:02}", "k".repeat(126))).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let all = broker.acquire_set(&keys, Duration::ZERO, LEASE, NO_BUDGET).await.unwrap();
    assert!(!is_free(&broker, keys[15]).await);
    assert_eq!(all.release().await.unwrap(), Released);
    assert!(is_free(&broker, keys[15]).await);
}

/// Its deadline is the rounded wait itself; what comes later it calls Indeterminate, and closes the
/// session with all its neighbours.
#[tokio::test(flavor = "multi_thread")]
async fn waits_end_in_timeout_and_leave_the_neighbours_alone() {
    let server = Server::start();
    let broker = open(&server).await;
    let held = broker.acquire_set(&["busy", "other"], Duration::ZERO, LEASE, NO_BUDGET).await.unwrap();
    let neighbour = tokio::spawn({
        let broker = broker.clone();
        async move { broker.acquire("busy", WAIT, LEASE, NO_BUDGET).await }
    });
    let mut waits = JoinSet::new();
    for n in 0..40u64 {
        let broker = broker.clone();
        waits.spawn(async move {
            let wait = match n % 4 {
                0 => Duration::ZERO,
                1 => Duration::from_millis(300),
                2 => seconds(1),
                _ => seconds(2),
            };
            let outcome = if n % 8 < 4 {
                broker.acquire("busy", wait, LEASE, NO_BUDGET).await.err()
            } else {
                broker.acquire_set(&["busy", "free"], wait, LEASE, NO_BUDGET).await.err()
            };
            (wait, outcome)
        });
    }
    while let Some(done) = waits.join_next().await {
        let (wait, outcome) = done.unwrap();
        assert!(matches!(outcome, Some(TicketError::Timeout)), "wait {wait:?} ended in {outcome:?}");
    }
    assert_eq!(held.release().await.unwrap(), Released);
    assert_eq!(neighbour.await.unwrap().unwrap().release().await.unwrap(), Released);
    assert!(is_free(&broker, "free").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_busy_at_once() {
    let server = Server::with(&["--max-waiters-per-key", "1"], None);
    let broker = open(&server).await;
    let held = take(&broker, "k").await;
    let waiting = tokio::spawn({
        let broker = broker.clone();
        async move {
            // The probe below may have come to the one place first: then once more.
            loop {
                match broker.acquire("k", WAIT, LEASE, NO_BUDGET).await {
                    Err(TicketError::Busy) => tokio::time::sleep(Duration::from_millis(10)).await,
                    other => return other,
                }
            }
        }
    });
    let began = Instant::now();
    loop {
        // The one place is taken as soon as the task above has come to it; a probe that was first
        // gives it up again and leaves it time.
        match broker.acquire("k", seconds(1), LEASE, NO_BUDGET).await {
            Err(TicketError::Busy) => break,
            Err(TicketError::Timeout) if began.elapsed() < READY => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            other => panic!("{other:?}"),
        }
    }
    let set = broker.acquire_set(&["j", "k"], WAIT, LEASE, NO_BUDGET).await;
    assert!(matches!(set, Err(TicketError::Busy)), "{set:?}");
    assert!(is_free(&broker, "j").await);
    assert_eq!(held.release().await.unwrap(), Released);
    assert_eq!(waiting.await.unwrap().unwrap().release().await.unwrap(), Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_ticket_and_a_dropped_set_are_released() {
    let server = Server::start();
    let broker = open(&server).await;
    drop(take(&broker, "single").await);
    drop(broker.acquire_set(&["x", "y"], Duration::ZERO, LEASE, NO_BUDGET).await.unwrap());
    for key in ["single", "x", "y"] {
        broker.acquire(key, WAIT, LEASE, NO_BUDGET).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn release_of_an_expired_ticket_is_not_current() {
    let server = Server::start();
    let broker = open(&server).await;
    let expired = broker.acquire("short", Duration::ZERO, seconds(1), NO_BUDGET).await.unwrap();
    let expired_set = broker.acquire_set(&["s1", "s2"], Duration::ZERO, seconds(1), NO_BUDGET).await.unwrap();
    let follower = broker.acquire("short", WAIT, LEASE, NO_BUDGET).await.unwrap(); // by the end of the lease
    assert!(follower.token() > expired.token());
    let follower_of_set = broker.acquire("s2", WAIT, LEASE, NO_BUDGET).await.unwrap();
    assert_eq!(expired.release().await.unwrap(), AlreadyGoneOrNotCurrent);
    assert_eq!(expired_set.release().await.unwrap(), AlreadyGoneOrNotCurrent);
    assert!(!is_free(&broker, "short").await);
    assert_eq!(follower.release().await.unwrap(), Released);
    assert_eq!(follower_of_set.release().await.unwrap(), Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_broker_refuses_and_its_waiter_leaves_the_queue() {
    let server = Server::start();
    let broker = open(&server).await;
    let other = open(&server).await;
    let held = take(&other, "k").await;
    let waiting = tokio::spawn({
        let broker = broker.clone();
        async move { broker.acquire("k", WAIT, LEASE, NO_BUDGET).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    broker.close().await;
    assert!(waiting.await.unwrap().is_err());
    assert!(matches!(broker.acquire("k", WAIT, LEASE, NO_BUDGET).await, Err(TicketError::Closed)));
    assert_eq!(held.release().await.unwrap(), Released);
    let next = other.acquire("k", WAIT, LEASE, NO_BUDGET).await.unwrap();
    assert_eq!(next.release().await.unwrap(), Released);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_comes_back_after_a_restart_of_the_server() {
    let mut server = Server::start();
    let broker = open(&server).await;
    let mut last = 0;
    for round in 0..3 {
        let before = take(&broker, "k").await;
        assert!(before.token() > last, "round {round}: tokens fell");
        last = before.token();
        server.restart();
        let after = broker.acquire_set(&["k", "l"], WAIT, LEASE, NO_BUDGET).await;
        // The session may have been lost under the very request.
        let after = match after {
            Err(TicketError::Indeterminate) => broker.acquire_set(&["k", "l"], WAIT, LEASE, NO_BUDGET).await.unwrap(),
            other => other.unwrap(),
        };
        assert!(after.token() > last, "round {round}: tokens fell over the restart");
        last = after.token();
        // The new server knows nothing of the old one's grant.
        assert_eq!(before.release().await.unwrap(), AlreadyGoneOrNotCurrent);
        assert_eq!(after.release().await.unwrap(), Released);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn right_token_is_served_and_wrong_one_is_refused() {
    let server = Server::with(&[], Some("a-long-enough-secret"));
    let connect = |token: &str| {
        TicketBroker::builder().addrs([server.framed_address.as_str()]).token(token).connect().unwrap()
    };
    let right = connect("a-long-enough-secret");
    let wrong = connect("another-secret-of-that-length");
    assert!(right.wait_ready(READY).await);
    take(&right, "guarded").await.release().await.unwrap();
    let refused = wrong.acquire("guarded", WAIT, LEASE, NO_BUDGET).await;
    assert!(matches!(refused, Err(TicketError::Auth)), "{refused:?}");
    assert!(is_free(&right, "guarded").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_every_kind() {
    let server = Server::start();
    let broker = open(&server).await;
    let long = "k".repeat(128);
    for key in ["a", "with-nul\0inside", "tab\there", "열쇠", long.as_str()] {
        assert_eq!(take(&broker, key).await.release().await.unwrap(), Released, "{key:?}");
    }
}
