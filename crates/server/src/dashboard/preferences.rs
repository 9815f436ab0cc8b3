//! Preferences of a visitor: theme, times, read-only mode, shortcuts, reloading. They are cookies, so that the first page is
//! already right and the server stores nothing about visitors.

use crate::access::Principal;
use crate::access::session::{CookieName, value};
use crate::dashboard::form;
use crate::dashboard::form::Fields;
use crate::dashboard::page_context::home;
use crate::problem::Problem;
use crate::state::State;
use axum::Extension;
use axum::extract::State as Given;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use std::collections::BTreeMap;
use std::str::FromStr;

tidemill_domain::words! {
    #[derive(Default)]
    pub(crate) enum Theme {
        /// The theme of the operating system.
        #[default]
        Auto = "auto",
        Light = "light",
        Dark = "dark",
    }

    #[derive(Default)]
    pub(crate) enum TimeMode {
        #[default]
        Utc = "utc",
        /// In the browser's time zone; UTC without the script.
        Local = "local",
        Relative = "relative",
    }

    pub(crate) enum Switch {
        Off = "off",
        On = "on",
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Preferences {
    pub(crate) theme: Theme,
    pub(crate) time: TimeMode,
    /// Disables buttons that change something, against slips of the hand. Permissions are checked elsewhere.
    pub(crate) read_only: Switch,
    /// Single-key shortcuts.
    pub(crate) shortcuts: Switch,
    /// Reloads pages every 15 seconds without the script. Off by default, because a reload clears forms.
    pub(crate) reload: Switch,
}

impl Preferences {
    /// Reads the cookies. Unknown values count as missing.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self {
            theme: of_cookie(headers, "theme").unwrap_or_default(),
            time: of_cookie(headers, "time").unwrap_or_default(),
            read_only: of_cookie(headers, "read_only").unwrap_or(Switch::Off),
            shortcuts: of_cookie(headers, "shortcuts").unwrap_or(Switch::On),
            reload: of_cookie(headers, "reload").unwrap_or(Switch::Off),
        }
    }
}

fn of_cookie<T: FromStr>(headers: &HeaderMap, field: &str) -> Option<T> {
    value(headers, &format!("tidemill_{field}"))?.parse().ok()
}

/// The word after `one`; after the last word, the first.
pub(crate) fn after(words: &[&'static str], one: &'static str) -> &'static str {
    let next = words.iter().skip_while(|known| **known != one).nth(1);
    next.or_else(|| words.first()).copied().unwrap_or(one)
}

/// The fields of the form, and their words. Each is the cookie `tidemill_FIELD`.
const FIELDS: [(&str, &[&str]); 5] = [
    ("theme", Theme::NAMES),
    ("time", TimeMode::NAMES),
    ("read_only", Switch::NAMES),
    ("shortcuts", Switch::NAMES),
    ("reload", Switch::NAMES),
];

/// Sets a cookie for each field of the form and returns to the page of the form.
pub(crate) async fn save(
    Given(state): Given<State>,
    Extension(principal): Extension<Principal>,
    Fields(form): Fields<BTreeMap<String, String>>,
) -> Result<Response, Problem> {
    form::check(&principal, form.get("form_token").map_or("", String::as_str))?;
    let secure = if state.inner().cookie == CookieName::Host { "; Secure" } else { "" };
    let home = home(&state);
    let back = form.get("back").filter(|back| is_ours(&home, back));
    let mut response = Redirect::to(back.unwrap_or(&state.path("/settings"))).into_response();
    for (field, words) in FIELDS {
        let Some(word) = form.get(field) else { continue };
        if !words.contains(&word.as_str()) {
            return Err(Problem::bad_request("unknown preference", "choose one on the settings page"));
        }
        let cookie =
            format!("tidemill_{field}={word}; Path={home}; Max-Age=31536000; SameSite=Lax; HttpOnly{secure}");
        if let Ok(line) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(header::SET_COOKIE, line);
        }
    }
    Ok(response)
}

/// Whether an address is one of our pages. Rejects everything that a browser could read as another host.
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
        assert_eq!(preferences.read_only, Switch::On);
        assert_eq!(preferences.shortcuts, Switch::On);
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
