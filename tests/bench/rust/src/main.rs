//! `peer line|framed ADDRESS TASKS KEYS CYCLES`: a published client (0.3.0 speaks lines, 0.4.0 frames)
//! in the cycle workload; prints one line of JSON. Task t uses key t % KEYS.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const READY: Duration = Duration::from_secs(10);
const WAIT: Duration = Duration::from_secs(20);
const LEASE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy)]
struct Plan {
    tasks: u64,
    keys: u64,
    cycles: u64,
}

fn report(mut samples: Vec<u64>, elapsed: Duration) {
    samples.sort_unstable();
    let n = samples.len();
    let seconds = elapsed.as_secs_f64();
    println!(
        "{{\"cycles\": {n}, \"seconds\": {seconds:.6}, \"cycles_per_second\": {:.0}, \"p50_ns\": {}, \"p99_ns\": {}, \"max_ns\": {}}}",
        n as f64 / seconds,
        samples[n / 2],
        samples[n * 99 / 100],
        samples[n - 1]
    );
}

macro_rules! workload {
    ($name:ident, $client:ident, $connect:ident, $released:expr $(, $budget:expr)?) => {
        async fn $name(address: &str, plan: Plan) {
            let broker = $client::TicketBroker::$connect([address]);
            assert!(broker.wait_ready(READY).await, "no session came up");
            let begun = Arc::new(AtomicU64::new(0));
            let mut tasks = JoinSet::new();
            let start = Instant::now();
            for task in 0..plan.tasks {
                let broker = broker.clone();
                let begun = Arc::clone(&begun);
                tasks.spawn(async move {
                    let key = format!("cycle-{:06}", task % plan.keys);
                    let mut samples = Vec::with_capacity((plan.cycles / plan.tasks * 2) as usize);
                    while begun.fetch_add(1, Ordering::Relaxed) < plan.cycles {
                        let start = Instant::now();
                        let ticket = broker.acquire(&key, WAIT, LEASE $(, $budget)?).await.expect("an acquire");
                        let outcome = ticket.release().await.expect("a release");
                        assert_eq!(outcome, $released);
                        samples.push(start.elapsed().as_nanos() as u64);
                    }
                    samples
                });
            }
            let samples = tasks.join_all().await;
            report(samples.concat(), start.elapsed());
        }
    };
}

workload!(run_line, line, connect, true);
workload!(run_framed, framed, connect_loopback, framed::ReleaseOutcome::Released, Duration::ZERO);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [wire, address, numbers @ ..] = arguments.as_slice() else { panic!("see the top of main.rs") };
    let numbers: Vec<u64> = numbers.iter().map(|text| text.parse().expect("a number")).collect();
    let [tasks, keys, cycles] = numbers[..] else { panic!("see the top of main.rs") };
    let plan = Plan { tasks, keys, cycles };
    match wire.as_str() {
        "line" => run_line(address, plan).await,
        "framed" => run_framed(address, plan).await,
        other => panic!("{other} is neither line nor framed"),
    }
}
