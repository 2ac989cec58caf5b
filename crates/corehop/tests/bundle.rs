// SPDX-License-Identifier: MIT OR Apache-2.0
//! `corehop report --bundle`: what it writes unpacks into a folder of the gallery, and what is missing is named.

mod gallery;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use corehop_fixtures::{repository, text};
use corehop_plan::samples::{BatchWriter, PreemptionLength, Provenance, RowKind};
use gallery::{altered, entry};
use tempfile::TempDir;

const DATA: &str = "data/2026-11-22-guest-2cpu";

/// A folder with a platform file of the machine of [`DATA`], a platform of another machine, and a simulated run.
static INPUTS: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let contents =
        corehop(folder.path(), &["report", "contents", "--json", &data("quick.parquet")]);
    let about: serde_json::Value = serde_json::from_slice(&contents.stdout).unwrap();
    let platform = about["provenance"]["platform"].as_str().unwrap();
    fs::write(folder.path().join("platform.toml"), platform).unwrap();
    fs::copy(repository("platforms/m5_cc.toml"), folder.path().join("other.toml")).unwrap();
    let words =
        "measure synthetic --on m5_cc --wss 4KiB --load idle --samples 2 -q -o simulated.parquet";
    let run = corehop(folder.path(), &words.split(' ').collect::<Vec<_>>());
    assert!(run.status.success(), "{run:?}");
    folder
});

fn corehop(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_corehop")).args(words).current_dir(folder).output().unwrap()
}

fn data(name: &str) -> String {
    repository(DATA).join(name).to_str().unwrap().to_owned()
}

fn input(name: &str) -> String {
    INPUTS.path().join(name).to_str().unwrap().to_owned()
}

/// The files of a whole bundle.
fn whole() -> [String; 3] {
    [data("quick.parquet"), data("conditions.parquet"), input("platform.toml")]
}

/// Bundles `files` in `folder`; the output, and the archive.
fn bundled(folder: &Path, files: &[String]) -> (Output, PathBuf) {
    let files = files.iter().map(String::as_str);
    let words: Vec<&str> = ["report", "--bundle", "mine.tar"].into_iter().chain(files).collect();
    (corehop(folder, &words), folder.join("mine.tar"))
}

/// The refusal of a bundle of these files.
fn refusal(files: &[String]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (output, archive) = bundled(folder.path(), files);
    let said = String::from_utf8(output.stderr).unwrap().replace("\n         ", " ");
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!archive.exists() && said.contains("--bundle"), "{said}");
    said
}

/// The folder that `tar` makes of a bundle.
fn unpacked(folder: &Path) -> PathBuf {
    let [quick, conditions, platform] = whole();
    // In another order than that of the bundle.
    let (output, archive) = bundled(folder, &[platform, conditions, quick]);
    assert!(output.status.success(), "{output:?}");
    let to = folder.join("data");
    fs::create_dir(&to).unwrap();
    let tar = Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&to).status().unwrap();
    assert!(tar.success());
    let mut made = fs::read_dir(to).unwrap().map(|entry| entry.unwrap().path());
    let first = made.next().unwrap();
    assert!(made.next().is_none());
    first
}

#[test]
fn a_bundle_unpacks_into_what_the_gallery_reads() {
    let folder = tempfile::tempdir().unwrap();
    let unpacked = unpacked(folder.path());
    assert_eq!(unpacked.file_name().unwrap(), "2026-11-22-amd_epyc_2_cpus");
    assert_eq!(entry(&unpacked), entry(&repository(DATA)));
    let entry = entry(&unpacked).unwrap();
    assert_eq!((&*entry.day, &*entry.kernel), ("2026-11-22", "6.18.44, PREEMPT_DYNAMIC"));
    assert!(
        entry.headline.starts_with("On amd_epyc_2_cpus (AMD EPYC, 2 CPUs, a guest under kvm), ")
    );
    let page = fs::read_to_string(unpacked.join("README.md")).unwrap();
    assert!(page.starts_with(&format!("# {}, 2026-11-22\n", entry.machine)), "{page}");
    for [from, part] in [["quick.parquet"; 2], ["conditions.parquet"; 2]] {
        assert_eq!(fs::read(data(from)).unwrap(), fs::read(unpacked.join(part)).unwrap());
    }
    assert_eq!(
        fs::read(input("platform.toml")).unwrap(),
        fs::read(unpacked.join("platform.toml")).unwrap()
    );
}

