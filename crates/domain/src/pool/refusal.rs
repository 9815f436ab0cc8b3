//! What holders report about refused connections: the outcome of their work, and error codes in the text of an error.

use super::End;

/// Longer reasons are cut.
const REASON_CHARS_MAX: usize = 200;

/// Too many sessions, processes, connections or parallel servers.
const ORACLE: [(u32, &str); 7] = [
    (18, "ORA-00018"),
    (20, "ORA-00020"),
    (12516, "ORA-12516"),
    (12519, "ORA-12519"),
    (12520, "ORA-12520"),
    (12827, "ORA-12827"),
    (12850, "ORA-12850"),
];

/// `too_many_connections` of PostgreSQL.
const SQLSTATE: &str = "53300";
const POSTGRES: &str = "SQLSTATE 53300";
const POSTGRES_MESSAGES: [&str; 3] = [
    "sorry, too many clients already",
    "remaining connection slots are reserved",
    "too many connections for ",
];

crate::words! {
    /// How the work of a holder ended.
    pub enum ReleaseOutcome: "an outcome is completed, failed or refused" {
        Completed = "completed" or "ok",
        Failed = "failed",
        /// The database refused a connection.
        Refused = "refused",
    }
}

impl ReleaseOutcome {
    /// The end of the ticket. A failure whose error has the code of a refusal is one.
    pub fn end(self, error: Option<&str>) -> End {
        match self {
            Self::Completed => End::Released { failed: false },
            Self::Failed if error.and_then(find).is_none() => End::Released { failed: true },
            Self::Failed | Self::Refused => End::Refused { reason: reason(error) },
        }
    }
}

/// The code of the first refusal in the text of an error; none if it is another error.
///
/// ```
/// use tidemill_domain::pool::refusal::find;
/// assert_eq!(find("java.sql.SQLException: ORA-12516: TNS:listener could not find …"), Some("ORA-12516"));
/// assert_eq!(find("ORA-00942: table or view does not exist"), None);
/// ```
pub fn find(error: &str) -> Option<&'static str> {
    let lower = error.to_ascii_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    let oracle = words.clone().find_map(|word| {
        let number: u32 = word.strip_prefix("ora-")?.parse().ok()?;
        ORACLE.iter().find(|(code, _)| *code == number).map(|(_, name)| *name)
    });
    // A number alone may count anything.
    let is_state =
        (lower.contains("fatal") || lower.contains("sqlstate")) && words.any(|word| word == SQLSTATE);
    let is_postgres = is_state || POSTGRES_MESSAGES.iter().any(|message| lower.contains(message));
    oracle.or(is_postgres.then_some(POSTGRES))
}

/// The reason for a refusal that the holder reported: the code if the error has one, otherwise its first line.
pub fn reason(error: Option<&str>) -> String {
    let error = error.unwrap_or_default();
    if let Some(code) = find(error) {
        return code.to_owned();
    }
    let line = error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("refused");
    line.chars().filter(|letter| !letter.is_control()).take(REASON_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_refusal_is_found_in_the_words_of_its_driver() {
        for (text, code) in [
            ("ORA-00018: maximum number of sessions exceeded", "ORA-00018"),
            ("ORA-00020: maximum number of processes (300) exceeded", "ORA-00020"),
            (
                "Listener refused the connection with the following error: ORA-12516, TNS:listener …",
                "ORA-12516",
            ),
            ("java.sql.SQLRecoverableException: ORA-12519, TNS:no appropriate service handler", "ORA-12519"),
            (
                "DPY-6005: cannot connect\nORA-12520: TNS:listener could not find available handler",
                "ORA-12520",
            ),
            ("ora-12827: insufficient parallel query slaves available", "ORA-12827"),
            ("ORA-12850: Could not allocate slaves on all specified instances", "ORA-12850"),
            ("ORA-06512: at line 1\nORA-18: maximum number of sessions exceeded", "ORA-00018"),
            ("FATAL:  sorry, too many clients already", "SQLSTATE 53300"),
            ("error returned from database: 53300: FATAL", "SQLSTATE 53300"),
            ("SqlState(53300)", "SQLSTATE 53300"),
            ("FATAL: remaining connection slots are reserved for roles with …", "SQLSTATE 53300"),
            ("too many connections for role \"etl\"", "SQLSTATE 53300"),
        ] {
            assert_eq!(find(text), Some(code), "{text}");
        }
    }

    #[test]
    fn other_errors_and_other_numbers_are_no_refusals() {
        for text in [
            "",
            "ORA-",
            "ORA-00942: table or view does not exist",
            "ORA-120: x",
            "ORA-125160",
            "copied 53300 rows",
            "FATAL: 1533001 rows",
            "SQLSTATE 42P01",
            "the file ORA-x18",
            "FLORA-18",
        ] {
            assert_eq!(find(text), None, "{text}");
        }
    }

    #[test]
    fn a_failure_with_the_code_of_a_refusal_is_a_refusal() {
        let end = |word: &str, error| word.parse::<ReleaseOutcome>().unwrap().end(error);
        let refused = |reason: &str| End::Refused { reason: reason.to_owned() };

        assert_eq!(end("ok", Some("ORA-00018")), End::Released { failed: false });
        assert_eq!(end("failed", None), End::Released { failed: true });
        assert_eq!(end("failed", Some("ORA-00942")), End::Released { failed: true });
        assert_eq!(end("failed", Some("ORA-00018: maximum")), refused("ORA-00018"));
        assert_eq!(end("refused", None), refused("refused"));
        assert_eq!(end("refused", Some("the listener is full")), refused("the listener is full"));
    }

    #[test]
    fn a_reason_is_the_code_or_the_first_line() {
        assert_eq!(reason(Some("x\nORA-00018: y")), "ORA-00018");
        assert_eq!(reason(Some("\n  the listener is full\nat line 7")), "the listener is full");
        assert_eq!(reason(None), "refused");
        assert_eq!(reason(Some(&"x".repeat(1_000))).len(), REASON_CHARS_MAX);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            let _found = find(&text);
            prop_assert!(reason(Some(&text)).chars().count() <= REASON_CHARS_MAX);
        }
    }
}
