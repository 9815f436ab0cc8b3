//! The configuration in force, with the origin of every value. Secrets come masked.

use crate::dashboard::frame::{Frame, Section};
use crate::dashboard::page_context::PageContext;
use crate::dashboard::page_snapshot::PageSnapshot;
use crate::dashboard::part::{command, panel, table};
use crate::dashboard::region::Page;
use crate::problem::Problem;
use axum::response::Html;
use maud::html;

pub(crate) async fn page(visit: PageContext) -> Result<Html<String>, Problem> {
    let (common, _) = PageSnapshot::read(&visit.state).await?;
    let rows = html! {
        tbody {
            @for line in &visit.state.inner().parts.configuration {
                tr {
                    th.mono scope="row" { (line.key) }
                    td.long.mono { (line.value) }
                    td.long { (line.origin) }
                }
            }
        }
    };
    let aside = html! { span.soft { "The same at the command line: " } (command("tidemill config show")) };
    let table = table("Configuration", &["Key", "Value", "Where it comes from"], &rows);
    let content = html! { h1 { "Configuration" } (panel("configuration", "In force", &aside, &table)) };
    let title = Some("Configuration");
    let frame =
        Frame { visit: &visit, common: &common, section: Section::Settings, title, page: Page::Other };
    Ok(frame.render(&content))
}
