//! Notices for alert channels of ends, and of renders that wait for approval: queued with the change, and delivered by a server as those of alerts are.

use crate::alert::ALERT_DELIVERY;
use crate::error::Result;
use crate::tx::Renders;
use tidemill_domain::alert::Subject;
use tidemill_domain::outbox::lifecycle_events::RenderChange;
use tidemill_domain::render::gfx;
use tidemill_domain::render::notify::{self, RENDER_END};

impl Renders<'_> {
    /// For the channels of the configuration, and those of the profile.
    pub(super) async fn notify_of_render(&mut self, change: &RenderChange<'_>) -> Result<()> {
        let mut all = self.render_notify().to_vec();
        let composition = match change.composition {
            Some(composition) => Some(composition.to_owned()),
            // Only the data names it. If it cannot be read, the render fails with that, and the rest hears of it.
            None => {
                let data = self.data(change.render).await.ok().flatten();
                data.and_then(|data| gfx::read(&data).ok()).and_then(|gfx| gfx.composition)
            }
        };
        if let Some(composition) = composition {
            // A profile that is damaged does not keep the render from its end.
            let profile = self.profile(&composition).await.ok().flatten();
            all.extend(profile.into_iter().flat_map(|profile| profile.notifies()));
        }
        let channels = notify::channels(&all, change.status);
        let Ok(subject) = Subject::new(&super::object(change.render)) else { return Ok(()) };
        let (body, notice) = (notify::to_json(change), notify::notice(change.status));
        for channel in &channels {
            self.alert_delivery_insert((RENDER_END, &subject), notice, channel, &body, change.at).await?;
        }
        if !channels.is_empty() {
            self.wake(ALERT_DELIVERY);
        }
        Ok(())
    }
}
