//! The question before an action: its consequence, a field for the reason, and a way back. The script shows it as a
//! dialog; without the script it is a page or unfolds in place.

use crate::dashboard::part::{command, unless_refused};
use crate::dashboard::{Buttons, Frame, PageContext, PageSnapshot, Section};
use axum::response::Html;
use maud::{Markup, html};
use tidemill_domain::action::Reason;
use tidemill_domain::audit::FIELD_CHARS_MAX;

/// Label of the field for the reason.
pub(crate) const WHY: &str = "Reason (for the audit log)";

/// A sheet on a page of its own.
pub(crate) struct QuestionPage {
    pub(crate) section: Section,
    pub(crate) title: String,
    pub(crate) heading: Markup,
    pub(crate) sheet: Sheet,
}

impl QuestionPage {
    /// The page, with `above` before the sheet.
    pub(crate) fn render(&self, visit: &PageContext, common: &PageSnapshot, above: &Markup) -> Html<String> {
        let content = html! {
            (self.heading)
            (above)
            section.panel { div.body { (self.sheet.markup()) } }
        };
        Frame::new(visit, common, self.section).titled(&self.title).render(&content)
    }
}

pub(crate) struct Sheet {
    pub(crate) question: String,
    pub(crate) consequence: Markup,
    pub(crate) form: SheetForm,
    pub(crate) fields: Markup,
    /// Address and text of the link that cancels.
    pub(crate) back: String,
    pub(crate) leave: &'static str,
    pub(crate) button: String,
    /// Whether the action ends something for good, which gives its button another colour.
    pub(crate) ends: bool,
    /// Why the action is not possible now, as a sentence.
    pub(crate) refusal: Option<String>,
    pub(crate) command: Option<String>,
}

pub(crate) enum SheetForm {
    /// Around the fields.
    Own { address: String, hidden: Markup },
    /// Elsewhere on the page, with this id. A live region goes to many visitors and cannot contain a form, because a form
    /// carries the secret of one session.
    Named(&'static str),
}

impl Sheet {
    pub(crate) fn markup(&self) -> Markup {
        html! {
            div.sheet {
                h2 { (self.question) }
                (self.consequence)
                @match &self.form {
                    SheetForm::Own { address, hidden } => form method="post" action=(address) {
                        (hidden)
                        (self.inside(None))
                    },
                    SheetForm::Named(name) => (self.inside(Some(*name))),
                }
                @if let (None, Some(text)) = (&self.refusal, &self.command) {
                    p.soft { "At the command line: " (command(text)) }
                }
            }
        }
    }

    /// The sheet, folded until a click on `word`.
    pub(crate) fn unfolding(&self, word: &str) -> Markup {
        html! {
            details.confirm {
                summary { (word) }
                (self.markup())
            }
        }
    }

    fn inside(&self, form: Option<&str>) -> Markup {
        let class = if self.ends { "end" } else { "do" };
        let button = html! { button class=(class) form=[form] { (self.button) } };
        html! {
            @if self.refusal.is_none() { div.fields { (self.fields) } }
            div.row {
                a.button href=(self.back) data-close { (self.leave) }
                (unless_refused(self.refusal.as_deref(), &self.button, &button))
            }
        }
    }
}

/// The field for the reason; `form` is the id of a form elsewhere on the page.
pub(crate) fn reason_field(label: &str, reason: Reason, form: Option<&str>) -> Markup {
    html! {
        label.wide {
            (label)
            input name="reason" form=[form] required[reason == Reason::Required] maxlength=(FIELD_CHARS_MAX)
                autocomplete="off";
        }
    }
}

/// The field to type the number of an object as confirmation.
pub(crate) fn number_field(number: i64, form: Option<&str>) -> Markup {
    html! {
        label {
            "To confirm, type " (number)
            input name="confirm" form=[form] required inputmode="numeric" autocomplete="off" pattern=(number);
        }
    }
}

/// The button that opens a sheet; `label` is for screen readers.
pub(crate) fn ask_button(buttons: Buttons, address: &str, word: &str, label: &str) -> Markup {
    html! {
        @match buttons {
            Buttons::On => a.button data-ask href=(address) aria-label=(label) { (word) },
            Buttons::Off => button type="button" disabled { (word) },
        }
    }
}
