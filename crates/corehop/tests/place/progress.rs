// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress that misleads, or is told no more: nothing is kept on its word.

use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// The one trial of a placer that was begun with this source of progress, after `spoil` once the trial is under way.
fn judged(scene: &Scene, source: &str, spoil: impl FnOnce()) -> Value {
    let Scene { turns, before, .. } = scene;
    let placer = trying(scene, source);
    spoil();
    placer.until_it_writes("\"action\":\"judge\"");
    let answer = placer.interrupted();
    assert_eq!(turns.cpus(), *before, "{answer}");
    answer["trials"][0].clone()
}

/// A placer whose trial is under way. It measures the costs of wake-ups when it begins: where others had the CPUs just then,
/// no placement may seem worth a trial, and another placer measures again.
fn trying(scene: &Scene, source: &str) -> Placer {
    let words = ["--start", "spread", "--progress", source, &scene.turns.pid()];
    for _ in 0..4 {
        let placer = Placer::begin(scene.folder.path(), &words);
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(8) {
            if placer.written().contains("\"action\":\"try\"") {
                return placer;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        placer.interrupted();
    }
    panic!("no trial by four placers");
}

/// Calls `write` with growing numbers until dropped.
struct Grows(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Grows {
    fn begin(mut write: impl FnMut(u64) + Send + 'static) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let seen = ends.clone();
        let thread = std::thread::spawn(move || {
            for count in 1.. {
                if seen.load(Ordering::Relaxed) {
                    break;
                }
                write(count);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Self(ends, Some(thread))
    }
}

impl Drop for Grows {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().unwrap().join().unwrap();
    }
}

#[test]
fn progress_that_stands_still_runs_backwards_or_vanishes_keeps_no_placement() {
    let Some(scene) = scene() else { return };
    let path = scene.folder.path().join("own");
    let name = path.to_str().unwrap();
    let replace = |text: &str| {
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &path).unwrap();
    };
    let invalid = |why: &str, spoil: &dyn Fn()| {
        let own = path.clone();
        let mut grows = Some(Grows::begin(move |count| {
            let new = own.with_extension("next");
            std::fs::write(&new, (1_000_000 + count).to_string()).unwrap();
            std::fs::rename(new, &own).unwrap();
        }));
        until("a number", || std::fs::read_to_string(&path).is_ok_and(|it| !it.is_empty()));
        let trial = judged(&scene, name, || {
            drop(grows.take());
            spoil();
        });
        assert_eq!((&trial["verdict"], &trial["kept"]), (&"invalid".into(), &false.into()));
        assert_eq!(trial["why"], why, "{trial}");
    };
    invalid("stood_still", &|| ());
    invalid("ran_backwards", &|| replace("3"));
    invalid("unknown", &|| replace("many"));
    invalid("unknown", &|| std::fs::remove_file(&path).unwrap());
    // From the beginning.
    std::fs::write(&path, "0").unwrap();
    let trial = judged(&scene, name, || ());
    assert_eq!((&trial["why"], &trial["kept"]), (&"stood_still".into(), &false.into()));
}

#[test]
fn a_socket_that_closes_keeps_no_placement_and_one_that_floods_does_not_hold_the_placer() {
    let Some(scene) = scene() else { return };
    let path = scene.folder.path().join("socket");
    let name = format!("unix:{}", path.display());
    let listener = UnixListener::bind(&path).unwrap();
    // One that is there before anybody connects: the connection waits in the queue.
    let (done, closes) = std::sync::mpsc::channel();
    let sender = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut count = 0;
        while closes.try_recv().is_err() {
            count += 1;
            if writeln!(stream, "{count}").is_err() {
                // That placer tried nothing; there is another.
                stream = listener.accept().unwrap().0;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(stream);
        let (mut stream, _) = listener.accept().unwrap();
        // No line at all, until the placer has ended.
        while stream.write_all(&[b'7'; 4096]).is_ok() {}
    });
    let trial = judged(&scene, &name, || done.send(()).unwrap());
    assert_eq!((&trial["why"], &trial["kept"]), (&"unknown".into(), &false.into()));
    let Scene { turns, before, folder, .. } = &scene;
    let mut placer = Placer::begin(folder.path(), &["--progress", &name, &turns.pid()]);
    placer.until_it_writes("\"window\":{");
    placer.goes_on();
    let answer = placer.interrupted();
    assert!(answer["trials"].as_array().unwrap().is_empty(), "{answer}");
    assert_eq!(turns.cpus(), *before);
    sender.join().unwrap();
}
