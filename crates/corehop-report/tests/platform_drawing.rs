// SPDX-License-Identifier: MIT OR Apache-2.0
//! A machine as text and as a drawing.

use corehop_plan::platform::observed::Exchange;
use corehop_plan::platform::{Affinity, Check, Fact, Latency, Platform};
use corehop_plan::units::Cpu;
use corehop_report::{exchange_svg, platform_svg, platform_text};
use proptest::prelude::*;

/// A machine of equal packages: CPUs in a core, cores at a level-2 cache, level-3 caches.
fn machine(smt: usize, per_l2: usize, per_l3: usize, packages: usize) -> Platform {
    let (l2, l3) = (smt * per_l2, smt * per_l2 * per_l3);
    let last = l3 * packages - 1;
    let cache = |level: u32, size: &str, by: usize| {
        format!(
            "[[cache]]\nlevel = {level}\nkind = \"unified\"\n\
             size = {{ value = \"{size}\", source = \"assumed\" }}\n\
             instances = {{ value = \"0-{last} by {by}\", source = \"assumed\" }}\n"
        )
    };
    let text = format!(
        "schema = 1\nid = \"made_up\"\nname = \"a <made> & \\\"up\\\" machine\"\n\
         cpus = {{ value = \"0-{last}\", source = \"assumed\" }}\n\
         packages = {{ value = \"0-{last} by {l3}\", source = \"assumed\" }}\n\
         cores = {{ value = \"0-{last} by {smt}\", source = \"assumed\" }}\n\
         {}{}{}",
        cache(1, "32 KiB", smt),
        cache(2, "1 MiB", l2),
        cache(3, "8 MiB", l3)
    );
    Platform::from_toml(&text).unwrap()
}

/// The same with the exchange of every pair measured: longer from class to class, and a little
/// longer one way than the other.
fn measured(smt: usize, per_l2: usize, per_l3: usize, packages: usize) -> Platform {
    let mut platform = machine(smt, per_l2, per_l3, packages);
    let time = |from: Cpu, to: Cpu| {
        let class = Affinity::ALL.iter().position(|&it| it == platform.affinity(from, to));
        10_000 << (2 * class.unwrap()) | u64::from(from > to) << 8
    };
    let pair = |(from, to): (Cpu, Cpu)| Exchange {
        from,
        to,
        min: Latency::Picos(time(from, to)),
        median: Latency::Picos(time(from, to) + 1_000),
        batches: 1_000,
    };
    let exchanges = platform.exchange_pairs().into_iter().map(pair).collect();
    platform.exchange = Some(Fact::measured(exchanges, ""));
    platform
}

/// The value of an attribute.
fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap();
    rest.split('"').next().unwrap()
}

fn number(tag: &str, name: &str) -> f64 {
    attribute(tag, name).parse().unwrap()
}

/// The cells of a heat map: what each says, its corners, and how bright it is.
fn cells(svg: &str) -> Vec<(&str, [f64; 4], u32)> {
    let said = svg.split("<title>").skip(2);
    said.map(|cell| {
        let (hint, rest) = cell.split_once("</title>").unwrap();
        let rect = rest.split('>').next().unwrap();
        let [x, y, w, h] = ["x", "y", "width", "height"].map(|name| number(rect, name));
        let colour = u32::from_str_radix(&attribute(rect, "fill")[1..], 16).unwrap();
        let bright = [16, 8, 0].map(|shift| (colour >> shift) & 0xff).iter().sum();
        (hint, [x, y, x + w, y + h], bright)
    })
    .collect()
}

/// Left, top, right and bottom of every box, in the order of the drawing, with its depth.
fn boxes(svg: &str) -> Vec<(usize, [f64; 4])> {
    let mut depth = 0_usize;
    let mut boxes = Vec::new();
    for tag in svg.split('<') {
        if tag.starts_with("g>") {
            depth += 1;
        } else if tag.starts_with("/g>") {
            depth = depth.saturating_sub(1);
        } else if tag.starts_with("rect class=\"box") {
            let [x, y, w, h] = ["x", "y", "width", "height"].map(|name| number(tag, name));
            boxes.push((depth, [x, y, x + w, y + h]));
        }
    }
    boxes
}

