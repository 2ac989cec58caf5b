// SPDX-License-Identifier: MIT OR Apache-2.0
//! The report of result files as a page, which has a first screen and sections.

use super::html;
use super::sections::{front, sections};
use corehop_results::Results;

/// Writes the page of a report about result files.
pub fn page(data: &Results) -> String {
    html::page_of(&front(data), sections(data))
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

    /// Returns the bytes as a temporary file, which disappears when it is closed.
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
