//! What a job is made of: steps and decisions, flows within flows, and what follows which.

use crate::job::step::Step;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use tidemill_domain::item::ItemError;
use tidemill_domain::job::flow::{Flow, Target};
use tidemill_domain::job::{BatchStatus, Counters, ExecutionContext, ExitStatus, JobParameters, check_name};

/// Steps and decisions, one after the other or as [`on`](Self::on) says.
#[derive(Clone, Default)]
#[must_use]
pub struct StepFlow {
    nodes: Vec<Node>,
    transitions: Vec<(String, String, Target)>,
}

#[derive(Clone)]
pub(crate) enum Node {
    Step(Step),
    Decision(String, Arc<Decide>),
    /// A flow that is recorded as a step of its own, beside its steps.
    Flow(String, StepFlow),
    /// Flows that run at the same time.
    Split(String, Vec<StepFlow>),
}

type Decide = dyn Fn(&Decision<'_>) -> Result<String, ItemError> + Send + Sync;

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

/// What a decision can rest on.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// The parameters of the job.
    pub parameters: &'a JobParameters,
    /// What the job remembers.
    pub job_context: &'a ExecutionContext,
    /// How the step before it ended; none at the beginning.
    pub last: Option<(BatchStatus, &'a ExitStatus)>,
    /// What that step counted in its last run; none at the beginning, and after a flow or a split, whose steps count for
    /// themselves.
    pub counters: Option<&'a Counters>,
}

impl StepFlow {
    /// A flow without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step after what is there.
    pub fn step(mut self, step: Step) -> Self {
        self.nodes.push(Node::Step(step));
        self
    }

    /// Adds a decision after what is there: no step, and nothing is recorded of it, but [`on`](Self::on) can match
    /// what it says like an exit code. A restart decides again.
    pub fn decision(
        mut self,
        name: impl Into<String>,
        decide: impl Fn(&Decision<'_>) -> Result<String, ItemError> + Send + Sync + 'static,
    ) -> Self {
        self.nodes.push(Node::Decision(name.into(), Arc::new(decide)));
        self
    }

    /// Adds a flow that is recorded as a step of its own, beside its steps. A restart repeats those of them that did
    /// not complete.
    pub fn flow(mut self, name: impl Into<String>, flow: Self) -> Self {
        self.nodes.push(Node::Flow(name.into(), flow));
        self
    }

    /// Adds flows that run at the same time. It ends when all of them have, as the worst of them did.
    pub fn split(mut self, name: impl Into<String>, flows: impl IntoIterator<Item = Self>) -> Self {
        self.nodes.push(Node::Split(name.into(), flows.into_iter().collect()));
        self
    }

    /// Says where to go when `from` ends with an exit code that matches `pattern` (`*` any characters, `?` exactly
    /// one). The most specific pattern counts. What has transitions of its own has only these.
    pub fn on(mut self, from: impl Into<String>, pattern: impl Into<String>, to: Target) -> Self {
        self.transitions.push((from.into(), pattern.into(), to));
        self
    }

    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name() == name)
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether it is a sequence that only looks at whether each part completed.
    pub(crate) fn is_plain(&self) -> bool {
        let decides = |node: &Node| matches!(node, Node::Decision(..));
        self.transitions.is_empty() && !self.nodes.iter().any(decides)
    }

    pub(crate) fn rules(&self) -> Flow {
        let mut flow = Flow::of(self.nodes.iter().map(Node::name));
        for (from, pattern, to) in &self.transitions {
            flow.on(from, pattern, to.clone());
        }
        flow
    }

    /// All steps, those of the flows within included.
    pub(crate) fn steps(&self) -> Vec<&Step> {
        let mut steps = Vec::new();
        for node in &self.nodes {
            if let Node::Step(step) = node {
                steps.push(step);
            }
            for inner in node.inner() {
                steps.extend(inner.steps());
            }
        }
        steps
    }

    /// What is wrong with it. `seen` are the names that are taken.
    pub(crate) fn check<'a>(&'a self, seen: &mut BTreeSet<&'a str>) -> Result<(), String> {
        for node in &self.nodes {
            let name = node.name();
            check_name(name).map_err(|error| format!("step {name:?}: {error}"))?;
            if !seen.insert(name) {
                return Err(format!("two steps are called {name:?}"));
            }
            if let Node::Step(step) = node {
                step.check().map_err(|why| format!("step {name:?}: {why}"))?;
                // A worker may have the name of the step that it works for.
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