fn inside(inner: [f64; 4], outer: [f64; 4]) -> bool {
    inner[0] > outer[0] && inner[1] > outer[1] && inner[2] < outer[2] && inner[3] < outer[3]
}

fn apart(a: [f64; 4], b: [f64; 4]) -> bool {
    a[2] < b[0] || b[2] < a[0] || a[3] < b[1] || b[3] < a[1]
}

/// Every tag is closed, in order.
fn well_formed(svg: &str) -> bool {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        let name = tag.split(' ').next().unwrap();
        if let Some(name) = name.strip_prefix('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    open.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn boxes_lie_inside_boxes_and_beside_their_siblings_for_1_to_256_cpus(
        smt in 1usize..=2, per_l2 in 1usize..=4, per_l3 in 1usize..=8, packages in 1usize..=4,
    ) {
        let platform = machine(smt, per_l2, per_l3, packages);
        let svg = platform_svg::draw(&platform);
        prop_assert!(well_formed(&svg), "{}", svg);
        let boxes = boxes(&svg);
        let cpus = svg.matches("class=\"box cpu\"").count();
        prop_assert_eq!(cpus, platform.cpus.value.len());
        let mut path: Vec<(usize, [f64; 4])> = Vec::new();
        let mut siblings: Vec<(usize, [f64; 4])> = Vec::new();
        for (depth, here) in boxes {
            path.retain(|&(other, _)| other < depth);
            siblings.retain(|&(other, _)| other <= depth);
            if let Some(&(_, outer)) = path.last() {
                prop_assert!(inside(here, outer), "{here:?} in {outer:?}");
            }
            for &(_, beside) in siblings.iter().filter(|&&(other, _)| other == depth) {
                prop_assert!(apart(here, beside), "{here:?} beside {beside:?}");
            }
            path.push((depth, here));
            siblings.push((depth, here));
        }
    }

    #[test]
    fn every_exchange_has_a_cell_of_its_own_in_both_maps_and_a_longer_one_is_darker(
        smt in 1usize..=2, per_l2 in 1usize..=2, per_l3 in 1usize..=4, packages in 1usize..=4,
    ) {
        let platform = measured(smt, per_l2, per_l3, packages);
        let svg = exchange_svg::draw(&platform).unwrap();
        prop_assert!(well_formed(&svg), "{}", svg);
        let cells = cells(&svg);
        let pairs = platform.cpus.value.len().pow(2);
        prop_assert_eq!(cells.len(), 2 * pairs);
        let (shortest, medians) = cells.split_at(pairs);
        for (place, &(hint, here, _)) in cells.iter().enumerate() {
            for &(other, beside, _) in &cells[..place] {
                prop_assert!(apart(here, beside), "{hint} beside {other}");
            }
        }
        // The control is the lightest, and the class that is farthest apart the darkest.
        for map in [shortest, medians] {
            let of = |class: Affinity| -> Vec<u32> {
                let exchanges = platform.exchange.as_ref().unwrap().value.iter();
                let its = exchanges.zip(map).filter(|(it, _)| platform.affinity(it.from, it.to) == class);
                its.map(|(_, &(.., bright))| bright).collect()
            };
            let classes: Vec<_> = Affinity::ALL.map(of).into_iter().filter(|it| !it.is_empty()).collect();
            for pair in classes.windows(2) {
                prop_assert!(pair[0].iter().min() > pair[1].iter().max(), "{:?}", pair);
            }
        }
    }
}

