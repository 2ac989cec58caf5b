// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop sim platform`, as it is typed.

#[path = "../../corehop-linux/tests/trees/mod.rs"]
mod trees;

use std::fs;
use std::process::{Command, Output};

use corehop_plan::platform::{Latency, Platform};
use tempfile::TempDir;

fn corehop(args: &[&str]) -> Output {
    // The first word: this host, measured.
    let (verb, args) = match args {
        ["measured", rest @ ..] => (["measure", "platform"], rest),
        rest => (["sim", "platform"], rest),
    };
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(verb).args(args).output().unwrap()
}

/// The printed text of a command that ends well and prints no error; beside JSON stands the sentence.
fn answer(args: &[&str]) -> String {
    let (text, notes) = answer_with_notes(args);
    let is_json = args.contains(&"--json");
    let beside = notes.lines().filter(|line| !line.starts_with("note: ["));
    assert_eq!(beside.count() > 0, is_json, "{args:?}: {notes}");
    assert!(!notes.contains("corehop: "), "{args:?}: {notes}");
    text
}

/// The printed text of a command that ends well, and what it says on stderr.
fn answer_with_notes(args: &[&str]) -> (String, String) {
    let output = corehop(args);
    let [text, notes] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(output.status.success(), "{args:?}: {notes}");
    (text, notes)
}

#[test]
fn a_platform_that_lacks_what_several_cores_share_is_told_what_a_simulation_takes_instead() {
    assert_eq!(answer_with_notes(&["xeon_x5650"]).1, "");
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("mine.toml");
    let mut platform = Platform::named("xeon_x5650").unwrap().unwrap();
    platform.servers.clear();
    platform.latencies.clear();
    platform.tlbs.clear();
    fs::write(&path, platform.to_toml()).unwrap();
    let (_, notes) = answer_with_notes(&[path.to_str().unwrap()]);
    assert!(notes.contains("[[server]]") && notes.contains("shared_l3, other_package"), "{notes}");
    assert!(
        notes.contains("[[tlb]]: no TLB") && notes.contains("[core]: no parallelism"),
        "{notes}"
    );
}

/// The error of a command, with its exit code.
fn complaint(args: &[&str]) -> (i32, String) {
    let output = corehop(args);
    assert!(output.stdout.is_empty());
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stderr).unwrap().replace("\n         ", " "),
    )
}

#[test]
fn this_host_is_described_as_text_as_json_as_a_file_and_as_a_drawing() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (toml, svg) = (path("host.toml"), path("host.svg"));
    let json = answer(&["--json", "-o", &toml, "--svg", &svg]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let from_json: Platform = serde_json::from_value(json["platform"].clone()).unwrap();
    let classes = ["classes", "not_measurable"].map(|key| json[key].as_array().unwrap().len());
    assert_eq!(classes.iter().sum::<usize>(), 5);
    let from_file = Platform::from_toml(&fs::read_to_string(&toml).unwrap()).unwrap();
    assert_eq!(from_json, from_file);
    assert!(fs::read_to_string(&svg).unwrap().starts_with("<svg"));
    let text = answer(&[&toml]);
    assert!(text.starts_with(&from_file.name) && text.contains("classes of CPU pairs"), "{text}");
}

#[test]
fn a_platform_of_the_library_and_a_copied_machine_are_described_alike() {
    assert!(answer(&["xeon_l7455"]).contains("l2_migration      for instance CPU 0 to CPU 1"));
    let tree = trees::tree("xeon_two_sockets");
    let text = answer(&[tree.path().to_str().unwrap()]);
    assert!(text.contains("not measurable here: l2_migration (no two CPUs of"), "{text}");
}

#[test]
fn what_is_not_there_or_not_right_is_named_with_the_remedy_and_the_documented_code() {
    let folder = TempDir::new().unwrap();
    let bad = folder.path().join("bad.toml");
    fs::write(&bad, "schema = 1\nid = \"x\"\nname = \"x\"\ncpus = 4\n").unwrap();
    let bad = bad.to_str().unwrap();
    let empty = folder.path().to_str().unwrap();
    for (args, code, words) in [
        (&["abacus"][..], 2, "xeon_l7455, xeon_x5650"),
        (&["/nowhere/x.toml"], 2, "/nowhere/x.toml"),
        (&[bad], 4, "line 4, `cpus`"),
        (&[empty], 2, "give the directory that contains sys/ and proc/"),
        (&[empty, "xeon_l7455"], 2, "unexpected argument"),
        (&["xeon_l7455", "-o", "/nowhere/x.toml"], 2, "/nowhere/x.toml: its folder does not exist"),
    ] {
        let (got, text) = complaint(args);
        assert!(got == code && text.contains(words), "{args:?}: {got}\n{text}");
    }
}

