// SPDX-License-Identifier: MIT OR Apache-2.0
//! Command lines of every verb, and how a seed makes them hostile.
//!
//! No line measures this host or changes it: the guarded words of a recipe (`--on`, `--dry-run`) stay as they are, in
//! front, and the options in [`NEVER`] are not drawn. As root, [`super::verdict`] gives up all rights as well.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::Command;

use corehop_fixtures::changed::{PIECES, SplitMix};

/// A verb, with guarded words; and words that are changed. A word with a dot may be a file of [`super::seeds`].
pub(crate) const RECIPES: [(&str, &str); 86] = [
    ("advise", "samples.parquet --wss 4KiB --length 4ms"),
    ("advise", "model.json --json"),
    ("advise set", "set.json --costs costs.csv --load idle --json"),
    ("advise simulate", "--idle --samples 6 --wss 4KiB --on numa.toml"),
    ("compare", "samples.parquet samples.part"),
    ("compare", "program.parquet program.parquet --json"),
    ("compare", "shared.parquet switches.parquet"),
    ("check", "set.json"),
    ("check", "held.json --ignore-cpus"),
    ("check", "held.json --test all --json"),
    ("check", "set.json --test p-fp-rta --delay 100us --json"),
    ("check", "cached.json --costs costs.csv --load idle --statistic max"),
    ("check", "cached.json --costs model.json --length 4ms"),
    ("check", "placed.json --platform numa.toml --test all"),
    ("check", "set.json --overheads overheads.csv --quantum 1ms --dedicated"),
    ("check", "set.json --overheads overheads.parquet -o new.json"),
    ("check", "set.json --supply supply.parquet --json"),
    ("check", "placed.json --supply supply.json --test all"),
    ("doctor", "--sysfs-root smt_laptop.tree --json"),
    ("doctor", "--sysfs-root one_cpu.tree"),
    (
        "measure synthetic --on xeon_x5650",
        "--samples 2 --replicates 2 --wss 4KiB --load idle -q -o new.parquet",
    ),
    (
        "measure synthetic --on xeon_l7455",
        "--samples 2 --replicates 2 --wss 4KiB,8KiB --load constructed --polluter 64KiB --event preemption --length 0..1ms --json",
    ),
    (
        "measure synthetic --on xeon_x5650 --dry-run",
        "--precision 5% --wss 64KiB --cpus 0-1 --budget 1s --write-ratio 1/4 --json",
    ),
    (
        "measure synthetic --on xeon_x5650",
        "--samples 2 --replicates 2 --from-trace lackey.txt --trace-take 5 --load idle -q --stream",
    ),
    (
        "measure synthetic --on xeon_x5650",
        "--samples 2 --replicates 2 --from-trace memtrace.txt --load idle --event preemption",
    ),
    (
        "measure synthetic --on xeon_x5650",
        "--samples 2 --replicates 2 --wss 4KiB --load idle --placement contiguous --colours 16 --job-colours 0-3 --job-ways 3:0-3",
    ),
    (
        "measure synthetic --on numa.toml",
        "--samples 2 --replicates 2 --wss 4KiB --load idle --preemptor 4KiB --preemptor-wss 4KiB",
    ),
    (
        "measure access-time --on xeon_x5650",
        "--samples 2 --replicates 2 --wss 4KiB --chains 4 --page thp -q",
    ),
    (
        "measure preemption-length --on xeon_x5650",
        "--samples 2 --replicates 2 --length 4ms --load idle -q",
    ),
    (
        "measure polluter-sweep --on xeon_x5650",
        "--samples 2 --replicates 2 --wss 4KiB --length 1ms --load idle -q",
    ),
    (
        "measure conditions --on xeon_x5650",
        "--samples 12 --replicates 12 --wss 4KiB --load idle -q",
    ),
    (
        "measure shared-data --on xeon_x5650",
        "--program exchange --items 10 --rounds 20 --samples 2 --threads 2 -q",
    ),
    (
        "measure shared-data --on xeon_x5650",
        "--program bucket-sort,fork-join --items 10 --buckets 2 --fibonacci 2 --rounds 5 --samples 2 -q",
    ),
    (
        "measure core-switch --on xeon_x5650",
        "--samples 2 --pair 0-1 --mechanism v1,v5 --call pread --bytes 64B --batch 2 --outstanding 1,2",
    ),
    (
        "measure schedule-sensitive --on xeon_x5650",
        "--tasks 3 --sets 1 --duration 20ms --wss 4KiB --load idle --scheduler g-edf --utilisation 0.1..0.4 --period 10..100ms --sporadic 0.1 --share 50% -q",
    ),
    (
        "measure schedule-sensitive --on xeon_x5650",
        "--task-set set.json --duration 20ms --wss 4KiB --load idle -q",
    ),
    (
        "measure program-costs --dry-run",
        "--progress count --event preemption --length 2ms --preemptor 64KiB --share 3% --block 50ms --rounds 2 -- true",
    ),
    ("measure supply --dry-run", "--watched 1s --window 10ms --threshold 1us --cpus 0"),
    (
        "measure overheads --dry-run",
        "--tasks 3 --sets 1 --duration 20ms --cpus 0 --scheduler g-fp --no-bpf",
    ),
    ("record --dry-run", "--wss 4KiB --costs costs.csv --repeat 2 --arm plain=true -- true"),
    (
        "record from",
        "trace.txt --pid 7 --platform xeon_l7455 --costs costs.csv --load idle --wss 64KiB --json --trace new.json -o new.parquet",
    ),
    ("compare", "times.json"),
    ("check", "tasks.csv"),
    ("convert tasks", "tasks.yaml --unit ms --cpus 2"),
    ("convert tasks", "schedcat.xml"),
    ("convert tasks", "mast.txt --unit ms"),
    ("sim platform", "lscpu.json --json"),
    ("sim platform", "topology.xml -o new.toml"),
    ("sim platform", "xeon_x5650 --exchange exchanges.csv"),
    ("try --duration 1s", "--seed 3 --json -- true"),
    ("measure plan --on xeon_x5650", "plan.json -q -o new.parquet"),
    ("measure plan --on xeon_x5650 --dry-run", "plan.json --json"),
    (
        "offload simulate --on xeon_x5650",
        "--os-cores 1 --policy wc,af --threads 2 --compute 10us --call-time 5us --json",
    ),
    (
        "offload --os-cores 1",
        "--decide never --threshold 4KiB --call read=64KiB --spin 5 -o new.json -- true",
    ),
    ("place simulate --on xeon_x5650", "--pairs 1 --start packed --search"),
    ("place replay placement.jsonl", "--json"),
    ("place replay", "placement.jsonl --model gain.json"),
    ("sim validate", "--list"),
    ("check study", "study.toml --sets 2 --seed 1 --threads 1 --json"),
    (
        "check study",
        "study.toml --sets 2 --shard 0/2 -o new.parquet --page new.html --picture new.svg",
    ),
    ("check study", "limited.toml --sets 2 --json"),
    ("check study", "counts.parquet --costs costs.csv --json"),
    ("check study merge", "counts.parquet counts.parquet"),
    ("sim platform", "platform.toml --json"),
    ("sim platform", "numa.toml --svg new.svg --gem5 new.py -o new.toml"),
    ("sim platform", "hybrid.tree"),
    ("advise fit", "samples.parquet conditions.parquet -o new.json"),
    ("advise fit", "shared.parquet"),
    ("advise predict", "model.json --wss 4KiB --length 4ms --event preemption"),
    ("advise gain", "gain.json --smr 0.5 --mpmi 300"),
    ("report", "samples.parquet access.parquet length.parquet numa.toml --table csv -o new.html"),
    (
        "report",
        "switches.parquet tasks.parquet tasks.jobs.parquet shared.parquet sweep.parquet conditions.parquet",
    ),
    ("report", "program.parquet overheads.parquet placement.jsonl counts.parquet -o new.html"),
    ("convert tasks", "rtapp.json --cpus 2"),
    ("convert rt-app", "set.json --duration 2 --json"),
    ("convert schedcat", "overheads.csv"),
    ("convert rows", "samples.part --salvage -o new.parquet --json"),
    ("convert costs", "schedcat.csv --load idle --statistic max"),
    ("report contents", "samples.parquet --rows 3"),
    ("help", "l2_migration"),
    ("help measure synthetic", "--json"),
    ("measure platform --help", "--watch 1 -o new.toml"),
    ("sim calibrate --help", "-o new.toml"),
    ("sim validate-host --help", "numa.toml"),
    ("doctor restore --help", "--json"),
    ("check deploy --help", "set.json --folder new"),
];