#[test]
fn a_heat_map_tells_both_directions_and_both_statistics_of_a_pair() {
    let svg = exchange_svg::draw(&measured(1, 1, 2, 1)).unwrap();
    for said in [
        "CPU 0 to CPU 1 (l3_migration): shortest 640.0 ns, median 641.0 ns of 1000 batches",
        "CPU 1 to CPU 0 (l3_migration): shortest 640.3 ns, median 641.3 ns of 1000 batches",
        "CPU 1 to CPU 1 (control): shortest 10.0 ns, median 11.0 ns of 1000 batches",
    ] {
        assert_eq!(svg.matches(said).count(), 2, "{said}");
    }
    // Who measures has a row.
    let cells = cells(&svg);
    let at = |said: &str| cells.iter().find(|(hint, ..)| hint.starts_with(said)).unwrap().1;
    let [own, there] = ["CPU 0 to CPU 0", "CPU 0 to CPU 1"].map(at);
    assert!((own[1] - there[1]).abs() < 1e-9 && own[2] < there[0], "{own:?} {there:?}");
    assert!(svg.contains(">641.3</text>") && svg.contains(">10.0 ns</text>"));
    assert_eq!(exchange_svg::draw(&machine(1, 1, 2, 1)), None);
}

#[test]
fn a_drawing_is_one_file_that_asks_for_nothing_and_follows_the_readers_colours() {
    let svg = platform_svg::draw(&machine(2, 1, 4, 1));
    let without_namespace = svg.replace("http://www.w3.org/2000/svg", "");
    for word in ["http", "url(", "@import", "<script", "href"] {
        assert!(!without_namespace.contains(word), "{word}");
    }
    assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("data-theme=dark"));
    assert!(svg.contains("a &lt;made&gt; &amp; &quot;up&quot; machine"));
}

#[test]
fn a_contradicted_size_shows_in_the_drawing_and_in_the_text() {
    let mut platform = machine(1, 1, 2, 1);
    platform.caches[2].size.as_mut().unwrap().check =
        Check::Contradicted { why: "the plateau ends at 4 MiB".to_owned() };
    let svg = platform_svg::draw(&platform);
    assert!(svg.contains("L3 8 MiB (contradicted)") && svg.contains("cache bad"));
    assert!(svg.contains("L3, size 8 MiB: the plateau ends at 4 MiB"));
    let text = platform_text::text(&platform);
    assert!(text.contains("contradicted  L3, size 8 MiB: the plateau ends at 4 MiB"), "{text}");
}

#[test]
fn the_text_has_the_tree_the_classes_and_what_cannot_be_measured() {
    let text = platform_text::text(&machine(2, 1, 2, 1));
    let expected = "\
a <made> & \"up\" machine
  id            made_up
  CPUs          0-3 usable
  memory        single_socket

package 0 · L3 8 MiB             CPUs 0-3
├─ core 0 · L2 1 MiB · L1 32 KiB  CPUs 0-1
└─ core 1 · L2 1 MiB · L1 32 KiB  CPUs 2-3

classes of CPU pairs
  preemption        for instance CPU 0
  smt_migration     for instance CPU 0 to CPU 1
  l3_migration      for instance CPU 0 to CPU 2
not measurable here: l2_migration (no two CPUs of different cores share a level-2 cache)
not measurable here: memory_migration (every two CPUs share a cache)
";
    assert_eq!(text, expected.replace("MiB             CPUs 0-3", "MiB              CPUs 0-3"));
}

#[test]
fn a_crowd_of_equal_cores_is_one_line() {
    let text = platform_text::text(&machine(2, 1, 8, 2));
    let lines: Vec<_> = text.lines().filter(|line| line.contains("core")).collect();
    let expected = [
        "└─ 8 × core · L2 1 MiB · L1 32 KiB  CPUs 0-15 by 2",
        "└─ 8 × core · L2 1 MiB · L1 32 KiB  CPUs 16-31 by 2",
    ];
    assert_eq!(lines[..2], expected);
}
