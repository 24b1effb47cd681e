//! How much one client may ask for: a bucket of tokens per address, in a table of bounded size.
//!
//! INVARIANT: the table never holds more than [`CLIENTS_MAX`] buckets. When it is full, buckets that have
//! filled up again are forgotten (they say nothing), and if that is not enough the fuller half goes: whoever
//! is being held back stays held back.

use farol_base::sync::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;

use std::time::Duration;

/// 16,384 buckets × about 64 bytes = 1 MiB.
const CLIENTS_MAX: usize = 16_384;

pub(crate) struct Limiter {
    /// Tokens per second; 0 means that nobody is held back.
    rate: f64,
    /// Tokens in a full bucket.
    capacity: f64,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Duration,
}

impl Limiter {
    /// Gives each client `per_minute` tokens a minute, of which a minute's worth may be spent at once.
    pub fn new(per_minute: u32) -> Limiter {
        let capacity = f64::from(per_minute);
        Limiter { rate: capacity / 60.0, capacity, buckets: Mutex::new(HashMap::new()) }
    }

    /// Takes `cost` tokens out of the client's bucket, or says how long to wait until they are there.
    pub fn take(&self, client: IpAddr, cost: f64, now: Duration) -> Result<(), Duration> {
        if self.rate == 0.0 || cost == 0.0 {
            return Ok(());
        }
        let mut buckets = self.buckets.lock();
        let client = network(client);
        if buckets.len() >= CLIENTS_MAX && !buckets.contains_key(&client) {
            self.forget_some(&mut buckets, now);
        }
        let bucket = buckets.entry(client).or_insert(Bucket { tokens: self.capacity, at: now });
        bucket.tokens = self.level(bucket, now);
        bucket.at = now;
        if bucket.tokens >= cost {
            bucket.tokens -= cost;
            Ok(())
        } else {
            Err(Duration::from_secs_f64((cost - bucket.tokens) / self.rate))
        }
    }

    fn level(&self, bucket: &Bucket, now: Duration) -> f64 {
        let refilled = now.saturating_sub(bucket.at).as_secs_f64() * self.rate;
        (bucket.tokens + refilled).min(self.capacity)
    }

    fn forget_some(&self, buckets: &mut HashMap<IpAddr, Bucket>, now: Duration) {
        buckets.retain(|_, bucket| self.level(bucket, now) < self.capacity);
        if buckets.len() <= CLIENTS_MAX / 2 {
            return;
        }
        let mut levels: Vec<f64> = buckets.values().map(|bucket| self.level(bucket, now)).collect();
        let middle = levels.len() / 2;
        let median = *levels.select_nth_unstable_by(middle, f64::total_cmp).1;
        // Equal levels are common (one token each), so count down rather than compare alone.
        let mut leaving = middle;
        buckets.retain(|_, bucket| {
            let leaves = leaving > 0 && self.level(bucket, now) >= median;
            leaving -= usize::from(leaves);
            !leaves
        });
    }
}

/// One client is one IPv4 address or one IPv6 /64, the least that a provider hands out.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => {
            let [a, b, c, d, ..] = six.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ip(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn a_minutes_worth_at_once_then_at_the_rate() {
        let limiter = Limiter::new(60);
        let now = Duration::from_secs(100);
        for _ in 0..60 {
            assert_eq!(limiter.take(ip(1), 1.0, now), Ok(()));
        }
        assert_eq!(limiter.take(ip(1), 1.0, now), Err(Duration::from_secs(1)));
        assert_eq!(limiter.take(ip(2), 1.0, now), Ok(())); // Another client is not concerned.
        assert_eq!(limiter.take(ip(1), 1.0, now + Duration::from_secs(1)), Ok(()));
        assert!(limiter.take(ip(1), 1.0, now + Duration::from_secs(1)).is_err());
    }

    #[test]
    fn zero_means_no_limit() {
        let limiter = Limiter::new(0);
        assert!((0..10_000).all(|_| limiter.take(ip(1), 1.0, Duration::ZERO).is_ok()));
    }

    #[test]
    fn neighbours_in_one_ipv6_network_are_one_client() {
        let limiter = Limiter::new(1);
        let at = Duration::ZERO;
        assert!(limiter.take("2001:db8::1".parse().unwrap(), 1.0, at).is_ok());
        assert!(limiter.take("2001:db8::ffff".parse().unwrap(), 1.0, at).is_err());
        assert!(limiter.take("2001:db8:0:1::1".parse().unwrap(), 1.0, at).is_ok());
        assert!(limiter.take("::ffff:10.0.0.1".parse().unwrap(), 1.0, at).is_ok());
        assert!(limiter.take("10.0.0.1".parse().unwrap(), 1.0, at).is_err());
    }

    #[test]
    fn the_table_stays_bounded_and_remembers_whoever_is_held_back() {
        let limiter = Limiter::new(2);
        let now = Duration::ZERO;
        assert!(limiter.take(ip(7), 2.0, now).is_ok());
        for n in 1000..60_000 {
            let _ = limiter.take(ip(n), 1.0, now);
        }
        assert!(limiter.buckets.lock().len() <= CLIENTS_MAX);
        assert!(limiter.take(ip(7), 1.0, now).is_err());
    }

    proptest! {
        #[test]
        fn nobody_gets_more_than_the_rate(steps in prop::collection::vec((0u64..5000, 1u32..3), 1..200)) {
            let limiter = Limiter::new(30);
            let (mut now, mut taken) = (Duration::ZERO, 0.0);
            for (wait, cost) in steps {
                now += Duration::from_millis(wait);
                if limiter.take(ip(1), f64::from(cost), now).is_ok() {
                    taken += f64::from(cost);
                }
                prop_assert!(taken <= 30.0 + now.as_secs_f64() * 0.5 + 1e-6);
            }
        }
    }
}
