// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the last cache level includes the inner levels, if the processor's family determines that. No Linux file
//! states whether a cache is inclusive.

use corehop_plan::platform::{Fact, Inclusion};

/// The vendor name of AMD in the kernel.
const AMD: &str = "AuthenticAMD";

/// The first AMD family whose level-3 cache receives the lines that level-2 caches evict.
const FIRST_ZEN: u32 = 0x17;

/// Returns the inclusion policy of the level-3 cache for this processor of the given vendor; `None` if its family
/// does not determine it.
pub fn last_level_inclusion(vendor: &str) -> Option<Fact<Inclusion>> {
    of(vendor, std::arch::x86_64::__cpuid(1).eax)
}

/// The inclusion policy from the vendor and the signature in CPUID leaf 1.
fn of(vendor: &str, signature: u32) -> Option<Fact<Inclusion>> {
    let (base, extended) = (signature >> 8 & 0xf, signature >> 20 & 0xff);
    let family = if base == 0xf { base + extended } else { base };
    (vendor == AMD && family >= FIRST_ZEN).then(|| {
        let source = "AMD, Software Optimization Guides for families 17h and 19h: level 3 is a victim cache of level 2";
        Fact::cited(Inclusion::Exclusive, source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zen_has_a_victim_cache_and_of_others_nothing_is_said() {
        let inclusion = |vendor, signature| of(vendor, signature).map(|fact| fact.value);
        assert_eq!(inclusion(AMD, 0x00a1_0f11), Some(Inclusion::Exclusive), "family 25");
        assert_eq!(inclusion(AMD, 0x0080_0f12), Some(Inclusion::Exclusive), "family 23");
        assert_eq!(inclusion(AMD, 0x0010_0f23), None, "family 16");
        assert_eq!(inclusion("GenuineIntel", 0x0005_0654), None);
    }
}
