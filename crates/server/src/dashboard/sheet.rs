//! The question before an action: what will happen, why it is done, and the way out. The script shows it as a dialog above
//! the page; without the script it is a page of its own, or it unfolds in place.

use crate::access::Principal;
use crate::dashboard::form;
use crate::dashboard::frame::Section;
use crate::dashboard::part::{command, refused};
use crate::dashboard::region::Buttons;
use maud::{Markup, html};
use tidemill_domain::action::Reason;
use tidemill_domain::audit::FIELD_CHARS_MAX;

/// What the field for the reason is called on most sheets.
pub(crate) const WHY: &str = "Why (for the audit log)";

/// A sheet, and the page that it is on without the script.
pub(crate) struct QuestionPage {
    pub(crate) section: Section,
    pub(crate) title: String,
    /// What is above the sheet.
    pub(crate) heading: Markup,
    pub(crate) sheet: Sheet,
}

pub(crate) struct Sheet {
    pub(crate) question: String,
    /// What will happen.
    pub(crate) consequence: Markup,
    pub(crate) form: SheetForm,
    /// What has to be filled in.
    pub(crate) fields: Markup,
    /// Where those go who think better of it, and the word for that.
    pub(crate) back: String,
    pub(crate) leave: &'static str,
    pub(crate) button: String,
    pub(crate) weight: Weight,
    /// Why it cannot be done now, as a sentence.
    pub(crate) refusal: Option<String>,
    /// The same at the command line.
    pub(crate) command: Option<String>,
}

/// The form of a sheet.
pub(crate) enum SheetForm {
    /// Around its fields, with the address that it is sent to and its hidden fields.
    Own { address: String, hidden: Markup },
    /// Elsewhere on the page, under this name: what is sent to many visitors has no form of its own, because a form
    /// carries the secret of its session.
    Named(&'static str),
}

/// Whether the button ends something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Weight {
    Normal,
    Ends,
}

impl SheetForm {
    /// A form of the visitor's own, which comes back to an address afterwards.
    pub(crate) fn with_way_back(principal: &Principal, address: String, back: &str) -> Self {
        let hidden = html! {
            (form::hidden(principal))
            input type="hidden" name="back" value=(back);
        };
        Self::Own { address, hidden }
    }
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

    /// The sheet behind a word that unfolds it.
    pub(crate) fn unfolding(&self, word: &str) -> Markup {
        html! {
            details.confirm {
                summary { (word) }
                (self.markup())
            }
        }
    }

    fn inside(&self, form: Option<&str>) -> Markup {
        let class = match self.weight {
            Weight::Normal => "do",
            Weight::Ends => "end",
        };
        html! {
            @if self.refusal.is_none() { div.fields { (self.fields) } }
            div.row {
                a.button href=(self.back) data-close { (self.leave) }
                @match &self.refusal {
                    Some(reason) => (refused(&self.button, reason)),
                    None => button class=(class) form=[form] { (self.button) },
                }
            }
        }
    }
}

/// The field for the reason; `form` is the name of a form elsewhere on the page.
pub(crate) fn reason_field(label: &str, reason: Reason, form: Option<&str>) -> Markup {
    html! {
        label.wide {
            (label)
            input name="reason" form=[form] required[reason == Reason::Required] maxlength=(FIELD_CHARS_MAX)
                autocomplete="off";
        }
    }
}

/// The field in which the number of an object has to be typed.
pub(crate) fn number_field(number: i64, form: Option<&str>) -> Markup {
    html! {
        label {
            "To confirm, type " (number)
            input name="confirm" form=[form] required inputmode="numeric" autocomplete="off" pattern=(number);
        }
    }
}

/// The button that opens a sheet; `label` says what it is about to those who do not see the row around it.
pub(crate) fn ask_button(buttons: Buttons, address: &str, word: &str, label: &str) -> Markup {
    html! {
        @match buttons {
            Buttons::On => a.button data-ask href=(address) aria-label=(label) { (word) },
            Buttons::Off => button type="button" disabled { (word) },
        }
    }
}
