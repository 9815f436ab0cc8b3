//! The keys of the dashboard, told in a dialog.

use crate::dashboard::preferences::Shortcuts;
use maud::{Markup, html};

const KEYS: [(&str, &str); 12] = [
    ("g o", "go to the overview"),
    ("g j", "go to the jobs"),
    ("g p", "go to the pools"),
    ("g b", "go to the outbox"),
    ("g r", "go to the renders"),
    ("g a", "go to the alerts"),
    ("g s", "go to the settings"),
    ("r", "live updates on or off"),
    ("t", "next theme"),
    ("u", "next way to tell times"),
    ("?", "this help"),
    ("Esc", "close"),
];

/// The dialog. It is closed until somebody asks for it.
pub(super) fn dialog(shortcuts: Shortcuts) -> Markup {
    html! {
        dialog #help aria-labelledby="help-heading" {
            h2 #help-heading { "Keyboard" }
            @if shortcuts == Shortcuts::Off {
                p { "Shortcuts are off; they can be switched on in the settings." }
            }
            table {
                caption.unseen { "Keys and what they do" }
                tbody {
                    @for (keys, effect) in KEYS {
                        tr {
                            th scope="row" { @for key in keys.split(' ') { kbd { (key) } " " } }
                            td { (effect) }
                        }
                    }
                }
            }
            button type="button" data-close { "Close" }
        }
    }
}
