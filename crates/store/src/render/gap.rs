//! What is wanted and not known: compositions of renders that nobody has described.

use crate::error::StoreError;
use crate::tx::Renders;
use std::time::Duration;
use tidemill_domain::code::Code;

/// What has failed for want of a profile is told for so long.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A composition that is not described.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RenderGap {
    pub composition: String,
    /// How many renders want it.
    pub renders: u64,
    /// Whether it has a profile: without one it is not rendered.
    pub has_profile: bool,
    /// Whether any of its fields is mapped.
    pub has_mapping: bool,
}

impl Renders<'_> {
    /// Compositions of renders that have not ended, or failed in the last 24 hours because nobody knew them, which have no
    /// profile or no mapping; by name.
    pub async fn gaps(&mut self) -> Result<Vec<RenderGap>, StoreError> {
        let since = self.now().await?.minus(DAY);
        let unknown = Code::UnknownComposition.to_string();
        let rows = self.render_gaps(&unknown, since.into()).await?;
        let gap = |(composition, renders, has_profile, has_mapping): (String, i64, bool, bool)| RenderGap {
            composition,
            renders: u64::try_from(renders).unwrap_or_default(),
            has_profile,
            has_mapping,
        };
        Ok(rows.into_iter().map(gap).collect())
    }
}
