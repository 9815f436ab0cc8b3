//! The state that all tasks of a worker share.

use super::target;
use super::{Backends, Farm, HeldRender, Inspector, Registry, Storage, WorkerOptions};
use crate::render::composition_cache::CompositionCache;
use crate::render::health::{Health, InFlight, Vitals};
use crate::{locked, metrics};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tidemill_domain::code::Code;
use tidemill_domain::render::{Failure, Trouble};
use tidemill_domain::time::{Clock, Monotonic};
use tidemill_store::Store;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

/// Renders per place at the farm: those being checked and published need no place.
const IN_HAND_PER_PLACE: usize = 4;

/// Response time recorded for nexrender when it is down, however soon that was known.
const UNANSWERED: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct WorkerContext {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) farm: Arc<dyn Farm>,
    pub(super) inspector: Arc<dyn Inspector>,
    pub(super) storage: Arc<dyn Storage>,
    /// The object stores of its targets, by name.
    pub(super) stores: BTreeMap<String, target::Store>,
    pub(super) options: WorkerOptions,
    pub(super) registry: Registry,
    pub(super) compositions: Mutex<CompositionCache>,
    vitals: Mutex<Vitals>,
    pub(super) places: Arc<Semaphore>,
    /// Places taken, by renders and by jobs that cannot be stopped.
    pub(super) taken: Arc<AtomicUsize>,
    /// Limits files being checked or copied.
    pub(super) uploads: Semaphore,
    /// Renders that have a place and wait for a licence.
    pub(super) waiting_for_licence: AtomicUsize,
    /// Wakes the claiming loop.
    pub(super) look_again: Notify,
    /// Wakes the checks.
    pub(super) check_again: Notify,
    pub(super) is_stopping: watch::Sender<bool>,
}

#[derive(Debug)]
pub(super) struct Place {
    taken: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

impl WorkerContext {
    pub(super) fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        backends: Backends,
        options: WorkerOptions,
    ) -> Self {
        let Backends { farm, inspector, storage } = backends;
        let capacity = options.capacity.get();
        Self {
            store,
            farm,
            inspector,
            storage,
            stores: target::Store::all(&options.targets),
            registry: Registry::default(),
            compositions: Mutex::default(),
            vitals: Mutex::default(),
            places: Arc::new(Semaphore::new(capacity)),
            taken: Arc::default(),
            uploads: Semaphore::new(options.uploads.get()),
            waiting_for_licence: AtomicUsize::new(0),
            look_again: Notify::new(),
            check_again: Notify::new(),
            is_stopping: watch::Sender::new(false),
            clock,
            options,
        }
    }

    pub(super) fn now(&self) -> Monotonic {
        self.clock.monotonic()
    }

    pub(super) fn vitals(&self) -> MutexGuard<'_, Vitals> {
        locked(&self.vitals)
    }

    /// Places for which a render may be claimed now.
    pub(super) fn free_places(&self) -> Vec<OwnedSemaphorePermit> {
        let in_hand_max = self.options.capacity.get().saturating_mul(IN_HAND_PER_PLACE);
        let mut most = in_hand_max.saturating_sub(self.registry.len());
        if self.options.licence.is_some() {
            // One at a time, so that the most urgent render waits for the next licence.
            most = most.min(1_usize.saturating_sub(self.waiting_for_licence.load(Ordering::Acquire)));
        }
        std::iter::from_fn(|| self.places.clone().try_acquire_owned().ok()).take(most).collect()
    }

    pub(super) fn take_place(&self, permit: OwnedSemaphorePermit) -> Place {
        self.taken.fetch_add(1, Ordering::AcqRel);
        Place { taken: self.taken.clone(), _permit: permit }
    }

    /// Claims nothing more until the backends work again.
    pub(super) fn pause(&self, code: Code, message: &str) {
        if self.vitals().pause(code, message, self.now()) {
            metrics::render_paused().set(1.0);
            let worker = &self.options.name;
            tracing::error!(%code, worker, "render worker {worker} claims no more renders: {message} ({code})");
        }
    }

    pub(super) fn resume(&self) {
        if self.vitals().paused.take().is_some() {
            metrics::render_paused().set(0.0);
            let worker = &self.options.name;
            tracing::info!(worker, "render worker {worker} claims renders again");
            self.look_again.notify_one();
        }
    }

    /// Calls the farm, and measures the response time.
    pub(super) async fn asking<T>(
        &self,
        call: &'static str,
        asking: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let begun = self.now();
        let answer = asking.await;
        let took = self.now().since(begun);
        let outcome = answer.as_ref().err().map_or("answered", |trouble| trouble.failure.as_str());
        metrics::render_farm(call, outcome).record(took);
        // That the farm is down is known at once, and is worse than any wait.
        let is_down = answer.as_ref().is_err_and(|trouble| trouble.failure == Failure::NexrenderDown);
        if is_down && call != "check" {
            self.check_again.notify_one();
        }
        let counted = if is_down { took.max(UNANSWERED) } else { took };
        self.vitals().farm_took = Some(counted);
        answer
    }

    pub(super) fn busy(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    pub(super) fn health(&self) -> Health {
        let in_flight = |held: &Arc<HeldRender>| InFlight { id: held.id, phase: held.phase() };
        Health {
            is_stopping: *self.is_stopping.borrow(),
            busy: self.busy(),
            in_flight: self.registry.all().iter().map(in_flight).collect(),
            ..self.vitals().health(&self.options, self.now())
        }
    }
}
