// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of models of MAST.

use serde_json::json;

use crate::workload::foreign::{MAST, Stated, TimeUnit, read};
use crate::workload::rt_app::Workload;
use crate::workload::set_file;
use crate::workload::task::Task;

/// Three transactions with one activity each: a thread with jitter, an interrupt, and a thread without a deadline.
const MODEL: &str = "\
-- A controller; times are milliseconds.
Model (Model_Name => Pump, Model_Date => 2026-01-02);
Processing_Resource (Type => Regular_Processor, Name => Board,
   Max_Interrupt_Priority => 40, Min_Interrupt_Priority => 30, Worst_ISR_Switch => 0.00, Speed_Factor => 1.0);
Scheduler (Type => Primary_Scheduler, Name => Kernel, Host => Board,
   Policy => (Type => Fixed_Priority, Worst_Context_Switch => 0, Max_Priority => 29, Min_Priority => 1));
Scheduling_Server (Type => Regular, Name => Fast, Scheduler => Kernel,
   Server_Sched_Parameters => (Type => Fixed_Priority_Policy, The_Priority => 20, Preassigned => Yes));
Scheduling_Server (Type => Regular, Name => Slow, Scheduler => Kernel,
   Server_Sched_Parameters => (Type => Fixed_Priority_Policy, The_Priority => 10));
Scheduling_Server (Type => Regular, Name => Handler, Scheduler => Kernel,
   Server_Sched_Parameters => (Type => Interrupt_FP_Policy, The_Priority => 35));
Operation (Type => Simple, Name => Sense, Worst_Case_Execution_Time => 1, Avg_Case_Execution_Time => 0.8,
   Best_Case_Execution_Time => 0.5, Shared_Resources_List => ());
Operation (Type => Simple, Name => Think, Worst_Case_Execution_Time => 25E-1);
Operation (Type => Composite, Name => Act, Composite_Operation_List => (Sense, Think));
Operation (Type => Enclosing, Name => Log, Worst_Case_Execution_Time => 4, Composite_Operation_List => (Sense));
Transaction (Type => Regular, Name => Control,
   External_Events => ((Type => Periodic, Name => Tick, Period => 10, Max_Jitter => 1, Phase => 3)),
   Internal_Events => ((Type => Regular, Name => Acted,
      Timing_Requirements => (Type => Hard_Global_Deadline, Deadline => 8, Referenced_Event => Tick))),
   Event_Handlers => ((Type => Activity, Input_Event => Tick, Output_Event => Acted,
      Activity_Operation => Act, Activity_Server => Fast)));
Transaction (Type => Regular, Name => Alarm,
   External_Events => ((Type => Sporadic, Name => Press, Min_Interarrival => 50)),
   Internal_Events => ((Type => Regular, Name => Sensed,
      Timing_Requirements => (Type => Hard_Local_Deadline, Deadline => 5))),
   Event_Handlers => ((Type => Activity, Input_Event => Press, Output_Event => Sensed,
      Activity_Operation => Sense, Activity_Server => Handler)));
Transaction (Type => Regular, Name => Report,
   External_Events => ((Type => Periodic, Name => Minute, Period => 100)),
   Internal_Events => ((Type => Regular, Name => Logged)),
   Event_Handlers => ((Type => Activity, Input_Event => Minute, Output_Event => Logged,
      Activity_Operation => Log, Activity_Server => Slow)));
";

/// A transaction over two processors in the form of MAST 1.2; the handlers are not in the order of their activation.
const CHAIN: &str = "\
Processing_Resource (Type => Fixed_Priority_Processor, Name => left, Worst_Context_Switch => 0);
Processing_Resource (Type => Fixed_Priority_Processor, Name => right);
Scheduling_Server (Type => Fixed_Priority, Name => s1, Server_Processing_Resource => left,
   Server_Sched_Parameters => (Type => Fixed_Priority_Policy, The_Priority => 9));
