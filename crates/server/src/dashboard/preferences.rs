//! How somebody likes the pages: theme, times, read-only, shortcuts, reloading. Kept in the browser's own cookies, so that
//! the server renders right at once and nothing has to be stored about anybody.

use crate::access::Principal;
use crate::access::session::{CookieName, value};
use crate::dashboard::form::{self, Fields};
use crate::dashboard::page_context::home;
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::State as Given;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use std::str::FromStr;

tidemill_domain::words! {
    #[derive(Default)]
    pub(crate) enum Theme {
        /// As the operating system has it.
        #[default]
        Auto = "auto",
        Light = "light",
        Dark = "dark",
    }

    #[derive(Default)]
    pub(crate) enum TimeMode {
        #[default]
        Utc = "utc",
        /// In the browser's zone; that takes the script, without it UTC is shown.
        Local = "local",
        Relative = "relative",
    }

    /// Whether buttons that change things are out of reach. A safety for the hand; rights are checked elsewhere.
    #[derive(Default)]
    pub(crate) enum ReadOnly {
        #[default]
        Off = "off",
        On = "on",
    }

    /// Whether single keys do things.
    #[derive(Default)]
    pub(crate) enum Shortcuts {
        #[default]
        On = "on",
        Off = "off",
    }

    /// Whether pages are fetched again every 15 seconds where there is no script. Not unless it is asked for: what
    /// somebody types or ticks would be gone.
    #[derive(Default)]
    pub(crate) enum Reload {
        #[default]
        Off = "off",
        On = "on",
    }
}

/// How somebody likes the pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Preferences {
    pub(crate) theme: Theme,
    pub(crate) time: TimeMode,
    pub(crate) read_only: ReadOnly,
    pub(crate) shortcuts: Shortcuts,
    pub(crate) reload: Reload,
}

impl Preferences {
    /// As the cookies say; what is not understood is as if it were not there.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self {
            theme: of_cookie(headers, "tidemill_theme"),
            time: of_cookie(headers, "tidemill_time"),
            read_only: of_cookie(headers, "tidemill_read_only"),
            shortcuts: of_cookie(headers, "tidemill_shortcuts"),
            reload: of_cookie(headers, "tidemill_reload"),
        }
    }
}

fn of_cookie<T: FromStr + Default>(headers: &HeaderMap, name: &str) -> T {
    value(headers, name).and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// The word after `one`, and after the last the first.
pub(crate) fn after(words: &[&'static str], one: &'static str) -> &'static str {
    let next = words.iter().skip_while(|known| **known != one).nth(1);
    next.or_else(|| words.first()).copied().unwrap_or(one)
}

/// What is to change; an absent field stays as it is.
#[derive(Debug, Deserialize)]
pub(crate) struct Changes {
    theme: Option<String>,
    time: Option<String>,
    read_only: Option<String>,
    shortcuts: Option<String>,
    reload: Option<String>,
    back: Option<String>,
    #[serde(default)]
    form_token: String,
}

impl Changes {
    fn cookies(&self) -> Result<Vec<(&'static str, &'static str)>, Problem> {
        let given = [
            ("tidemill_theme", &self.theme, Theme::NAMES),
            ("tidemill_time", &self.time, TimeMode::NAMES),
            ("tidemill_read_only", &self.read_only, ReadOnly::NAMES),
            ("tidemill_shortcuts", &self.shortcuts, Shortcuts::NAMES),
            ("tidemill_reload", &self.reload, Reload::NAMES),
        ];
        let given =
            given.into_iter().filter_map(|(cookie, word, words)| Some((cookie, word.as_ref()?, words)));
        given
            .map(|(cookie, word, words)| {
                let known = words.iter().find(|known| *known == word).ok_or_else(|| {
                    Problem::bad_request("there is no such preference", "choose one on the settings page")
                })?;
                Ok((cookie, *known))
            })
            .collect()
    }
}

/// Keeps what was chosen and goes back to where it was chosen.
pub(crate) async fn save(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Fields(changes): Fields<Changes>,
) -> Result<Response, Problem> {
    form::check(&principal, &changes.form_token)?;
    let secure = if state.inner().cookie == CookieName::Host { "; Secure" } else { "" };
    let home = home(&state);
    let back = changes.back.as_deref().filter(|back| is_ours(&home, back));
    let mut response = Redirect::to(back.unwrap_or(&state.path("/settings"))).into_response();
    for (cookie, word) in changes.cookies()? {
        let text = format!("{cookie}={word}; Path={home}; Max-Age=31536000; SameSite=Lax; HttpOnly{secure}");
        if let Ok(line) = HeaderValue::from_str(&text) {
            response.headers_mut().append(header::SET_COOKIE, line);
        }
    }
    Ok(response)
}

/// Whether an address leads to one of our pages and cannot be read as another host's name.
pub(crate) fn is_ours(home: &str, address: &str) -> bool {
    let rest = address.strip_prefix(home.trim_end_matches('/'));
    rest.is_some_and(|rest| {
        rest.starts_with('/') || (home != "/" && (rest.is_empty() || rest.starts_with('?')))
    }) && !address.starts_with("//")
        && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_never_leads_to_another_site() {
        for path in ["/", "/settings", "/settings/audit?actor=a%20b"] {
            assert!(is_ours("/", path), "{path}");
        }
        for path in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example/",
            "/a b",
            "/a\r\nX: y",
            "evil",
            "?x",
        ] {
            assert!(!is_ours("/", path), "{path:?}");
        }
        for path in ["/mill", "/mill/alerts", "/mill?x=1"] {
            assert!(is_ours("/mill", path), "{path}");
        }
        for path in ["/other", "/miller", "/", ""] {
            assert!(!is_ours("/mill", path), "{path}");
        }
    }

    #[test]
    fn cookies_that_are_not_understood_mean_the_default() {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::COOKIE,
            HeaderValue::from_static("tidemill_theme=dark; tidemill_time=lunar; tidemill_read_only=on"),
        );

        let preferences = Preferences::of(&headers);

        assert_eq!(preferences.theme, Theme::Dark);
        assert_eq!(preferences.time, TimeMode::Utc);
        assert_eq!(preferences.read_only, ReadOnly::On);
        assert_eq!(preferences.shortcuts, Shortcuts::On);
    }

    #[test]
    fn a_button_goes_through_all_words_and_around() {
        let mut seen = vec!["auto"];
        while seen.len() < 4 {
            seen.push(after(Theme::NAMES, seen[seen.len() - 1]));
        }
        assert_eq!(seen, ["auto", "light", "dark", "auto"]);
    }
}
