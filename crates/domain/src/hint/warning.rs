//! What is odd about a hint. Oracle does not report it.

crate::words! {
    #[derive(Hash)]
    pub enum Warning => text: &'static str {
        SecondComment = "second_comment" => "only the first hint comment counts; others are ignored",
        Misplaced = "misplaced" => "a hint comment that does not follow SELECT, INSERT, UPDATE, DELETE or MERGE is ignored",
        SpaceBeforePlus = "space_before_plus" => "the + must follow the start of the comment without a space; this is not a hint",
        PlainComment = "plain_comment" => "a comment without a + mentions PARALLEL; it is not a hint",
        Unterminated = "unterminated" => "the hint comment is not closed",
        ReservedWord = "reserved_word" => "a reserved word between hints; what follows it is ignored",
        Comma = "comma" => "a comma between hints; Oracle may ignore what follows it, here it counts",
        Unreadable = "unreadable" => "a parallel hint cannot be read; the most that it could mean counts",
        ZeroDegree = "zero_degree" => "0 is not a degree; the default degree counts",
        TooLarge = "too_large" => "a number is too large; it counts as 4294967295",
        Instances = "instances" => "a second number multiplies the degree by a number of instances",
        Contradiction = "contradiction" => "parallel hints contradict each other; the greatest degree counts",
        NoStatementQueuing = "no_statement_queuing" => "NO_STATEMENT_QUEUING bypasses the queue for parallel servers",
        ParallelParameter = "parallel_parameter" => "OPT_PARAM sets a parameter of parallel execution, which may bypass limits",
    }
}

/// Each warning once, in order.
#[derive(Default)]
pub(super) struct Warnings(pub(super) Vec<Warning>);

impl Warnings {
    pub(super) fn add(&mut self, warning: Warning) {
        if !self.0.contains(&warning) {
            self.0.push(warning);
        }
    }
}