#[test]
fn the_provenance_of_a_bundle_has_version_host_date_command_and_sums_of_each_part() {
    let folder = tempfile::tempdir().unwrap();
    let unpacked = unpacked(folder.path());
    let provenance = fs::read(unpacked.join("provenance.json")).unwrap();
    let provenance: serde_json::Value = serde_json::from_slice(&provenance).unwrap();
    assert_eq!(provenance["corehop"], env!("CARGO_PKG_VERSION"));
    assert_eq!(provenance["command"][1], "report");
    assert_eq!(provenance["machine"]["id"], "amd_epyc_2_cpus");
    let parts = provenance["parts"].as_array().unwrap();
    let files: Vec<&str> = parts.iter().map(|part| part["file"].as_str().unwrap()).collect();
    assert_eq!(files, ["quick.parquet", "conditions.parquet", "platform.toml"]);
    assert_eq!(parts[0]["run"]["command"][2], "synthetic");
    assert_eq!(parts[0]["run"]["date"], "2026-11-22T19:42:21Z");
    assert_eq!(parts[1]["run"]["rows"], 1626);
    assert_eq!(altered(&unpacked), Vec::<String>::new());
    fs::write(unpacked.join("platform.toml"), "schema = 1\n").unwrap();
    assert_eq!(altered(&unpacked), ["\"platform.toml\""]);
}

#[test]
fn a_missing_part_is_named_with_the_command_that_makes_it() {
    let [quick, conditions, platform] = whole();
    let said = refusal(&[quick.clone(), conditions.clone()]);
    assert!(
        said.contains("no platform.toml (`corehop measure platform -o platform.toml`)"),
        "{said}"
    );
    assert!(
        !said.contains("no quick.parquet") && !said.contains("no conditions.parquet"),
        "{said}"
    );
    let said = refusal(&[platform, quick]);
    assert!(said.contains("no conditions.parquet (`corehop measure conditions"), "{said}");
    let said = refusal(&[conditions]);
    assert!(said.contains("no quick.parquet") && said.contains("no platform.toml"), "{said}");
}

#[test]
fn the_recipe_has_five_commands_and_measures_what_a_refusal_asks_for() {
    let page = text("docs/contribute-a-machine.md");
    let recipe = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let commands: Vec<&str> = recipe.lines().collect();
    let [quick, conditions, platform] = whole();
    let said = refusal(&[conditions]) + &refusal(&[quick, platform]);
    assert_eq!(commands.len(), 5);
    for command in &commands[1..4] {
        assert!(said.contains(&format!("(`{command}`)")), "{command}: {said}");
        let written = command.rsplit(' ').next().unwrap();
        assert!(commands[4].contains(&format!(" {written} ")), "{written}");
    }
}

#[test]
fn a_file_that_is_no_part_or_a_part_twice_is_named() {
    let switches = repository("data/2026-11-24-guest-2cpu/switches.parquet");
    let switches = switches.to_str().unwrap().to_owned();
    let [quick, conditions, platform] = whole();
    let said = refusal(&[switches, quick.clone(), conditions.clone(), platform.clone()]);
    assert!(said.contains("switches.parquet contains the experiment core-switch"), "{said}");
    let said = refusal(&[quick, data("quick-again.parquet"), conditions, platform]);
    assert!(
        said.contains("quick-again.parquet would both become quick.parquet of the bundle"),
        "{said}"
    );
}

