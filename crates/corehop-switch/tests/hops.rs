// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hops: a function goes to the other core in its middle and comes back, with its stack.
#![cfg(target_arch = "x86_64")]

use corehop_switch::{Hop, HopRefused, Mechanism, Options, Switch};

fn open(mechanism: Mechanism) -> Switch {
    let patience_ns = 5_000_000_000;
    Switch::open(&Options { mechanism: Some(mechanism), patience_ns, ..Options::default() })
}

/// The number of the thread, asked anew each time.
fn thread() -> i64 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

#[test]
fn a_function_hops_there_and_back_and_keeps_its_variables() {
    for mechanism in Mechanism::ALL {
        let mut switch = open(mechanism);
        let has_partner = !matches!(switch.mechanism(), Mechanism::Local | Mechanism::Affinity);
        let body = |hop: &mut Hop| {
            let (here, mut sum, third) = (thread(), 0, 1.0 / 3.0);
            for n in 1..=100 {
                assert!(hop.there() && hop.there());
                assert_eq!(thread() != here, has_partner, "{mechanism}");
                sum += n;
                assert!(hop.back() && hop.back());
                assert_eq!(thread(), here, "{mechanism}");
            }
            (sum, third * 3.0)
        };
        // SAFETY: no thread local is used across a hop.
        assert_eq!(unsafe { switch.run_hopping(body) }.unwrap(), (5050, 1.0), "{mechanism}");
    }
}

#[test]
fn a_function_may_end_or_panic_on_the_other_core() {
    let mut switch = open(Mechanism::Adaptive);
    let ends = |hop: &mut Hop| hop.there().then_some("there");
    // SAFETY: as above.
    assert_eq!(unsafe { switch.run_hopping(ends) }.unwrap(), Some("there"));
    let panics = |hop: &mut Hop| -> u32 {
        hop.there();
        std::panic::panic_any("there")
    };
    // SAFETY: as above.
    let run = std::panic::AssertUnwindSafe(|| unsafe { switch.run_hopping(panics) });
    let panic = std::panic::catch_unwind(run).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"there"));
    assert_eq!(switch.run(|| 7), 7);
}

/// Tries to hop while the thread unwinds.
struct Late<'a>(&'a mut Switch, &'a mut bool);

impl Drop for Late<'_> {
    fn drop(&mut self) {
        // SAFETY: it is refused.
        let outcome = unsafe { self.0.run_hopping(Hop::there) };
        *self.1 = matches!(outcome, Err(HopRefused::Panicking));
    }
}

#[test]
fn a_thread_that_unwinds_does_not_hop() {
    let (mut switch, mut refused) = (open(Mechanism::Adaptive), false);
    let late = std::panic::AssertUnwindSafe((&mut switch, &mut refused));
    std::panic::catch_unwind(|| {
        let late = late;
        let (switch, refused) = late.0;
        let _late = Late(switch, refused);
        std::panic::panic_any(1)
    })
    .unwrap_err();
    assert!(refused);
}
