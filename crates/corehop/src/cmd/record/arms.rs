// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options for runs that are repeated and compared: `--repeat`, `--arm`.

use corehop_plan::experiment::{Argument, Arm, ProgramArms, ProgramError, Target};

use crate::cmd::measure::to::SeedOptions;
use corehop_app::failure::{Exit, Failure};

/// The heading of these options in the help.
const HEADING: &str = "Does a change pay?";

/// The default number of blocks if arms are compared.
const USUAL_REPEAT: u32 = 20;

/// Runs in arms.
#[derive(Debug, clap::Args)]
pub(super) struct ArmArgs {
    /// Run the program in this many blocks; default: 20 with --arm, otherwise one recording
    #[arg(long, value_name = "N", help_heading = HEADING)]
    repeat: Option<u32>,
    /// Also run the program under this command as an arm, for example `'pinned=taskset -c 1'`, and compare the arm
    /// with unchanged runs. Each block has one run of each arm and two unchanged runs, in random order. Repeat the
    /// option for more arms
    #[arg(long, value_name = "NAME=COMMAND", value_parser = arm, help_heading = HEADING)]
    arm: Vec<Arm>,
    #[command(flatten)]
    draws: SeedOptions,
}

impl ArmArgs {
    /// The experiment of repeated runs, if repetition is requested.
    pub(super) fn experiment(
        &self,
        target: &Target,
        estimate_wss: bool,
    ) -> Result<Option<ProgramArms>, Failure> {
        if !self.is_repeated() {
            let only = [("--resume", self.draws.resumes())];
            corehop_app::failure::refuse("a single recording cannot be resumed", &only)?;
            return Ok(None);
        }
        let repeat = self.repeat.unwrap_or(USUAL_REPEAT);
        let arms = ProgramArms::new(target.clone(), estimate_wss, self.arm.clone(), repeat);
        Ok(Some(arms.map_err(|error: ProgramError| Failure::new(Exit::Usage, error))?))
    }

    /// Whether the program is to run several times.
    pub(super) const fn is_repeated(&self) -> bool {
        self.repeat.is_some() || !self.arm.is_empty()
    }

    /// The number of blocks.
    pub(super) fn blocks(&self) -> u32 {
        self.repeat.unwrap_or(USUAL_REPEAT)
    }

    /// The options for the random order and for resuming an interrupted run.
    pub(super) const fn draws(&self) -> &SeedOptions {
        &self.draws
    }
}

/// `pinned=taskset -c 1` as an arm.
fn arm(text: &str) -> Result<Arm, String> {
    let form = "for example `pinned=taskset -c 1`";
    let (name, command) =
        text.split_once('=').ok_or_else(|| format!("an arm is NAME=COMMAND, {form}"))?;
    if name.trim().is_empty() {
        return Err(format!("this arm has no name: write NAME=COMMAND, {form}"));
    }
    let words = words(command)?;
    if words.is_empty() {
        return Err(format!("this arm has no command: write NAME=COMMAND, {form}"));
    }
    let prefix = words.into_iter().map(|word| Argument::new(word.into_bytes())).collect();
    Ok(Arm { name: name.trim().to_owned(), prefix })
}

/// Splits a command into words as a shell does: at blanks, except within quotes or after a backslash. No expansion
/// takes place.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None::<char>);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(rest.next()),
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("the quote {quote} is not closed"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        for (text, expected) in [
            ("taskset -c 1", &["taskset", "-c", "1"][..]),
            ("  env  A='b c' \"d 'e\" ", &["env", "A=b c", "d 'e"]),
            (r#"a\ b "c\"d" 'e\f' ''"#, &["a b", "c\"d", "e\\f", ""]),
            ("", &[]),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
        assert!(words("a 'b").unwrap_err().contains("not closed"));
    }

    #[test]
    fn an_arm_has_a_name_and_a_command() {
        let pinned = arm("pinned=env A=b taskset -c 1").unwrap();
        assert_eq!((pinned.name.as_str(), pinned.prefix.len()), ("pinned", 5));
        for (text, part) in [
            ("taskset -c 1", "NAME=COMMAND"),
            ("=taskset", "no name"),
            ("x=", "no command"),
            ("x='a", "not closed"),
        ] {
            assert!(arm(text).unwrap_err().contains(part), "{text}");
        }
    }
}
