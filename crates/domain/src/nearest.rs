//! "Did you mean": the known word nearest to a misspelt one.

/// Longer words are not compared: the comparison is quadratic.
const LONGEST: usize = 64;

/// The nearest candidate, unless it is too different. Case does not count.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let word = word.trim().to_lowercase();
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST)
        .map(|candidate| (strsim::damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(&word, candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean NAME? `, to put before the rest of a fix; empty if no candidate is near.
pub fn did_you_mean<T: AsRef<str>>(word: &str, candidates: &[T]) -> String {
    let near = nearest(word, candidates.iter().map(AsRef::as_ref));
    near.map(|near| format!("did you mean {near}? ")).unwrap_or_default()
}

/// One slip per three letters, at least one.
fn tolerance(word: &str, candidate: &str) -> usize {
    let letters = word.chars().count().min(candidate.chars().count());
    // A word of one letter is near every other such word.
    if letters < 2 { 0 } else { (letters / 3).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_offered() {
        let check = |word: &str, expected: Option<&str>| {
            assert_eq!(nearest(word, ["always", "embedded", "never"]), expected, "{word}");
        };

        check("alwasy", Some("always"));
        check("Always", Some("always"));
        check(" never", Some("never"));
        check("embeded", Some("embedded"));
        check("sometimes", None);
        check("", None);
        check("n", None);
        check("한글", None);
        check(&"never".repeat(100_000), None);
        assert_eq!(nearest("never", [&*"never".repeat(100_000)]), None);
        assert_eq!(did_you_mean("adw", &["ETL", "ADW"]), "did you mean ADW? ");
        assert_eq!(did_you_mean("other", &["ETL", "ADW"]), "");
    }
}