Scheduling_Server (Type => Fixed_Priority, Name => s2, Scheduler => right,
   Server_Sched_Parameters => (Type => Fixed_Priority_Policy, The_Priority => 9));
Scheduling_Server (Type => Fixed_Priority, Name => s3, Server_Processing_Resource => left,
   Server_Sched_Parameters => (Type => Fixed_Priority_Policy, The_Priority => 4));
Operation (Type => Simple, Name => get, Worst_Case_Execution_Time => 2, Best_Case_Execution_Time => 1);
Operation (Type => Simple, Name => put, Worst_Case_Execution_Time => 3);
Transaction (Type => Regular, Name => flow,
   External_Events => ((Type => Periodic, Name => e, Period => 20, Max_Jitter => 1.5)),
   Internal_Events => (
      (Type => Regular, Name => o1, Timing_Requirements => (Type => Hard_Global_Deadline, Deadline => 6, Referenced_Event => e)),
      (Type => Regular, Name => o2, Timing_Requirements => (Type => Composite, Requirements_List => (
         (Type => Hard_Local_Deadline, Deadline => 7),
         (Type => Hard_Global_Deadline, Deadline => 12, Referenced_Event => e)))),
      (Type => Regular, Name => o3, Timing_Requirements => (Type => Hard_Global_Deadline, Deadline => 30, Referenced_Event => e))),
   Event_Handlers => (
      (Type => Activity, Input_Event => o2, Output_Event => o3, Activity_Operation => get, Activity_Server => s3),
      (Type => Activity, Input_Event => e, Output_Event => o1, Activity_Operation => get, Activity_Server => s1),
      (Type => Activity, Input_Event => o1, Output_Event => o2, Activity_Operation => put, Activity_Server => s2)));
";

const MS: Stated = Stated { cpus: None, unit: Some(TimeUnit::Milli) };

fn of(text: &str) -> Result<Workload, String> {
    read(MAST, text, MS).unwrap().map_err(|error| error.to_string())
}

#[test]
fn a_model_of_mast_is_the_set_that_it_means() {
    let read = of(MODEL).unwrap();
    let expected = json!({"cpus": 1, "scheduler": "p-fp", "tasks": [
        {"name": "Control", "wcet_us": 3500, "period_us": 10000, "deadline_us": 8000, "jitter_us": 1000, "priority": 1, "cpus": [0]},
        {"name": "Alarm", "wcet_us": 1000, "period_us": 50000, "deadline_us": 5000, "priority": 0, "cpus": [0]},
        {"name": "Report", "wcet_us": 4000, "period_us": 100_000, "priority": 2, "cpus": [0]}]});
    assert_eq!(set_file::write(&read.set), expected);
    let notes = read.notes.join("\n");
    for words in [
        "rank 0 is priority 35",
        "without a hard deadline (1)",
        "not read: Avg_Case_Execution_Time, Best_Case_Execution_Time, Max_Interrupt_Priority, Max_Priority, \
         Min_Interrupt_Priority, Min_Priority, Phase, Preassigned",
    ] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    assert!(!notes.contains("no transaction uses"), "{notes}");
    let idle =
        of(&MODEL.replace("Activity_Operation => Log", "Activity_Operation => Sense")).unwrap();
    assert!(
        idle.notes.join("\n").contains("no transaction uses: operation log"),
        "{:?}",
        idle.notes
    );
}