#[test]
fn a_platform_without_a_cpu_to_use_or_with_impossible_sizes_is_refused_by_the_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("x.toml");
    let path = path.to_str().unwrap();
    let whole = corehop(&["xeon_l7455", "-o", path]);
    assert!(whole.status.success(), "{whole:?}");
    let text = fs::read_to_string(path).unwrap();
    let name = text.lines().find(|line| line.starts_with("name = ")).unwrap();
    let empty = format!("{name}\nallowed = {{ value = \"\", source = \"assumed\" }}");
    fs::write(path, text.replacen(name, &empty, 1)).unwrap();
    let (code, said) = complaint(&[path]);
    assert!(code == 4 && said.contains("allowed") && said.contains("no CPU"), "{code}: {said}");
}

#[test]
fn measuring_enters_exchanges_and_latencies_in_the_order_that_any_machine_has() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.toml");
    let text = answer(&["measured", "--watch", "2", "-o", path.to_str().unwrap()]);
    assert!(text.contains("stated facts, checked"), "{text}");
    let host = Platform::from_toml(&fs::read_to_string(&path).unwrap()).unwrap();
    let picos = |latency: Latency| match latency {
        Latency::Picos(picos) => picos,
        Latency::MilliCycles(_) => panic!("a host is measured in time"),
    };
    let exchanges = &host.exchange.as_ref().unwrap().value;
    let (controls, pairs): (Vec<_>, Vec<_>) = exchanges.iter().partition(|e| e.from == e.to);
    // On large machines only some CPUs of each class are looked at.
    assert!(controls.len() == host.usable().len() || host.usable().len() > 64);
    let slowest_control = controls.iter().map(|e| picos(e.min)).max().unwrap();
    for pair in pairs {
        assert!(picos(pair.min) > slowest_control && picos(pair.min) <= picos(pair.median));
    }
    let memory = picos(host.memory.local.as_ref().unwrap().value);
    let first = host.caches.iter().find_map(|cache| cache.latency.as_ref());
    assert!(first.is_none_or(|first| picos(first.value) < memory));
    let distance = host.distance.as_ref().unwrap();
    let usable = host.usable().len();
    assert!(usable > 1 || distance.source.to_string().contains("only one CPU is usable"));
    // On a busy machine threads may not have met in time; then there is no level, and no share.
    let all: u32 = distance.value.iter().map(|level| level.share).sum();
    assert!(distance.value.is_empty() || all >= 990, "{distance:?}");
    assert!(text.contains("distances of CPUs during the observation"), "{text}");
    // What was measured can be drawn and described again from the file.
    assert!(answer(&[path.to_str().unwrap()]).contains("a cache line from CPU to CPU"));
}

#[test]
fn the_doctor_says_how_far_apart_the_cpus_are() {
    let output = Command::new(env!("CARGO_BIN_EXE_corehop")).args(["doctor", "--json"]).output();
    let answer: serde_json::Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let findings = answer["findings"].as_array().unwrap();
    let found = findings.iter().find(|it| it["id"] == "distance").unwrap();
    let words = found["found"].as_str().unwrap();
    assert!(words.contains("in 1 s") || words.contains("only one CPU is usable"), "{words}");
    let ranks: Vec<_> = findings.iter().map(|it| it["severity"].as_str().unwrap()).collect();
    let fine = ranks.iter().position(|&rank| rank == "ok").unwrap();
    assert!(ranks[fine..].iter().all(|&rank| rank == "ok"), "the most severe first");
}

#[test]
fn a_watch_belongs_to_a_measurement_and_ends_within_an_hour() {
    for (args, words) in
        [(&["--watch", "5"][..], "--watch"), (&["measured", "--watch", "4000"], "0..=3600")]
    {
        let (code, text) = complaint(args);
        assert!(code == 2 && text.contains(words), "{args:?}: {text}");
    }
}

#[test]
fn only_this_host_can_be_measured() {
    let (code, text) = complaint(&["measured", "xeon_l7455"]);
    assert!(code == 2 && text.contains("unexpected argument"), "{text}");
}

/// As much of gem5's modules as a configuration touches: objects that take any name, and caches that have to be connected.
const GEM5: &str = r#"
class Sim:
    caches = []
    def __init__(self, **parameters):
        self.__dict__.update(parameters)
        if isinstance(self, Cache):
            Sim.caches.append(self)
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        self.__dict__[name] = Sim()
        return self.__dict__[name]
    def __getitem__(self, index):
        return self
    def __call__(self, *arguments, **parameters):
        return self
    @classmethod
    def init_compatible(cls, path):
        return cls()

class Cache(Sim):
    def __init__(self, **parameters):
        super().__init__(**parameters)

names = ["System", "SrcClockDomain", "VoltageDomain", "X86TimingSimpleCPU", "SystemXBar", "L2XBar", "SimpleMemory",
         "SEWorkload", "Process", "Root", "LRURP", "FIFORP", "TreePLRURP", "NRURP", "RandomRP", "RRIPRP"]
for name in names:
    globals()[name] = type(name, (Sim,), {})