/// Recipes whose words are no options: a shell, a folder.
pub(crate) const PLAIN: [(&str, &str); 4] = [
    ("help --completions", "bash"),
    ("help --man", "new"),
    ("report contents", "placement.jsonl"),
    ("report contents", "program.threads.parquet"),
];

/// Options that measure this host, name its processes, change the machine, or undo the guard.
const NEVER: [&str; 9] = [
    "on",
    "allow-system",
    "pid",
    "cgroup",
    "coverage",
    "split-locks",
    "watch",
    "command",
    "workload",
];

/// Values that are too large, too small, of the wrong kind or of no kind.
const VALUES: [&str; 64] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "-1",
    "64",
    "65",
    "4095",
    "65535",
    "65536",
    "65537",
    "1000000",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-308",
    "-1e308",
    "NaN",
    "inf",
    "-inf",
    "0.5",
    "1/0",
    "0/0",
    "1/3",
    "50%",
    "1e308%",
    "0%",
    "NaN%",
    "0B",
    "1B",
    "63B",
    "64KiB",
    "16777215 GiB",
    "17179869183 GiB",
    "18446744073709551615 B",
    "1e308ms",
    "0ns",
    "1ns",
    "4ms",
    "1h",
    "5124095h",
    "18446744073709551615ns",
    "50..0ms",
    "0..0ns",
    "0..18446744073709551615ns",
    "0-65535",
    "65535-0",
    "0,0,0",
    "1-",
    "3:0-31",
    "0:99",
    "x=1",
    "page=thp",
    "\u{1b}]0;x\u{7}",
    "é",
    "",
    " ",
    "%s%n",
];

