//! Secret texts, which print as `***`, and passwords inside URLs.
//!
//! People paste URLs that are not quite valid, such as a password with an unescaped `/` or `@`. A strict parser would take
//! a part of such a password for a host and show it. So this searches for what may be a password, and in doubt hides more.

use percent_encoding::percent_decode_str;
use std::fmt;
use std::ops::Range;

const MASK: &str = "***";

/// A secret text.
///
/// ```
/// # use tidemill::config::Secret;
/// let secret = Secret::new("open sesame");
/// assert_eq!(format!("{secret} {secret:?}"), "*** ***");
/// assert_eq!(secret.expose(), "open sesame");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text` from now on.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. The caller is responsible for where it goes.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

pub(crate) fn holds_password(url: &str) -> bool {
    !passwords(url).is_empty()
}

/// The URL with `***` for each password.
pub(super) fn mask(url: &str) -> String {
    let mut masked = String::with_capacity(url.len());
    let mut shown_to = 0;
    for password in passwords(url) {
        if password.start >= shown_to {
            masked.push_str(&url[shown_to..password.start]);
            masked.push_str(MASK);
        }
        shown_to = shown_to.max(password.end);
    }
    masked.push_str(&url[shown_to..]);
    masked
}

/// A web URL with `***` for everything but scheme and host.
pub(super) fn mask_all_but_host(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return MASK.to_owned() };
    let address = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = address.rsplit('@').next().unwrap_or_default();
    if host.len() == rest.len() { url.to_owned() } else { format!("{scheme}://{host}/{MASK}") }
}

/// The ranges of the passwords, by their start; they may overlap.
fn passwords(url: &str) -> Vec<Range<usize>> {
    let parameters = parameters(url);
    let mut found: Vec<_> = parameters
        .iter()
        .filter(|parameter| is_secret_name(&url[parameter.name.clone()]))
        .map(|parameter| parameter.value.clone())
        .collect();
    let query =
        parameters.iter().find(|parameter| parameter.opens_query).map_or(url.len(), |first| first.name.start);
    found.extend(login_password(url, query));
    found.retain(|range| !range.is_empty());
    found.sort_by_key(|range| range.start);
    found
}

struct Parameter {
    name: Range<usize>,
    value: Range<usize>,
    opens_query: bool,
}

/// The `name=value` parts after `?`, `&`, `;` or white space: of a query, of the JDBC drivers that use
/// semicolons, and of libpq's keyword form. A value ends only where the next such part begins.
fn parameters(url: &str) -> Vec<Parameter> {
    let mut parameters: Vec<Parameter> = Vec::new();
    let starts = url
        .char_indices()
        .filter(|(_, c)| matches!(c, '?' | '&' | ';') || c.is_whitespace())
        .map(|(at, c)| (at, at + c.len_utf8(), c == '?'));
    for (separator, start, opens_query) in std::iter::once((0, 0, false)).chain(starts) {
        let Some(length) = url[start..].find(|c: char| !is_name(c)) else { continue };
        if length == 0 || !url[start + length..].starts_with('=') {
            continue;
        }
        if let Some(last) = parameters.last_mut() {
            last.value.end = separator;
        }
        let equals = start + length;
        parameters.push(Parameter { name: start..equals, value: equals + 1..url.len(), opens_query });
    }
    parameters
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '%')
}

fn is_secret_name(name: &str) -> bool {
    let name = percent_decode_str(name).decode_utf8_lossy().to_lowercase();
    name.contains("password")
        || name.contains("passwd")
        || name.contains("secret")
        || matches!(name.as_str(), "pwd" | "pass" | "token")
}

/// The password before the `@`. `query` is where the query begins.
fn login_password(url: &str, query: usize) -> Option<Range<usize>> {
    let scheme_end = url.find(':').unwrap_or(0);
    let is_jdbc = url[..scheme_end].eq_ignore_ascii_case("jdbc");
    let scheme = if is_jdbc { url[scheme_end + 1..].split(':').next() } else { url.get(..scheme_end) };
    if scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("sqlite")) {
        // The rest is the path of a file, in which `:` and `@` mean nothing.
        return None;
    }
    let Some(login) = url[..query].find("://").map(|at| at + 3) else {
        // Without `//`, user and password cannot be told apart, as in `jdbc:oracle:thin:scott/tiger@host`.
        let at = url.rfind('@')?;
        let start = url.find([':', '/']).filter(|start| *start < at)?;
        return Some(start + 1..at);
    };
    let at = match url[login..query].rfind('@') {
        Some(at) => login + at,
        None if ends_in_port_or_name(&url[login..query]) => return None,
        None => login + url[login..].rfind('@')?,
    };
    let colon = url[login..at].find(':')?;
    Some(login + colon + 1..at)
}