AddrRange = lambda size: size
__all__ = names + ["Cache", "AddrRange"]
"#;
const M5: &str = r#"
from m5.objects import Sim
def instantiate():
    for cache in Sim.caches:
        missing = [side for side in ("cpu_side", "mem_side") if side not in vars(cache)]
        assert not missing, (type(cache).__name__, missing)
        sets = int(cache.size.removesuffix("KiB")) * 1024 // 64 // cache.assoc
        assert sets & (sets - 1) == 0, (type(cache).__name__, sets)
    print(len(Sim.caches), "caches")
def simulate():
    return Sim()
"#;

#[test]
#[expect(clippy::print_stdout, reason = "what is skipped says why")]
fn a_configuration_of_gem5_connects_every_cache_and_says_what_it_cannot_express() {
    let folder = TempDir::new().unwrap();
    let module = folder.path().join("m5");
    fs::create_dir(&module).unwrap();
    fs::write(module.join("objects.py"), GEM5).unwrap();
    fs::write(module.join("__init__.py"), M5).unwrap();
    for (name, caches, remark) in [
        ("xeon_x5650", "38 caches", "12288KiB"),
        ("xeon_l7455", "64 caches", "inclusion is not strict"),
        ("phenom_9550", "13 caches", "mostly_excl"),
    ] {
        let script = folder.path().join(format!("{name}.py"));
        let arguments = [name, "--gem5", script.to_str().unwrap()];
        answer(&arguments);
        let text = fs::read_to_string(&script).unwrap();
        assert!(text.contains(remark), "{name}: {text}");
        let run = Command::new("python3")
            .arg(&script)
            .arg("/bin/true")
            .env("PYTHONPATH", folder.path())
            .output();
        let Ok(run) = run else {
            println!("skipped: there is no python3 to run the configuration with");
            return;
        };
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        assert!(said.contains(caches), "{name}: {said}");
        // It is not overwritten unasked.
        assert_eq!(corehop(&arguments).status.code(), Some(2));
    }
}

#[test]
fn the_descriptions_of_other_programs_are_platforms_with_notes_of_what_they_leave_out() {
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cpu = |cpu: u32| format!(r#"{{"cpu": {cpu}, "socket": 0, "core": {cpu}}}"#);
    let lscpu = write("a.json", &format!("{{\"cpus\": [{},{}]}}", cpu(0), cpu(1)));
    let output = folder.path().join("a.toml");
    let (text, notes) = answer_with_notes(&[&lscpu, "-o", output.to_str().unwrap()]);
    assert!(text.contains("2 CPUs in 2 cores and 1 package."), "{text}");
    let summary = [
        ("On-line CPU(s) list", "0,1"),
        ("Thread(s) per core", "1"),
        ("Core(s) per socket", "2"),
        ("Socket(s)", "1"),
        ("L1d cache", "64 KiB (2 instances)"),
    ];
    let line = |(name, data): (&str, &str)| format!(r#"{{"field": "{name}:", "data": "{data}"}}"#);
    let lines = summary.map(line).join(",");
    let (text, _) = answer_with_notes(&[&write("s.json", &format!(r#"{{"lscpu": [{lines}]}}"#))]);
    let text = text.replace('\n', " ");
    assert!(text.contains("last stated cache level is L1, with 32 KiB in each instance"), "{text}");
    let notes = notes.replace("\n      ", " ");
    assert!(
        notes.contains("note: the file states no cache") && notes.contains("[[tlb]]"),
        "{notes}"
    );
    let written = Platform::from_toml(&fs::read_to_string(output).unwrap()).unwrap();
    assert_eq!(written.cores.source.to_string(), "cited: lscpu -J");
    let hwloc = write("b.xml", "<topology><object type=\"Machine\"/></topology>");
    let (code, said) = complaint(&[&hwloc]);
    assert!(code == 4 && said.contains("no object of the type Package"), "{said}");
    let other = write("c.xml", "<simulation/>");
    let (code, said) = complaint(&[&other]);
    assert!(code == 4 && said.contains("XML"), "{said}");
}

#[test]
fn a_table_of_core_to_core_latency_enters_the_exchanges_of_its_platform() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let cpu = |cpu: u32| format!(r#"{{"cpu": {cpu}, "socket": 0, "core": {cpu}}}"#);
    fs::write(path("a.json"), format!("{{\"cpus\": [{},{}]}}", cpu(0), cpu(1))).unwrap();
    fs::write(path("t.csv"), ",\n41.5,\n").unwrap();
    answer_with_notes(&[&path("a.json"), "--exchange", &path("t.csv"), "-o", &path("b.toml")]);
    let written = Platform::from_toml(&fs::read_to_string(path("b.toml")).unwrap()).unwrap();
    let exchange = written.exchange.unwrap();
    assert_eq!(exchange.value[0].median, Latency::from_nanos(41.5));
    assert!(exchange.source.to_string().starts_with("cited: core-to-core-latency"));
    let (code, said) = complaint(&["xeon_x5650", "--exchange", &path("t.csv")]);
    let said = said.replace("\n         ", " ");
    assert!(code == 4 && said.contains("t.csv") && said.contains("has 2 CPUs"), "{said}");
}
