//! Prefix codes: short bit patterns for frequent symbols (RFC 1951, section 3.2.2).
//!
//! Does not know what the symbols mean; see [`super::block`].

/// Symbols in the largest alphabet, that of literals and lengths.
pub const SYMBOLS_MAX: usize = 288;

/// Bits of a symbol in the keys that are sorted: 2^9 is more than [`SYMBOLS_MAX`].
const SYMBOL_BITS: u32 = 9;

/// The bits of a symbol, in the order in which they are written, and how many they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Code {
    pub bits: u32,
    pub len: u32,
}

/// Lengths of the best code for symbols that occur so often, none longer than `len_max`; 0 for what does not
/// occur.
///
/// Readers want at least two symbols in a code: where fewer occur, the first ones are given a code as well.
/// Counts stay below 2^23, as a block has less than 2^17 symbols.
pub fn lengths<const N: usize>(counts: &[u32; N], len_max: usize) -> [u8; N] {
    const { assert!(N <= SYMBOLS_MAX) };
    let mut keys = [0u32; SYMBOLS_MAX];
    let mut used = 0;
    for (symbol, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        keys[used] = count << SYMBOL_BITS | symbol as u32;
        used += 1;
    }
    let absent = counts.iter().enumerate().filter(|(_, count)| **count == 0);
    for (symbol, _) in absent.take(2usize.saturating_sub(used)) {
        keys[used] = 1 << SYMBOL_BITS | symbol as u32;
        used += 1;
    }
    let keys = &mut keys[..used];
    keys.sort_unstable();
    let mut tree = [0u32; SYMBOLS_MAX];
    let tree = &mut tree[..used];
    for (count, key) in tree.iter_mut().zip(keys.iter()) {
        *count = key >> SYMBOL_BITS;
    }
    code_lengths(tree);
    let mut lens = [0u8; N];
    let mut rarest_first = keys.iter();
    for (len, many) in limited(tree, len_max).into_iter().enumerate().rev() {
        for key in rarest_first.by_ref().take(many as usize) {
            lens[(key & ((1 << SYMBOL_BITS) - 1)) as usize] = len as u8;
        }
    }
    lens
}

/// Turns counts in rising order into the lengths of their codes, in place: the algorithm of
/// \[Moffat95\]. A node's parent is written where its count was.
fn code_lengths(tree: &mut [u32]) {
    let many = tree.len();
    tree[0] += tree[1];
    let (mut root, mut leaf) = (0, 2);
    for next in 1..many - 1 {
        for is_second in [false, true] {
            let from_root = leaf >= many || (!is_second || root < next) && tree[root] < tree[leaf];
            let count = if from_root { tree[root] } else { tree[leaf] };
            tree[next] = if is_second { tree[next] + count } else { count };
            if from_root {
                tree[root] = next as u32;
                root += 1;
            } else {
                leaf += 1;
            }
        }
    }
    // Depths of the inner nodes, from the root down.
    tree[many - 2] = 0;
    for next in (0..many - 2).rev() {
        tree[next] = tree[tree[next] as usize] + 1;
    }
    // Depths of the leaves: what a level has room for and inner nodes do not take.
    let (mut inner, mut leaf) = (many - 1, many);
    let (mut room, mut depth) = (1, 0);
    while room > 0 {
        let mut taken = 0;
        while inner > 0 && tree[inner - 1] == depth {
            taken += 1;
            inner -= 1;
        }
        for _ in taken..room {
            leaf -= 1;
            tree[leaf] = depth;
        }
        room = 2 * taken;
        depth += 1;
    }
}

/// How many codes there are of each length, after the longer ones were made to fit.
fn limited(lens: &[u32], len_max: usize) -> [u32; 16] {
    let mut many = [0u32; 16];
    for len in lens {
        many[(*len as usize).min(len_max)] += 1;
    }
    // A code of length l takes 2^-l of the room; cutting long ones has taken too much. Moving a shorter code one down makes
    // room for one of the longest beside it.
    let mut room: u32 = (1..=len_max).map(|len| many[len] << (len_max - len)).sum();
    while room > 1 << len_max {
        let shorter = (1..len_max).rev().find(|len| many[*len] > 0).unwrap_or(1);
        many[shorter] -= 1;
        many[shorter + 1] += 2;
        many[len_max] -= 1;
        room -= 1;
    }
    many
}

/// The codes that belong to these lengths: shorter ones first, within a length by symbol.
pub fn codes<const N: usize>(lens: &[u8; N]) -> [Code; N] {
    let mut next = [0u32; 17];
    for len in lens.iter().filter(|len| **len > 0) {
        next[usize::from(*len) + 1] += 1;
    }
    for len in 1..17 {
        next[len] = (next[len] + next[len - 1]) << 1;
    }
    let mut codes = [Code::default(); N];
    for (code, len) in codes.iter_mut().zip(lens).filter(|(_, len)| **len > 0) {
        let bits = &mut next[usize::from(*len)];
        let len = u32::from(*len);
        // Codes are written from their highest bit on.
        *code = Code { bits: bits.reverse_bits() >> (32 - len), len };
        *bits += 1;
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_the_standard() {
        let codes = codes(&[3u8, 3, 3, 3, 3, 2, 4, 4]);
        let shown: Vec<String> = codes
            .iter()
            .map(|code| (0..code.len).map(|bit| char::from(b'0' + (code.bits >> bit & 1) as u8)).collect())
            .collect();
        assert_eq!(shown, ["010", "011", "100", "101", "110", "00", "1110", "1111"]);
    }

    #[test]
    fn frequent_symbols_are_short() {
        assert_eq!(lengths(&[8, 1, 1, 2, 4], 15), [1, 4, 4, 3, 2]);
        assert_eq!(lengths(&[0, 0, 7, 0], 15), [1, 0, 1, 0]);
        assert_eq!(lengths(&[0, 0, 0, 0], 15), [1, 1, 0, 0]);
    }

    #[test]
    fn no_code_is_longer_than_allowed() {
        // Fibonacci's numbers make the deepest tree.
        let mut counts = [0u32; 24];
        let (mut a, mut b) = (1, 1);
        for count in &mut counts {
            (*count, a, b) = (a, b, a + b);
        }
        assert_eq!(lengths(&counts, 15).into_iter().max(), Some(15));
        assert_eq!(lengths(&counts, 7).into_iter().max(), Some(7));
    }

    proptest! {
        #[test]
        fn all_room_is_used_and_no_more(counts in proptest::array::uniform19(0u32..2000), len_max in 7usize..15) {
            let lens = lengths(&counts, len_max);
            let room: u32 = lens.iter().filter(|len| **len > 0).map(|len| 1 << (15 - len)).sum();
            prop_assert_eq!(room, 1 << 15);
            for (len, count) in lens.iter().zip(&counts) {
                prop_assert!(usize::from(*len) <= len_max && (*count == 0 || *len > 0));
            }
        }
    }
}
