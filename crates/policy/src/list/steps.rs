//! A limit on the work of a look-up, which holds for all lists.
//!
//! A step is one state of an automaton, one position at which a pattern is tried, or one line that
//! is read. Each takes a few nanoseconds. When the steps are spent, the remaining patterns and
//! lines are not read, and the result says so. A hostile list can thus make some names undecided,
//! but cannot stall a worker.

use super::limits::{NAME_RESERVE, NAME_STEPS, QUESTION_STEPS, TRIAL_STEPS};

/// The steps that a look-up may still take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    /// Steps for all names of one question. `None` if the caller does not announce questions.
    question: Option<u32>,
    /// Steps that were granted to the current name.
    granted: u32,
    /// Steps of the grant that are left.
    left: u32,
    /// Whether the look-up of the current name was cut short.
    is_cut_short: bool,
    /// Number of names with a look-up that was cut short.
    cut_short: u64,
}

/// An error: no steps are left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Exhausted;

impl Steps {
    /// Creates a limit for each name, without a limit for each question.
    pub(super) const fn of_names() -> Self {
        Self { question: None, granted: 0, left: 0, is_cut_short: false, cut_short: 0 }
    }

    /// Sets a common limit for all names that are looked up until the next call.
    #[inline]
    pub(super) const fn begin_question(&mut self) {
        (self.granted, self.left) = (0, 0);
        self.question = Some(QUESTION_STEPS);
    }

    /// Sets the limit for the next name.
    #[inline]
    pub(super) const fn begin_name(&mut self) {
        self.granted = match self.question {
            Some(question) => {
                let rest = question.saturating_sub(self.spent());
                self.question = Some(rest);
                if rest < NAME_RESERVE {
                    NAME_RESERVE
                } else if rest < NAME_STEPS {
                    rest
                } else {
                    NAME_STEPS
                }
            }
            None => NAME_STEPS,
        };
        self.left = self.granted;
        self.is_cut_short = false;
    }

    /// Renews the name's reserve of steps, for reading the lines of the matching patterns.
    #[inline]
    pub(super) const fn renew_reserve(&mut self) {
        if self.left < NAME_RESERVE {
            self.granted += NAME_RESERVE - self.left;
            self.left = NAME_RESERVE;
        }
    }

    /// Deducts steps from the steps of the current name.
    #[inline]
    pub(super) const fn spend(&mut self, steps: usize) -> Result<(), Exhausted> {
        if steps > self.left as usize {
            self.left = 0;
            self.cut_short();
            return Err(Exhausted);
        }
        self.left -= steps as u32;
        Ok(())
    }

    /// Runs a pattern with its own limit of steps, and deducts the steps that it took from the
    /// steps of the current name.
    #[inline]
    pub(super) fn trial(
        &mut self,
        run: impl FnOnce(&mut Trial) -> Result<bool, Exhausted>,
    ) -> Result<bool, Exhausted> {
        let granted = self.left.min(TRIAL_STEPS);
        let mut trial = Trial { left: granted };
        let outcome = run(&mut trial);
        self.left -= granted - trial.left;
        outcome.or_else(|Exhausted| {
            self.cut_short();
            // The pattern is skipped: the next pattern may need fewer steps.
            if self.left == 0 { Err(Exhausted) } else { Ok(false) }
        })
    }

    /// Returns whether the look-up of the current name was cut short.
    pub(super) const fn is_cut_short(&self) -> bool {
        self.is_cut_short
    }

    /// Returns the steps that the current name has taken.
    pub(super) const fn spent(&self) -> u32 {
        self.granted - self.left
    }

    /// Returns the number of names with a look-up that was cut short since the last call.
    pub(super) const fn take_cut_short(&mut self) -> u64 {
        std::mem::replace(&mut self.cut_short, 0)
    }

    #[cold]
    const fn cut_short(&mut self) {
        if !self.is_cut_short {
            self.is_cut_short = true;
            self.cut_short += 1;
        }
    }
}

/// The remaining steps for matching one pattern against one name.
#[derive(Debug)]
pub(super) struct Trial {
    left: u32,
}

impl Trial {
    /// The maximum number of steps of one pattern.
    pub(super) const WHOLE: Self = Self { left: TRIAL_STEPS };

    #[inline]
    pub(super) const fn spend(&mut self, steps: usize) -> Result<(), Exhausted> {
        if steps > self.left as usize {
            self.left = 0;
            return Err(Exhausted);
        }
        self.left -= steps as u32;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_question_share_its_steps() {
        let mut steps = Steps::of_names();
        steps.begin_question();
        let mut granted = Vec::new();
        for _ in 0..6 {
            steps.begin_name();
            granted.push(steps.granted);
            assert_eq!(
                (steps.spend(steps.left as usize), steps.spend(1)),
                (Ok(()), Err(Exhausted))
            );
        }
        assert_eq!(granted[..4].iter().sum::<u32>(), QUESTION_STEPS);
        assert_eq!((&granted[4..], steps.take_cut_short()), (&[NAME_RESERVE; 2][..], 6));
        steps.begin_question();
        steps.begin_name();
        assert_eq!(steps.spend(NAME_STEPS as usize), Ok(()));
    }

    #[test]
    fn a_trial_takes_its_part_and_leaves_the_rest_to_others() {
        let mut steps = Steps::of_names();
        steps.begin_name();
        let endless = |trial: &mut Trial| loop {
            trial.spend(1)?;
        };
        assert_eq!(steps.trial(endless), Ok(false));
        assert_eq!(steps.spent(), TRIAL_STEPS);
        assert_eq!(steps.trial(|trial| trial.spend(5).map(|()| true)), Ok(true));
        assert_eq!(
            (steps.spent(), steps.take_cut_short(), steps.take_cut_short()),
            (TRIAL_STEPS + 5, 1, 0)
        );
        while steps.trial(endless).is_ok() {}
        assert_eq!(steps.spent(), NAME_STEPS);
    }
}
