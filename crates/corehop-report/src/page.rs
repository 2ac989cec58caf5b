// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of result files as a page: its title, the answer, its sections.

use std::fmt::Write as _;

use super::answer::answer;
use super::escape::escape;
use super::html;
use super::sections::sections;
use corehop_results::{FileNote, Results};

/// The page.
pub fn page(data: &Results) -> String {
    html::whole(&title(data), &subtitle(data), &sections(data))
}

fn title(data: &Results) -> String {
    let names: Vec<&str> = data
        .machines
        .iter()
        .map(|machine| machine.platform.as_ref().map_or(machine.id.as_str(), |it| it.name.as_str()))
        .collect();
    if names.is_empty() {
        return "Cost of preempting and migrating a job".to_owned();
    }
    format!("Cost of preempting and migrating a job on {}", names.join(" and "))
}

/// The answer; date, seed, files, number of samples; and a warning where rows are missing.
fn subtitle(data: &Results) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(first) = data.files.first() {
        parts.push(first.provenance.date.clone());
        parts.push(format!("seed {}", first.provenance.seed));
    }
    let total = &data.budget.total;
    if total.n_all > 0 {
        parts.push(format!("{} of {} samples valid", total.n_valid, total.n_all));
    }
    let names: Vec<&str> = data.files.iter().map(|file| file.name.as_str()).collect();
    parts.push(names.join(", "));
    parts.retain(|part| !part.is_empty());
    let mut html = answer(data).map_or_else(String::new, |sentence| {
        format!("<p class=\"answer\">{}</p>", escape(&sentence))
    });
    html.push_str(&html::facts_line(&parts));
    for (what, why) in warnings(data) {
        let _ = write!(
            html,
            "<p class=\"warning\" role=\"note\"><strong>{what}:</strong> {}</p>",
            escape(&why)
        );
    }
    html
}

/// The doubts about the files, each with its heading.
fn warnings(data: &Results) -> impl Iterator<Item = (&'static str, String)> {
    let of_file = |file: &FileNote| {
        let named = |why: &str| format!("{}: {why}", file.name);
        let incomplete = file.incomplete.as_deref().map(|why| ("Incomplete", named(why)));
        let doubt = file.verification.doubt().map(|why| ("No checksums", named(why)));
        incomplete.into_iter().chain(doubt)
    };
    let missing = data.missing.iter().map(|file| ("Missing file", file.to_string()));
    data.files.iter().flat_map(of_file).chain(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corehop_plan::samples::{BatchWriter, Provenance, Reader, RowKind};
    use corehop_results::Gather;
    use corehop_stats::estimator::Estimator;

    const EVIL: &str = "</script><img src=x onerror=alert(1)>\"'&";

    #[test]
    fn what_comes_from_data_cannot_leave_its_place() {
        let mut rows = vec![corehop_plan::samples::example::sample(); 3];
        for row in &mut rows {
            row.machine = EVIL.into();
            row.load = EVIL.into();
        }
        let provenance = Provenance { command: vec![EVIL.to_owned()], ..Provenance::default() };
        let mut bytes = Vec::new();
        let mut part = BatchWriter::begin(&mut bytes, RowKind::Samples, &provenance).unwrap();
        part.append(&rows.into()).unwrap();
        part.end().unwrap();
        let file = tempfile(&bytes);
        let mut gather = Gather::new(Estimator::Difference);
        gather.file(EVIL, &mut Reader::open(file).unwrap()).unwrap();
        let page = page(&gather.finish());
        assert!(page.contains("&lt;/script&gt;&lt;img"));
        assert!(!page.contains("<img") && page.matches("<script").count() == 1);
        assert_eq!(page.matches("</script>").count(), 1);
    }

    /// The bytes as a file that is gone when it is closed.
    fn tempfile(bytes: &[u8]) -> std::fs::File {
        use std::io::{Seek, Write};
        let path = std::env::temp_dir().join(format!("corehop-page-{}", std::process::id()));
        let mut file =
            std::fs::File::options().create(true).truncate(true).read(true).write(true).open(&path);
        let file = file.as_mut().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        std::fs::remove_file(path).unwrap();
        file.try_clone().unwrap()
    }

    #[test]
    fn an_empty_report_is_a_page_too() {
        let page = page(&Gather::new(Estimator::Difference).finish());
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    }
}
