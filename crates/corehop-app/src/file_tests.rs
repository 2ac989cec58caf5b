// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of writing files: no other file is overwritten, and no temporary file is left.

use super::*;

const KEEP: bool = false;
const OVERWRITE: bool = true;

fn refused(path: &Path, others: &[&Path], force: bool) -> String {
    format!("{:?}", OutputFile::new(path, others, force).unwrap_err())
}

#[test]
fn an_input_is_no_output_under_any_of_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let (input, link, hard) =
        (folder.path().join("q"), folder.path().join("l"), folder.path().join("h"));
    fs::write(&input, "samples").unwrap();
    std::os::unix::fs::symlink(&input, &link).unwrap();
    fs::hard_link(&input, &hard).unwrap();
    for name in [&input, &link, &hard, &folder.path().join("./q")] {
        let said = refused(name, &[&input], OVERWRITE);
        assert!(said.contains("already"), "{said}");
    }
    assert_eq!(fs::read_to_string(&input).unwrap(), "samples");
}

#[test]
fn nothing_existing_is_overwritten_without_force_even_if_it_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.json");
    let early = OutputFile::new(&path, &[], KEEP).unwrap();
    fs::write(&path, "another").unwrap();
    assert!(refused(&path, &[], KEEP).contains("--force"));
    assert!(early.write("mine").is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "another");
    OutputFile::new(&path, &[], OVERWRITE).unwrap().write("mine").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn links_folders_and_missing_folders_are_refused_and_devices_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, link) = (folder.path().join("secret"), folder.path().join("planted"));
    fs::write(&secret, "").unwrap();
    std::os::unix::fs::symlink(&secret, &link).unwrap();
    assert!(refused(&link, &[], OVERWRITE).contains("link"));
    assert!(refused(folder.path(), &[], OVERWRITE).contains("folder"));
    assert!(refused(&folder.path().join("no/x"), &[], KEEP).contains("does not exist"));
    OutputFile::new(Path::new("/dev/null"), &[], KEEP).unwrap().write("x").unwrap();
    assert!(fs::read(&secret).unwrap().is_empty());
}

#[test]
fn a_failure_while_filling_leaves_the_target_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, "before").unwrap();
    let file = OutputFile::new(&path, &[], OVERWRITE).unwrap();
    let failed = file.fill(|out| {
        out.write_all(b"half")?;
        Err(io::Error::from_raw_os_error(libc::ENOSPC))
    });
    assert!(format!("{:?}", failed.unwrap_err()).contains("No space"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "before");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

fn begun(path: &Path, force: bool) -> Result<Growing, Failure> {
    OutputFile::new(path, &[], force)?.grow()
}

#[test]
fn a_growing_file_has_its_name_and_a_second_writer_is_refused_with_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let unplaced = begun(&path, KEEP).unwrap();
    assert!(!path.exists(), "a command that is refused leaves no file");
    let mut log = unplaced.place().unwrap();
    // Still empty: the lock alone tells that the file is being written.
    let busy = format!("{:?}", begun(&path, KEEP).unwrap_err());
    assert!(busy.contains("another run"), "{busy}");
    log.write_all(b"first\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "first\n");
    for write in [
        begun(&path, OVERWRITE).map(drop),
        OutputFile::new(&path, &[], OVERWRITE).unwrap().write("a page"),
    ] {
        let busy = format!("{:?}", write.unwrap_err());
        assert!(busy.contains(&format!("process {}", std::process::id())), "{busy}");
    }
    log.write_all(b"second\n").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");
    drop(log);
    assert!(refused(&path, &[], KEEP).contains("--force"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn a_growing_file_that_replaces_another_is_a_new_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("log"), folder.path().join("other"));
    fs::write(&path, "before").unwrap();
    fs::hard_link(&path, &other).unwrap();
    let mut log = begun(&path, OVERWRITE).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "before", "not before it is placed");
    // Two that replace the same file do not both win.
    assert!(begun(&path, OVERWRITE).is_err());
    log = log.place().unwrap();
    log.write_all(b"after").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "after");
    assert_eq!(fs::read_to_string(&other).unwrap(), "before");
}

#[test]
fn a_link_or_a_file_that_comes_after_the_check_is_neither_followed_nor_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, path) = (folder.path().join("secret"), folder.path().join("log"));
    fs::write(&secret, "secret").unwrap();
    for force in [KEEP, OVERWRITE] {
        let checked = OutputFile::new(&path, &[], force).unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        assert!(checked.grow().and_then(Growing::place).is_err());
        fs::remove_file(&path).unwrap();
        let begun = OutputFile::new(&path, &[], force).unwrap().grow().unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        assert!(begun.place().is_err());
        fs::remove_file(&path).unwrap();
        let begun = OutputFile::new(&path, &[], force).unwrap().grow().unwrap();
        fs::write(&path, "another's").unwrap();
        assert!(begun.place().is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "another's");
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "secret");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

#[test]
fn a_pipe_waits_for_its_reader_and_not_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: mkfifo reads a string that ends with a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let alone = open_stream(&path, Duration::ZERO).unwrap_err();
    assert!(alone.to_string().contains("no process reads"), "{alone}");
    std::thread::scope(|scope| {
        let late = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            fs::read_to_string(&path).unwrap()
        });
        OutputFile::new(&path, &[], KEEP).unwrap().write("answer").unwrap();
        assert_eq!(late.join().unwrap(), "answer");
    });
}

#[test]
fn a_file_that_this_user_may_not_read_is_replaced_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    fs::write(&path, "secret").unwrap();
    let unread = Replaced { id: id(&fs::metadata(&path).unwrap()), _held: None };
    let growing = Growing::begin(&path, Some(unread)).unwrap();
    growing.place().unwrap().write_all(b"mine").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn a_device_that_has_become_a_file_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stream");
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    let checked = OutputFile::new(&path, &[], KEEP).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, "root's").unwrap();
    assert!(checked.write("mine").is_err());
    assert!(checked.grow().is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "root's");
}