#[test]
fn several_activities_are_tasks_in_a_chain_whose_deadline_counts_from_the_release() {
    let read = of(CHAIN).unwrap();
    let expected = json!({"cpus": 2, "scheduler": "p-fp", "tasks": [
        {"name": "flow.get", "wcet_us": 2000, "bcet_us": 1000, "period_us": 20000, "deadline_us": 6000, "jitter_us": 1500, "priority": 0, "cpus": [0]},
        {"name": "flow.put", "wcet_us": 3000, "period_us": 20000, "deadline_us": 7000, "priority": 0, "cpus": [1]},
        {"name": "flow.get.3", "wcet_us": 2000, "bcet_us": 1000, "period_us": 20000, "deadline_us": 30000, "priority": 1, "cpus": [0]}],
        "chains": [
            {"name": "flow to o2", "tasks": ["flow.get", "flow.put"], "activation": "event", "deadline_us": 10500},
            {"name": "flow", "tasks": ["flow.get", "flow.put", "flow.get.3"], "activation": "event", "deadline_us": 28500}]});
    assert_eq!(set_file::write(&read.set), expected);
    assert!(read.notes.join("\n").contains("subtracts the jitter"), "{:?}", read.notes);
    // Activities of one server have one rank; `corehop check` decides no chain with such ranks.
    let one = of(&CHAIN.replace("Activity_Server => s3", "Activity_Server => S1")).unwrap();
    assert_eq!(one.set.tasks().iter().map(Task::priority).collect::<Vec<_>>(), [Some(0); 3]);
}

/// Returns the model under EDF: the servers have the deadlines 8, 100 and 5.
fn under_edf() -> String {
    let text =
        MODEL.replace("Type => Fixed_Priority,", "Type => EDF,").replace(", Max_Jitter => 1", "");
    let text =
        text.replace("Fixed_Priority_Policy, The_Priority => 20", "EDF_Policy, Deadline => 8.0");
    let text =
        text.replace("Fixed_Priority_Policy, The_Priority => 10", "EDF_Policy, Deadline => 90");
    text.replace("Interrupt_FP_Policy, The_Priority => 35", "EDF_Policy, Deadline => 5")
}