/// The options of each verb and experiment, from the program's own completions.
#[derive(Debug)]
pub(crate) struct Grammar(BTreeMap<String, Vec<(String, bool)>>);

impl Grammar {
    /// Asks the program.
    pub(crate) fn of(program: &Path) -> Self {
        let output =
            Command::new(program).args(["help", "--completions", "fish"]).output().unwrap();
        let mut options: BTreeMap<String, Vec<(String, bool)>> = BTreeMap::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let Some((_, rest)) = line.split_once("__fish_corehop_using_subcommand ") else {
                continue;
            };
            let Some((place, rest)) = rest.split_once('"') else { continue };
            let mut words = place.split([' ', ';']).filter(|it| !it.is_empty());
            let verb = words.next().unwrap();
            let of = place.split_once("__fish_seen_subcommand_from ");
            let of = of.filter(|_| !place.contains("not __fish"));
            let key = of
                .map_or_else(|| verb.to_owned(), |(_, experiment)| format!("{verb} {experiment}"));
            let all = options.entry(key).or_default();
            let Some((_, name)) = rest.split_once(" -l ") else { continue };
            let name = name.split(' ').next().unwrap().to_owned();
            // The description comes before the flag; `-r` asks for a value.
            let takes = rest.rsplit('\'').next().unwrap_or_default().contains("-r");
            let takes = takes || rest.split(" -d ").next().unwrap_or_default().contains(" -r");
            all.push((name, takes));
        }
        Self(options)
    }

    /// The verbs and experiments.
    pub(crate) fn verbs(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    fn options(&self, guarded: &str) -> &[(String, bool)] {
        let words: Vec<&str> = guarded.split(' ').collect();
        let two = words.get(..2).and_then(|two| self.0.get(&two.join(" ")));
        two.or_else(|| self.0.get(words[0])).map_or(&[], Vec::as_slice)
    }
}

/// A hostile value.
fn value(names: &[String], draw: &mut SplitMix) -> OsString {
    match draw.below(16) {
        0 => OsString::from_vec(b"\xff\xfe\x00bad"[..2].to_vec()),
        1 => "9".repeat(1 << draw.below(14)).into(),
        2 | 3 => names[draw.below(names.len())].clone().into(),
        4 => ["-", "/dev/null", "/dev/full", "/dev/zero", "/", ".", "no/such", "/proc/self/mem"]
            [draw.below(8)]
        .into(),
        5 => PIECES[draw.below(PIECES.len())].replace('\0', "").into(),
        _ => VALUES[draw.below(VALUES.len())].into(),
    }
}

/// The words of a recipe, some of them changed.
pub(crate) fn words(
    (guarded, free): (&str, &str),
    grammar: &Grammar,
    names: &[String],
    draw: &mut SplitMix,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = free.split_whitespace().map(OsString::from).collect();
    for _ in 0..draw.below(4) {
        let at = draw.below(words.len().max(1));
        match draw.below(8) {
            0 if !words.is_empty() => drop(words.remove(at)),
            1 => words.insert(at, value(names, draw)),
            2 | 3 => {
                let options = grammar.options(guarded);
                if options.is_empty() {
                    continue;
                }
                let (name, takes) = &options[draw.below(options.len())];
                if NEVER.contains(&name.as_str()) {
                    continue;
                }
                // In front of `--` and the program.
                let end = words.iter().position(|it| it == "--").unwrap_or(words.len());
                if *takes {
                    words.insert(end, value(names, draw));
                }
                words.insert(end, format!("--{name}").into());
            }
            _ => {
                // A value, rather than the name of an option.
                let from = (0..words.len()).map(|it| (at + it) % words.len());
                let is_value = |it: &usize| !words[*it].to_string_lossy().starts_with('-');
                if let Some(it) = from.into_iter().find(is_value) {
                    words[it] = value(names, draw);
                }
            }
        }
    }
    guarded.split(' ').map(OsString::from).chain(words).collect()
}
