//! The flow of a job: steps, decisions, inner flows and transitions.

use crate::job::Step;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::flow::{Flow, Target};
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus, JobParameters, check_name};

/// Steps and decisions, in sequence or in the order that [`on`](Self::on) defines.
#[derive(Clone, Default)]
#[must_use]
pub struct StepFlow {
    pub(super) nodes: Vec<Node>,
    transitions: Vec<(String, String, Target)>,
}

#[derive(Clone)]
pub(crate) enum Node {
    Step(Step),
    Decision(String, Arc<Decide>),
    /// A flow that is recorded as a step, besides its steps.
    Flow(String, StepFlow),
    /// Flows that run concurrently.
    Split(String, Vec<StepFlow>),
}

pub(super) type Decide = dyn Fn(&Decision<'_>) -> Result<String, ItemError> + Send + Sync;

impl Node {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Step(step) => step.name(),
            Self::Decision(name, _) | Self::Flow(name, _) | Self::Split(name, _) => name,
        }
    }

    fn inner(&self) -> &[StepFlow] {
        match self {
            Self::Step(_) | Self::Decision(..) => &[],
            Self::Flow(_, flow) => std::slice::from_ref(flow),
            Self::Split(_, flows) => flows,
        }
    }
}

/// The input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// The parameters of the job.
    pub parameters: &'a JobParameters,
    /// The context of the job.
    pub job_context: &'a ExecutionContext,
    /// How the previous step ended; none at the beginning.
    pub last: Option<(BatchStatus, &'a ExitStatus)>,
    /// Counters of the last run of that step; none at the beginning, and after a flow or a split.
    pub counters: Option<&'a Counters>,
}

impl StepFlow {
    /// A flow without steps.
    pub fn new() -> Self {
        Self::default()
    }

    tidemill_domain::setters! {
        /// Adds a step after the others.
        pub fn step(self, step: Step) { self.nodes.push(Node::Step(step)) }
        /// Adds a decision after the others. It is not recorded; [`on`](Self::on) matches its result like an exit code. A
        /// restart decides again.
        pub fn decision(
            self,
            name: impl Into<String>,
            decide: impl Fn(&Decision<'_>) -> Result<String, ItemError> + Send + Sync + 'static,
        ) {
            self.nodes.push(Node::Decision(name.into(), Arc::new(decide)))
        }
        /// Adds a flow that is recorded as a step, besides its steps. A restart repeats those that did not complete.
        pub fn flow(self, name: impl Into<String>, flow: Self) { self.nodes.push(Node::Flow(name.into(), flow)) }
        /// Adds flows that run concurrently. The split ends when all of them have, with the worst result.
        pub fn split(self, name: impl Into<String>, flows: impl IntoIterator<Item = Self>) {
            self.nodes.push(Node::Split(name.into(), flows.into_iter().collect()))
        }
        /// Sets the target for exit codes of `from` that match `pattern` (`*` any characters, `?` one). The most specific
        /// pattern wins. A step with transitions has only these.
        pub fn on(self, from: impl Into<String>, pattern: impl Into<String>, to: Target) {
            self.transitions.push((from.into(), pattern.into(), to))
        }
    }

    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name() == name)
    }

    /// Whether it is a plain sequence, in which a step goes on by its status. Elsewhere its exit code counts.
    pub(crate) fn is_plain(&self) -> bool {
        let is_step = |node: &Node| matches!(node, Node::Step(_) | Node::Flow(..));
        self.transitions.is_empty() && self.nodes.iter().all(is_step)
    }

    pub(crate) fn rules(&self) -> Flow {
        let mut flow = Flow::of(self.nodes.iter().map(Node::name));
        for (from, pattern, to) in &self.transitions {
            flow.on(from, pattern, to.clone());
        }
        flow
    }

    /// Includes the steps of inner flows.
    pub(crate) fn steps(&self) -> Vec<&Step> {
        let steps = self.nodes.iter().flat_map(|node| match node {
            Node::Step(step) => vec![step],
            other => other.inner().iter().flat_map(Self::steps).collect(),
        });
        steps.collect()
    }

    /// `seen` are the names already used.
    pub(crate) fn check<'a>(&'a self, seen: &mut BTreeSet<&'a str>) -> Result<(), String> {
        for node in &self.nodes {
            let name = node.name();
            check_name(name).map_err(|error| format!("step {name:?}: {error}"))?;
            if !seen.insert(name) {
                return Err(format!("two steps are called {name:?}"));
            }
            if let Node::Step(step) = node {
                step.check().map_err(|why| format!("step {name:?}: {why}"))?;
                // A worker may have the name of its divided step.
                let worker = step.worker().map(Step::name).filter(|worker| *worker != name);
                if let Some(worker) = worker
                    && !seen.insert(worker)
                {
                    return Err(format!("two steps are called {worker:?}"));
                }
            }
            if matches!(node, Node::Split(_, flows) if flows.is_empty()) {
                return Err(format!("the split {name:?} has no flow"));
            }
            for inner in node.inner() {
                inner.check(seen).map_err(|why| format!("in {name:?}: {why}"))?;
            }
        }
        self.rules().check().map_err(|error| error.to_string())
    }
}

impl fmt::Debug for StepFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes.iter().map(Node::name)).finish()
    }
}
