// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests the decoding of bytes in the kernel's layout, and the error without counters.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use super::page::{CounterPage, count};
use super::*;

/// The data of three events, enabled for 4 ms and counting for `counted_ns`.
fn answer(counted_ns: u64) -> Vec<u8> {
    let words = [3, 4_000_000, counted_ns, 10_400_000, 71, 26_000_000, 72, 1234, 75];
    words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect()
}

#[test]
fn a_group_is_read_by_the_numbers_of_its_events() {
    let bytes = answer(4_000_000);
    let reading = GroupReading::parse(&bytes).unwrap();
    assert_eq!(reading.count(71), Some(10_400_000));
    assert_eq!(reading.count(75), Some(1234));
    assert_eq!(reading.count(73), None);
}

#[test]
fn a_group_that_took_turns_is_scaled_by_its_share_of_the_time() {
    let bytes = answer(1_000_000);
    assert_eq!(GroupReading::parse(&bytes).unwrap().count(75), Some(4 * 1234));
    let never = answer(0);
    assert_eq!(GroupReading::parse(&never).unwrap().count(75), None);
    // A product beyond 64 bits, and a result that is.
    assert_eq!(scaled(1 << 40, 3 << 30, 1 << 30), Some(3 << 40));
    assert_eq!(scaled(u64::MAX, 2, 1), None);
}

#[test]
fn an_answer_cut_short_at_any_byte_is_refused() {
    let bytes = answer(4_000_000);
    for length in 0..bytes.len() {
        let error = GroupReading::parse(&bytes[..length]).unwrap_err().to_string();
        assert!(error.contains(&format!("`{length} bytes`")), "{error}");
    }
    let mut many = answer(1);
    many[..8].copy_from_slice(&u64::MAX.to_ne_bytes());
    assert!(GroupReading::parse(&many).is_err());
}

/// The mapped page of an event that always counts on counter 1, which has 48 bits and which users may read. The bytes
/// are the first 64 bytes in the layout of a 64-bit little-endian kernel.
fn recorded() -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[8..12].copy_from_slice(&6_u32.to_le_bytes()); // lock
    bytes[12..16].copy_from_slice(&2_u32.to_le_bytes()); // index + 1
    bytes[16..24].copy_from_slice(&0x8000_0000_2000_i64.to_le_bytes()); // offset
    bytes[24..32].copy_from_slice(&7_000_u64.to_le_bytes()); // time enabled
    bytes[32..40].copy_from_slice(&7_000_u64.to_le_bytes()); // time running
    bytes[40..48].copy_from_slice(&0b1_1110_u64.to_le_bytes()); // capabilities
    bytes[48..50].copy_from_slice(&48_u16.to_le_bytes()); // width
    bytes
}

fn page(bytes: &[u8; 64]) -> CounterPage {
    std::array::from_fn(|word| {
        let at = word * 4;
        AtomicU32::new(u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
    })
}

#[test]
fn a_counter_starts_low_and_its_offset_makes_up_for_it() {
    // The kernel starts a counter of 48 bits at minus 2^47, and puts 2^47 into the offset.
    let value = count(&page(&recorded()), |counter| {
        assert_eq!(counter, 1);
        Some(0x8000_0000_0345)
    });
    assert_eq!(value, Some(0x2345));
}

#[test]
fn a_page_that_changes_while_it_is_read_is_read_again() {
    let page = page(&recorded());
    let calls = Cell::new(0);
    let value = count(&page, |_| {
        calls.set(calls.get() + 1);
        if calls.get() == 1 {
            // Another thread's turn has come and gone: the counter has moved into the offset.
            page[2].store(8, Ordering::Relaxed);
            page[4].store(0x3000, Ordering::Relaxed);
        }
        Some(0x8000_0000_0000)
    });
    assert_eq!((value, calls.get()), (Some(0x3000), 2));
}

#[test]
fn a_page_that_never_rests_is_given_up() {
    let page = page(&recorded());
    let value = count(&page, |_| {
        page[2].fetch_add(2, Ordering::Relaxed);
        Some(0)
    });
    assert_eq!(value, None);
}

#[test]
fn a_counter_that_users_may_not_read_or_that_is_shared_or_absent_is_left_to_the_kernel() {
    let forbidden = |change: fn(&mut [u8; 64])| {
        let mut bytes = recorded();
        change(&mut bytes);
        let mut asked = false;
        let value = count(&page(&bytes), |_| {
            asked = true;
            None
        });
        assert_eq!((value, asked), (None, false));
    };
    forbidden(|bytes| bytes[40] &= !0b100); // no capability
    forbidden(|bytes| bytes[12] = 0); // on no counter now
    forbidden(|bytes| bytes[32] = 0); // has been off its counter
    let mut widthless = recorded();
    widthless[48] = 0;
    assert_eq!(count(&page(&widthless), |_| Some(1)), None);
}

#[test]
fn the_vendor_decides_what_an_l2_miss_is() {
    for (cpuinfo, vendor, l2) in [
        ("processor\t: 0\nvendor_id\t: GenuineIntel\n", Vendor::Intel, Some((4, 0x10d1))),
        ("vendor_id\t: AuthenticAMD\n", Vendor::Amd, Some((4, 0x0964))),
        ("processor\t: 0\nCPU implementer\t: 0x41\n", Vendor::Arm, Some((4, 0x17))),
        ("isa : rv64imac\n", Vendor::Other, None),
    ] {
        assert_eq!(Vendor::parse(cpuinfo), vendor);
        assert_eq!(HardwareEvent::L2Misses.encoding(vendor), l2);
    }
    // LL, read, miss: 2 | 0 << 8 | 1 << 16.
    assert_eq!(HardwareEvent::LlcMisses.encoding(Vendor::Other), Some((3, 0x1_0002)));
}

#[test]
fn a_refusal_gives_the_reason_and_the_remedy() {
    for (errno, words) in [
        (libc::ENOENT, ["hypervisor", "PMU"]),
        (libc::EACCES, ["perf_event_paranoid is 3", "cap_perfmon"]),
        (libc::ENOSYS, ["perf_event_open", "CONFIG_PERF_EVENTS"]),
        (libc::EMFILE, ["open", "ulimit -n"]),
        (libc::EBUSY, ["another program", "nmi_watchdog"]),
        (libc::EINVAL, ["refuses", "perf list"]),
    ] {
        let error = refusal("cycles", &io::Error::from_raw_os_error(errno), Some(3));
        let text = error.to_string();
        assert!(text.starts_with("corehop cannot read cycles: "), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a skip says why")]
fn counters_grow_with_work_or_say_why_they_are_not_there() {
    let counters = match HardwareCounters::open() {
        Ok(counters) => counters,
        Err(error) => {
            let CounterError::Unavailable { errno: Some(_), .. } = error else {
                panic!("{error}");
            };
            return eprintln!("skipped: {error}");
        }
    };
    let before = counters.read();
    std::hint::black_box((0..100_000_u64).map(std::hint::black_box).sum::<u64>());
    let added = counters.read().minus(&before);
    assert!(EVENTS.iter().any(|&event| added.get(event) > Some(0)), "{added:?}");
}
