//! Which bucket a host belongs to: fence pointers, looked up for every URL that is written.
//!
//! Hashes are spread evenly, so their first bits lead to the bucket or to one shortly before it. A binary
//! search would mispredict a branch at each step.

use farol_base::HostHash;

/// 4,096 numbers × 4 bytes = 16 KiB, within L1.
const BITS: u32 = 12;

#[derive(Debug, Default)]
pub struct BucketIndex {
    /// Smallest hash of each bucket; the first is 0.
    starts: Vec<HostHash>,
    /// By first bits of a hash: the bucket of the smallest hash that begins so.
    first: Vec<u32>,
}

impl BucketIndex {
    /// Takes where buckets begin, in their order.
    pub fn new(starts: impl Iterator<Item = HostHash>) -> BucketIndex {
        let starts: Vec<HostHash> = starts.collect();
        let bucket_of = |bits: u64| starts.partition_point(|start| start.0 <= bits << (u64::BITS - BITS)) - 1;
        let first = (0..1 << BITS).map(|bits| bucket_of(bits) as u32).collect();
        BucketIndex { starts, first }
    }

    /// The bucket of a host.
    pub fn bucket_of(&self, hash: HostHash) -> usize {
        let mut at = self.first[(hash.0 >> (u64::BITS - BITS)) as usize] as usize;
        while self.starts.get(at + 1).is_some_and(|next| *next <= hash) {
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_host_belongs_to_the_last_bucket_that_begins_before_it(
            mut starts in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..9000, (0u64..5000).prop_map(|bits| bits << 52)], 0..40),
            hashes in proptest::collection::vec(any::<u64>(), 0..40),
        ) {
            starts.push(0);
            starts.sort_unstable();
            starts.dedup();
            let bucket_index = BucketIndex::new(starts.iter().copied().map(HostHash));
            for hash in hashes.into_iter().chain(starts.iter().copied()).chain([u64::MAX]) {
                prop_assert_eq!(bucket_index.bucket_of(HostHash(hash)), starts.partition_point(|start| *start <= hash) - 1);
            }
        }
    }
}