#[test]
fn servers_under_edf_have_the_deadlines_of_their_events() {
    let read = of(&under_edf()).unwrap();
    let expected = json!({"cpus": 1, "scheduler": "p-edf", "tasks": [
        {"name": "Control", "wcet_us": 3500, "period_us": 10000, "deadline_us": 8000, "cpus": [0]},
        {"name": "Alarm", "wcet_us": 1000, "period_us": 50000, "deadline_us": 5000, "cpus": [0]},
        {"name": "Report", "wcet_us": 4000, "period_us": 100_000, "deadline_us": 90000, "cpus": [0]}]});
    assert_eq!(set_file::write(&read.set), expected);
    for (from, to, words) in [
        ("Deadline => 8.0", "Deadline => 9", "the deadline of the server is 9"),
        ("Period => 10,", "Period => 10, Max_Jitter => 1,", "under EDF, corehop reads no jitter"),
        (
            "EDF_Policy, Deadline => 90",
            "Fixed_Priority_Policy, The_Priority => 3",
            "its scheduler, EDF",
        ),
    ] {
        let error = of(&under_edf().replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn capital_and_small_letters_and_comments_and_spaces_make_no_difference() {
    let plain = of(MODEL).unwrap();
    let names = |text: &str| text.to_lowercase();
    let shouted = of(&MODEL.to_uppercase()).unwrap();
    assert_eq!(
        names(&set_file::write(&shouted.set).to_string()),
        names(&set_file::write(&plain.set).to_string())
    );
    // A reference to a server may differ from the name of the server in its case, and may stand in quotation marks.
    let mixed = MODEL.replace("Activity_Server => Fast", "activity_SERVER => \"fAST\"");
    let commented = mixed.replace(',', ", -- (a; comment => \"\n").replace("=>", " =>\t");
    let commented = commented.replace("Sense,", "Sense--ends here\n,").replace('\n', "\r\n");
    assert_eq!(of(&commented).unwrap().set, plain.set);
    let dense: String =
        MODEL.lines().skip(1).collect::<String>().replace("   ", "").replace(" => ", "=>");
    assert_eq!(of(&dense).unwrap().set, plain.set);
}

#[test]
fn times_need_a_unit_and_a_number_of_processors_cannot_be_overruled() {
    let error = read(MAST, MODEL, Stated::default()).unwrap().unwrap_err().to_string();
    assert!(
        error.starts_with("line 18, Transaction `Control`: `wcet` is 3.5: a time without a unit"),
        "{error}"
    );
    let error = read(MAST, MODEL, Stated { cpus: Some(2), ..MS }).unwrap().unwrap_err().to_string();
    assert!(error.contains("--cpus is 2, but the file states 1"), "{error}");
    let fine = MODEL.replace("=> 25E-1", "=> 0.0000001").replace("=> 8,", "=> 8.0000009,");
    let read = of(&fine).unwrap();
    let task = &set_file::write(&read.set)["tasks"][0];
    assert_eq!((&task["wcet_us"], &task["deadline_us"]), (&json!(1000.001), &json!(8000)));
    assert!(read.notes.join("\n").contains("finer than a nanosecond are rounded"));
}

/// Returns the error for a model in which `to` stands in place of the first `from`.
fn changed(model: &str, from: &str, to: &str) -> String {
    let text = model.replacen(from, to, 1);
    assert_ne!(text, model, "{from}");
    match of(&text) {
        Err(error) => error,
        Ok(read) => panic!("{from} to {to} is read: {}", set_file::write(&read.set)),
    }
}

#[test]
fn parts_that_no_task_set_has_are_refused_by_line() {
    for (from, to, words) in [
        (
            "Operation (",
            "Shared_Resource (Type => SRP_Resource, Name => r);\nOperation (",
            "line 13, Shared_Resource: the reader has no locks",
        ),
        ("List => ()", "List => (r)", "line 14, Shared_Resources_List: the reader has no locks"),
        (
            "0.8,",
            "0.8, Shared_Resources_To_Lock => (r),",
            "Shared_Resources_To_Lock: the reader has no locks",
        ),
        (
            "Preassigned => Yes)",
            "Preassigned => Yes), Synchronization_Parameters => (Type => SRP_Parameters)",
            "Synchronization_Parameters: ",
        ),
        (
            "0.8,",
            "0.8, New_Sched_Parameters => (Type => Overridden_Fixed_Priority, The_Priority => 9),",
            "line 13, New_Sched_Parameters: ",
        ),
        (
            "Type => Regular_Processor",
            "Type => Packet_Based_Network",
            "line 3, Processing_Resource: `Type` is Packet_Based_Network",
        ),
        (
            "Speed_Factor => 1.0",
            "Speed_Factor => 2.0",
            "`Speed_Factor` is 2.0: a task set has no speeds",
        ),
        (
            "Worst_ISR_Switch => 0.00",
            "Worst_ISR_Switch => 0.01",
            "`Worst_ISR_Switch` is 0.01: set the overhead to 0",
        ),
        (
            "Worst_Context_Switch => 0",
            "Worst_Context_Switch => 5",
            "line 6, Policy: `Worst_Context_Switch` is 5",
        ),
        (
            "Speed_Factor => 1.0",
            "System_Timer => (Type => Ticker, Period => 1)",
            "line 4, System_Timer: the reader has no timers",
        ),
        (
            "Speed_Factor => 1.0",
            "List_of_Drivers => (x)",
            "line 4, List_of_Drivers: not known here",
        ),
        (
            "Type => Primary_Scheduler",
            "Type => Secondary_Scheduler",
            "`Type` is Secondary_Scheduler",
        ),
        ("Type => Fixed_Priority,", "Type => FP_Packet_Based,", "`Type` is FP_Packet_Based"),
        (
            "Fixed_Priority_Policy",
            "Non_Preemptible_FP_Policy",
            "`Type` is Non_Preemptible_FP_Policy",
        ),
        ("Fixed_Priority_Policy", "Polling_Policy", "`Type` is Polling_Policy"),
        ("Fixed_Priority_Policy", "Sporadic_Server_Policy", "`Type` is Sporadic_Server_Policy"),
        (
            "Fixed_Priority_Policy, The_Priority => 20",
            "EDF_Policy, Deadline => 8",
            "not the policy of its scheduler, fixed priorities",
        ),
        ("Type => Simple", "Type => Message_Transmission", "`Type` is Message_Transmission"),
    ] {
        let error = changed(MODEL, from, to);
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn events_and_handlers_that_no_task_set_has_are_refused_by_line() {
    for (from, to, words) in [
        (
            "Type => Sporadic, Name => Press, Min_Interarrival",
            "Type => Bursty, Name => Press, Bound_Interval",
            "`Type` is Bursty",
        ),
        (
            "Type => Sporadic, Name => Press, Min_Interarrival",
            "Type => Unbounded, Name => Press, Avg_Interarrival",
            "line 25, External_Events: `Type` is Unbounded",
        ),
        ("Type => Sporadic", "Type => Singular", "`Type` is Singular"),
        (
            "Hard_Global_Deadline",
            "Soft_Global_Deadline",
            "line 21, Timing_Requirements: `Type` is Soft_Global_Deadline",
        ),
        (
            "Type => Hard_Local_Deadline, Deadline",
            "Type => Max_Output_Jitter_Req, Max_Output_Jitter",
            "hard deadlines only",
        ),
        ("Type => Activity", "Type => System_Timed_Activity", "`Type` is System_Timed_Activity"),
        ("Type => Activity", "Type => Multicast", "line 22, Event_Handlers: `Type` is Multicast"),
        ("Type => Activity", "Type => Delay", "`Type` is Delay"),
        ("Model (", "Driver (", "line 2, Driver: not known as an element"),
        ("Model (Model_Name", "Transaction (Colour", "line 2, Transaction: `Type` is missing"),
    ] {
        let error = changed(MODEL, from, to);
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[test]
fn values_that_are_missing_or_twice_or_make_no_sense_are_refused() {
    for (from, to, words) in [
        (
            "The_Priority => 35",
            "The_Priority => 20",
            "`The_Priority` 20 of an interrupt is not above",
        ),
        (
            "The_Priority => 20",
            "The_Priority => 2.5",
            "`The_Priority` is 2.5: expected a whole number",
        ),
        ("The_Priority => 20", "The_Priority => -2", "`The_Priority` is -2"),
        ("The_Priority => 20, ", "", "`The_Priority` is missing"),
        (
            "Worst_Case_Execution_Time => 1, ",
            "",
            "line 13, Operation: `Worst_Case_Execution_Time` is missing",
        ),
        (
            "Worst_Case_Execution_Time => 1,",
            "Worst_Case_Execution_Time => -1,",
            "`Worst_Case_Execution_Time` is -1",
        ),
        ("25E-1", "1.0E100", "`Worst_Case_Execution_Time` is 1.0E100"),
        ("Worst_Case_Execution_Time => 1,", "Worst_Case_Execution_Time => (1),", "is a group"),
        ("Period => 10,", "Period => 10, PERIOD => 20,", "line 19: `PERIOD` is stated twice"),
        ("Period => 10,", "", "line 19, External_Events: `Period` is missing"),
        ("Period => 10,", "Period => 3,", "wcet_us is 3500: expected at most period_us"),
        ("Period => 10,", "Period => 0,", "period_us is 0"),
        ("Period => 10,", "Period => 10, Colour => 1,", "line 19, Colour: not known here"),
        ("Period => 10,", "Period => 10, 7,", "line 19: a value without a name"),
        ("Deadline => 8", "Deadline => 0", "deadline_us is 0"),
        (
            "Referenced_Event => Tick",
            "Referenced_Event => Acted",
            "`Referenced_Event` is Acted: expected the external event Tick",
        ),
    ] {
        let error = changed(MODEL, from, to);
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(of("").unwrap_err().contains("there is no Transaction"));
}

#[test]
fn references_that_lead_nowhere_and_names_that_are_twice_are_refused() {
    for (from, to, words) in [
        ("Host => Board", "Host => Bord", "`Host` is Bord: there is no Processing_Resource"),
        (
            "Scheduler => Kernel",
            "Scheduler => Colonel",
            "`Scheduler` is Colonel: there is no scheduler",
        ),
        (
            "Scheduler => Kernel",
            "Server_Processing_Resource => Bord",
            "`Server_Processing_Resource` is Bord",
        ),
        ("Scheduler => Kernel,", "", "expected either `Scheduler` or `Server_Processing_Resource`"),
        (
            "Name => Slow",
            "Name => FAST",
            "`Name` is FAST: expected a name that no such part before has",
        ),
        ("Name => Report", "Name => Alarm", "name is `Alarm`"),
        ("Name => Logged", "Name => Minute", "`Name` is Minute"),
        ("Name => Logged", "Name => Locked", "there is no event `Logged`"),
        (
            "Name => Logged)",
            "Name => Logged), (Type => Regular, Name => Lost)",
            "no event handler generates the event `lost`",
        ),
        (
            "Composite_Operation_List => (Sense, Think)",
            "Composite_Operation_List => (Act)",
            "there is no Operation `Act` above",
        ),
        (
            "Composite_Operation_List => (Sense, Think)",
            "Composite_Operation_List => (Sense, a => b)",
            "expected a list of names",
        ),
        (
            "Composite_Operation_List => (Sense, Think)",
            "Composite_Operation_List => Sense",
            "expected a list of names",
        ),
        (
            "Activity_Server => Fast",
            "Activity_Server => Fist",
            "there is no Scheduling_Server `Fist`",
        ),
        (
            "Input_Event => Tick",
            "Input_Event => Tock",
            "`Tock` does not follow from the external event",
        ),
        (
            "((Type => Periodic",
            "((Type => Periodic, Name => f, Period => 5), (Type => Periodic",
            "expected one external event, found 2",
        ),
        (
            "External_Events => ((Type => Periodic, Name => Minute, Period => 100))",
            "External_Events => ()",
            "found 0",
        ),
    ] {
        let error = changed(MODEL, from, to);
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(of("").unwrap_err().contains("there is no Transaction"));
}

#[test]
fn transactions_that_are_no_chain_are_refused() {
    for (from, to, words) in [
        ("Input_Event => o2", "Input_Event => o1", "two event handlers have the input `o1`"),
        ("Output_Event => o3", "Output_Event => o2", "two event handlers have the output `o2`"),
        ("Input_Event => o2", "Input_Event => o3", "the input `o3` does not follow"),
        ("Output_Event => o2", "Output_Event => e", "the input `o2` does not follow"),
        (
            "Deadline => 30, Referenced_Event => e",
            "Deadline => 1.5, Referenced_Event => e",
            "is not longer than Max_Jitter",
        ),
        (
            "Hard_Global_Deadline, Deadline => 30, Referenced_Event => e",
            "Hard_Local_Deadline, Deadline => 30",
            "has no Hard_Global_Deadline",
        ),
        ("Best_Case_Execution_Time => 1", "Best_Case_Execution_Time => 3", "bcet_us is 3000"),
    ] {
        let error = changed(CHAIN, from, to);
        assert!(error.contains(words), "{words}: {error}");
    }
    let edf = CHAIN.replace("Fixed_Priority_Policy, The_Priority", "EDF_Policy, Deadline");
    let edf = edf
        .replace("Fixed_Priority_Processor", "Regular_Processor")
        .replace(", Worst_Context_Switch => 0", "");
    let schedulers = "Scheduler (Type => Primary_Scheduler, Name => left, Host => left, Policy => (Type => EDF));
        Scheduler (Type => Primary_Scheduler, Name => right, Host => right, Policy => (Type => EDF));";
    assert!(
        of(&format!("{schedulers}{edf}")).unwrap_err().contains("several activities under EDF")
    );
    // A processor that runs under another policy.
    let other = "Processing_Resource (Type => Regular_Processor, Name => p);
        Scheduler (Type => Primary_Scheduler, Name => p, Host => p, Policy => (Type => EDF));
        Scheduling_Server (Type => Regular, Name => x, Scheduler => p, Server_Sched_Parameters => (Type => EDF_Policy, Deadline => 9));
        Transaction (Type => Regular, Name => y, External_Events => ((Type => Periodic, Name => a, Period => 9)),
           Internal_Events => ((Type => Regular, Name => b)), Event_Handlers => ((Type => Activity, Input_Event => a,
           Output_Event => b, Activity_Operation => Sense, Activity_Server => x)));";
    assert!(of(&format!("{MODEL}{other}")).unwrap_err().contains("under another policy"));
    let twice =
        "Scheduler (Type => Primary_Scheduler, Name => k, Host => Board, Policy => (Type => EDF));";
    assert!(of(&format!("{MODEL}{twice}")).unwrap_err().contains("has a scheduler already"));
}

#[test]
fn damaged_text_is_refused_with_its_line_and_column() {
    for (text, words) in [
        ("Model (a => b)", "not valid MAST: line 1, column 15: the text ends: expected `;`"),
        ("Model (a => b;", "line 1, column 14: found `;`: expected `,` or `)`"),
        ("-- x\n  Model a", "line 2, column 9: found `a`: expected `(`"),
        ("Model (a => );", "line 1, column 13: found `)`: expected a word or `(`"),
        ("Model (a = b);", "line 1, column 10: `=` has no meaning"),
        ("Model (a => \"b);", "line 1, column 13: the quotation mark is not closed"),
        ("(a);", "line 1, column 1: found `(`: expected a keyword"),
        ("Model (ä => b);\n;", "line 2, column 1: found `;`: expected a keyword"),
        ("Model (a => b,", "line 1, column 15: the text ends: expected a word"),
        ("Model (=> b);", "line 1, column 8: found `=>`: expected a word"),
        ("Model (a => b -- c\n", "line 1, column 15: the text ends"),
        ("Model (a => b) {};", "column 16: `{` has no meaning"),
    ] {
        let error = of(text).unwrap_err();
        assert!(error.contains(words), "{text}: {words}: {error}");
    }
    // Every truncation is refused, and none panics.
    for end in (0..MODEL.len() - 1).filter(|end| MODEL.is_char_boundary(*end)) {
        let cut = &MODEL[..end];
        if let Ok(read) = of(cut) {
            assert!(read.set.tasks().len() < 3, "{cut}");
        }
    }
}

#[test]
fn nesting_is_bounded_and_long_texts_take_linear_time() {
    let deep =
        |levels: usize| format!("Model ({}{});", "a => (".repeat(levels), ")".repeat(levels));
    assert!(of(&deep(15)).unwrap_err().contains("there is no Transaction"));
    let error = of(&deep(16)).unwrap_err();
    assert!(error.contains("line 1, column 103: parentheses deeper than 16 levels"), "{error}");
    assert!(of(&deep(1_000_000)).unwrap_err().contains("deeper than 16"));
    assert!(of(&"(".repeat(1_000_000)).is_err());
    // One line with a million words, and sums that double a hundred times.
    let long = format!("Model (a => ({}b));", "b, ".repeat(1_000_000));
    assert!(of(&long).unwrap_err().contains("there is no Transaction"));
    let mut double =
        "Operation (Type => Simple, Name => o0, Worst_Case_Execution_Time => 1);".to_owned();
    for at in 1..100 {
        let before = at - 1;
        let next = format!(
            "Operation (Type => Composite, Name => o{at}, Composite_Operation_List => (o{before}, o{before}));"
        );
        double.push_str(&next);
    }
    assert!(of(&double).unwrap_err().contains("the sum of the execution times is too large"));
}
