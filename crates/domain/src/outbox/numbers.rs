//! A set of mostly consecutive numbers at about a bit each: a million events take a few hundred kilobytes.

use std::collections::HashMap;

const BLOCK: i64 = u64::BITS as i64;

#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// One bit for each of 64 numbers.
    blocks: HashMap<i64, u64>,
    len: u64,
}

impl Numbers {
    /// Returns whether the number is new.
    pub(super) fn insert(&mut self, number: i64) -> bool {
        let (block, bit) = place(number);
        let bits = self.blocks.entry(block).or_default();
        let is_new = *bits & bit == 0;
        *bits |= bit;
        self.len += u64::from(is_new);
        is_new
    }

    pub(super) fn remove(&mut self, number: i64) {
        let (block, bit) = place(number);
        if let Some(bits) = self.blocks.get_mut(&block) {
            self.len -= u64::from(*bits & bit != 0);
            *bits &= !bit;
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The numbers that are in none of the others, in no order.
    pub(super) fn without<const N: usize>(&self, others: [&Self; N]) -> impl Iterator<Item = i64> {
        self.blocks.iter().flat_map(move |(block, bits)| {
            let theirs = others.iter().filter_map(|other| other.blocks.get(block));
            numbers_of(*block, theirs.fold(*bits, |left, theirs| left & !theirs))
        })
    }

    /// The numbers from 1 to `last` that are in none of the sets, in order.
    pub(super) fn missing_up_to<const N: usize>(
        last: i64,
        sets: [Option<&Self>; N],
    ) -> impl Iterator<Item = i64> {
        let blocks = if last < 1 { 0..0 } else { 0..last / BLOCK + 1 };
        blocks
            .flat_map(move |block| {
                let theirs = sets.iter().flatten().filter_map(|set| set.blocks.get(&block));
                numbers_of(block, theirs.fold(u64::MAX, |left, theirs| left & !theirs))
            })
            .filter(move |number| (1..=last).contains(number))
    }
}

fn place(number: i64) -> (i64, u64) {
    (number.div_euclid(BLOCK), 1 << number.rem_euclid(BLOCK))
}

fn numbers_of(block: i64, bits: u64) -> impl Iterator<Item = i64> {
    (0..BLOCK).filter(move |bit| bits & (1 << bit) != 0).map(move |bit| block * BLOCK + bit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn numbers() -> impl Strategy<Value = BTreeSet<i64>> {
        let number = prop_oneof![-70..200_i64, Just(i64::MAX), Just(i64::MIN)];
        prop::collection::btree_set(number, 0..60)
    }

    fn set(numbers: &BTreeSet<i64>) -> Numbers {
        let mut set = Numbers::default();
        for number in numbers {
            set.insert(*number);
        }
        set
    }

    proptest! {
        #[test]
        fn it_is_the_set_of_what_was_put_in(one in numbers(), two in numbers(), last in -5..210_i64) {
            let (first, second) = (set(&one), set(&two));

            prop_assert_eq!(first.len(), u64::try_from(one.len()).unwrap());
            prop_assert_eq!(first.without([&second]).collect::<BTreeSet<_>>(), &one - &two);
            let both = &one | &two;
            let missing: Vec<i64> = (1..=last).filter(|number| !both.contains(number)).collect();
            let sets = [Some(&first), None, Some(&second)];
            prop_assert_eq!(Numbers::missing_up_to(last, sets).collect::<Vec<_>>(), missing);
        }

        #[test]
        fn what_was_taken_out_is_not_in_it(one in numbers(), two in numbers()) {
            let mut both = set(&one);

            for number in &two {
                both.remove(*number);
            }

            prop_assert_eq!(both.without([]).collect::<BTreeSet<_>>(), &one - &two);
            prop_assert_eq!(both.len(), u64::try_from((&one - &two).len()).unwrap());
        }
    }
}
