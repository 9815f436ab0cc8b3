//! Options of benchmarks. Each option has a name and a number.

use anyhow::{Context, Result, bail};

/// Parses the numbers of these options. Options that are not given keep their defaults.
pub(crate) fn numbers<const N: usize>(words: &[&str], known: [(&str, u64); N]) -> Result<[u64; N]> {
    let mut numbers = known.map(|(_, number)| number);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let named = known.iter().zip(&mut numbers).find(|((name, _), _)| name == word);
        let Some((_, number)) = named else {
            let names = known.map(|(name, _)| format!("{name} N")).join(", ");
            bail!("cannot understand {word:?}; there are {names}");
        };
        *number = words.next().context("a number is missing")?.parse().context("not a number")?;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_its_default() {
        assert_eq!(numbers(&["--b", "7"], [("--a", 1), ("--b", 2)]).unwrap(), [1, 7]);
    }

    #[test]
    fn what_is_not_known_or_no_number_is_refused() {
        let refused = |words: &[&str]| numbers(words, [("--a", 1)]).unwrap_err().to_string();

        assert_eq!(refused(&["--b", "7"]), "cannot understand \"--b\"; there are --a N");
        assert_eq!(refused(&["--a"]), "a number is missing");
        assert_eq!(refused(&["--a", "x"]), "not a number");
    }
}