#[test]
fn a_simulated_run_and_parts_of_several_machines_are_refused() {
    let [quick, conditions, _] = whole();
    let other = input("other.toml");
    let said = refusal_of_any(&[quick.clone(), conditions.clone(), other.clone()]);
    assert!(
        said.contains("the platform file does not describe the machine of the samples"),
        "{said}"
    );
    let said = refusal(&[input("simulated.parquet"), conditions.clone(), other]);
    assert!(said.contains("simulated.parquet was not measured on a real machine"), "{said}");
    let xeon = repository("data/2026-11-21-guest-2cpu/quick.parquet").to_str().unwrap().to_owned();
    let said = refusal(&[xeon, conditions, input("platform.toml")]);
    assert!(said.contains("from several machines (amd_epyc_2_cpus, "), "{said}");
}

/// A file of one absence, as a live run of `experiment` on the machine of [`DATA`] writes it, under this kernel and installation.
fn run_of(folder: &Path, experiment: &str, kernel: &str, identity: &str) -> String {
    let path = folder.join(format!("{experiment}.parquet"));
    let host =
        serde_json::json!({"kind": "live", "host": {"kernel": kernel, "identity": identity}});
    let provenance = Provenance {
        experiment: experiment.into(),
        platform: fs::read_to_string(input("platform.toml")).unwrap(),
        machine: host.as_object().unwrap().clone(),
        ..Provenance::default()
    };
    let file = fs::File::create(&path).unwrap();
    let mut part = BatchWriter::begin(file, RowKind::PreemptionLengths, &provenance).unwrap();
    let row = PreemptionLength {
        machine: "amd_epyc_2_cpus".into(),
        seed: 1,
        job: 0,
        cell: 0,
        load: "idle".into(),
        cpu: 0,
        start_ns: 0,
        requested_length_ns: 1_000_000,
        length_ns: 1_050_000.0,
        policy: "fifo:2".into(),
        replicate: None,
    };
    part.append(&vec![row].into()).unwrap();
    part.end().unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn parts_of_several_kernels_or_installations_are_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let bundle_with = |kernel: &str, identity: &str| {
        let quick = run_of(folder.path(), "synthetic", "6.1.0", "one");
        [quick, run_of(folder.path(), "conditions", kernel, identity), input("platform.toml")]
    };
    let said = refusal(&bundle_with("6.2.0", "one"));
    assert!(said.contains("from several kernels (6.1.0, 6.2.0)"), "{said}");
    let said = refusal(&bundle_with("6.1.0", "two"));
    assert!(said.contains("from several installations (one, two)"), "{said}");
    let (output, archive) = bundled(folder.path(), &bundle_with("6.1.0", "one"));
    assert!(output.status.success() && archive.exists(), "{output:?}");
}

#[test]
fn a_run_that_was_cut_off_is_refused_with_the_way_to_finish_it() {
    let folder = tempfile::tempdir().unwrap();
    let quick = run_of(folder.path(), "synthetic", "6.1.0", "one");
    let file = fs::File::options().write(true).open(&quick).unwrap();
    file.set_len(file.metadata().unwrap().len() - 8).unwrap();
    let [_, conditions, platform] = whole();
    let said = refusal(&[quick, conditions, platform]);
    assert!(
        said.contains("synthetic.parquet is incomplete (") && said.contains("--resume"),
        "{said}"
    );
}

/// The refusal of a report, which has the words of no bundle.
fn refusal_of_any(files: &[String]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (output, archive) = bundled(folder.path(), files);
    assert!(output.status.code() == Some(2) && !archive.exists());
    String::from_utf8(output.stderr).unwrap().replace("\n         ", " ")
}

#[test]
fn a_bundle_replaces_no_file_without_force() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.tar"), "precious").unwrap();
    let (output, archive) = bundled(folder.path(), &whole());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(fs::read(archive).unwrap(), b"precious");
}
