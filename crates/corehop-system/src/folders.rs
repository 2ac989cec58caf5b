// SPDX-License-Identifier: MIT OR Apache-2.0
//! The folders of the user who started the program.

use std::ffi::OsString;
use std::fs::read;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::proc::{lines, number};
use crate::rights;

/// Returns this program's data folder of the user (XDG Base Directory Specification): `$XDG_DATA_HOME/corehop` or
/// `~/.local/share/corehop`; `None` for a user without a home. If the program has lent privileges, the environment is
/// ignored, and the home comes from the system's list of users.
pub fn data() -> Option<PathBuf> {
    if rights::are_lent() {
        // SAFETY: has no arguments and cannot fail.
        let user = unsafe { libc::getuid() };
        return below(None, home_of(user, &read("/etc/passwd").ok()?));
    }
    below(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"))
}

/// The folder derived from these two variables. Relative folders are ignored.
fn below(data: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |it: Option<OsString>| it.map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute(data).or_else(|| absolute(home).map(|home| home.join(".local/share")));
    data.map(|data| data.join("corehop"))
}

/// The home of a user in a list of users (passwd(5)).
fn home_of(user: u32, list: &[u8]) -> Option<OsString> {
    let fields = |line| <[u8]>::split(line, |&byte| byte == b':').collect::<Vec<&[u8]>>();
    let of_user = |fields: &Vec<&[u8]>| fields.get(2).and_then(|it| number(it)) == Some(user);
    let found = lines(list).map(fields).find(of_user)?;
    found.get(5).map(|home| OsString::from_vec(home.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(data: Option<&str>, home: Option<&str>) -> Option<String> {
        let path = below(data.map(OsString::from), home.map(OsString::from))?;
        Some(path.to_string_lossy().into_owned())
    }

    #[test]
    fn the_folder_is_the_one_for_data_or_the_usual_one_below_the_home() {
        assert_eq!(folder(Some("/d"), Some("/home/u")).as_deref(), Some("/d/corehop"));
        let usual = Some("/home/u/.local/share/corehop");
        assert_eq!(folder(None, Some("/home/u")).as_deref(), usual);
        assert_eq!(
            folder(Some("d"), Some("/home/u")).as_deref(),
            usual,
            "a relative one is ignored"
        );
        assert_eq!(folder(Some(""), Some("/home/u")).as_deref(), usual);
        assert_eq!(folder(None, Some("home")), None);
        assert_eq!(folder(None, None), None);
    }

    #[test]
    fn the_home_of_a_user_is_the_sixth_field_of_its_line() {
        let list = b"root:x:0:0:\xc3:/root:/bin/sh\nu:x:1000:1000::/home/u:/bin/sh\ncut:x:7\n";
        assert_eq!(home_of(1_000, list), Some("/home/u".into()));
        assert_eq!(home_of(0, list), Some("/root".into()));
        assert_eq!((home_of(7, list), home_of(8, list)), (None, None));
    }
}