/// Whether the text before the query is `host`, `host:5432` or `[::1]` with a path, and so has no login.
fn ends_in_port_or_name(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or(text).trim_end_matches('?');
    let port = host.rsplit_once(':').map(|(_, port)| port);
    host.ends_with(']') || port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::property::{cases, text};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_password_is_masked_wherever_it_stands() {
        let check = |url: &str, expected: &str| {
            assert_eq!(mask(url), expected);
            assert!(holds_password(url), "{url}");
        };

        check("postgres://user:pw@host/db", "postgres://user:***@host/db");
        check("postgres://:pw@host", "postgres://:***@host");
        check(
            "postgres://user:p%40w@host:5432/db?sslmode=require",
            "postgres://user:***@host:5432/db?sslmode=require",
        );
        check("postgres://host/db?password=pw", "postgres://host/db?password=***");
        check("postgres://host/db?p%61ssword=pw&a=b", "postgres://host/db?p%61ssword=***&a=b");
        check("postgres://host/db?a=b&PASSWORD=p;w&c=d", "postgres://host/db?a=b&PASSWORD=***&c=d");
        check("postgres://u:pw@host/db?sslpassword=x", "postgres://u:***@host/db?sslpassword=***");
        check(
            "jdbc:postgresql://host/db?user=u&password=pw",
            "jdbc:postgresql://host/db?user=u&password=***",
        );
        check("jdbc:postgresql://u:pw@host/db", "jdbc:postgresql://u:***@host/db");
        check(
            "jdbc:sqlserver://host;user=u;password=pw;a=b",
            "jdbc:sqlserver://host;user=u;password=***;a=b",
        );
        check("jdbc:oracle:thin:scott/tiger@//host:1521/x", "jdbc:***@//host:1521/x");
        check("host=h password=pw dbname=d", "host=h password=*** dbname=d");
        check("postgres:/user:pw@host", "postgres:***@host");
        check("user:pw@host", "user:***@host");
        check("sqlite://a.db?password=pw", "sqlite://a.db?password=***");
    }

    #[test]
    fn a_password_with_unescaped_signs_is_masked_whole() {
        let check = |password: &str| {
            let url = format!("postgres://user:{password}@host/db?sslmode=require");
            assert_eq!(mask(&url), "postgres://user:***@host/db?sslmode=require", "{password}");
        };

        check("p/w");
        check("p@w");
        check("p?w");
        check("p#w");
        check("p:w");
        check("p@a?b/c#d:e&f");
        check("한글");
    }

    #[test]
    fn a_url_without_a_password_is_left_alone() {
        for url in [
            "sqlite://tidemill.db",
            "sqlite::memory:",
            "sqlite:///data/a:b@c.db",
            "jdbc:sqlite:a:b@c.db",
            "postgres://user@host/db",
            "postgres://user:@host/db",
            "postgres://host:5432/db?application_name=me@work",
            "postgres://[::1]/db?application_name=me@work",
            "postgres:///db?host=/tmp&passfile=/x",
            "jdbc:postgresql://host:5432/db",
            "",
            ":",
            "@",
            "://",
            "?password=",
        ] {
            assert_eq!(mask(url), url);
            assert!(!holds_password(url), "{url}");
        }
    }

    #[test]
    fn no_part_of_a_strange_password_is_shown() {
        let part = || text("ab:/?#@&;%한 1", 8);

        proptest!(cases(20_000), |(before in part(), after in part())| {
            let url = format!("postgres://user:x{before}WORD{after}@host/db");

            prop_assert!(!mask(&url).contains("WORD"), "{} shows as {}", url, mask(&url));
            prop_assert!(holds_password(&url), "{}", url);
        });
    }

    #[test]
    fn any_text_is_masked_without_a_panic() {
        proptest!(cases(20_000), |(text in text("ab:/?#@&=;%4한 jdbcpassword", 40))| {
            prop_assert_eq!(mask(&text) != text, holds_password(&text));
        });
    }
}
