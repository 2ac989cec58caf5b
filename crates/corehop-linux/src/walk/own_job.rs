// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user's own job: a function in a shared library, called instead of a walk.

use std::ffi::CString;
use std::path::Path;

use corehop_system::rights;

/// The signature `void f(void *memory, size_t bytes, uint64_t pass)`; the function accesses the
/// working set once.
pub(super) type JobFunction = unsafe extern "C" fn(*mut u8, usize, u64);

/// A function of the user that stays valid as long as the process lives. The job's library is never
/// unloaded, because it may have started threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnJob(JobFunction);

/// The reason why the user's own job cannot be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnJobError {
    /// The text is not of the form `LIB.so:FUNCTION`.
    #[error("`{0}` does not name a library and a function: write LIB.so:FUNCTION")]
    Form(String),
    /// The library would run with privileges that the user does not have.
    #[error(
        "`{0}` is rejected: the program file has its own rights (setcap), and the library would run with these rights; use a copy of the program without rights, or run as root"
    )]
    LentRights(String),
    /// The dynamic linker does not load the library.
    #[cfg_attr(target_feature = "crt-static", expect(dead_code, reason = "nothing is loaded"))]
    #[error("the library {library} cannot be loaded: {why}; build it with `cc -O2 -shared -fPIC`")]
    Library {
        /// The path of the library.
        library: String,
        /// The dynamic linker's message.
        why: String,
    },
    /// The library has no function of that name.
    #[cfg_attr(target_feature = "crt-static", expect(dead_code, reason = "nothing is loaded"))]
    #[error(
        "the library {library} has no function {function}: {why}; `nm -D {library}` lists its \
functions, and C++ functions need extern \"C\""
    )]
    Function {
        /// The path of the library.
        library: String,
        /// The name of the function.
        function: String,
        /// The dynamic linker's message.
        why: String,
    },
    /// This program is linked statically.
    #[cfg_attr(not(target_feature = "crt-static"), expect(dead_code, reason = "it can load"))]
    #[error(
        "this corehop is statically linked and cannot load libraries: use a dynamically linked corehop"
    )]
    Static,
}

impl OwnJob {
    /// Loads the function that `LIB.so:FUNCTION` names. A library in the current folder needs no
    /// `./`.
    ///
    /// The library's initialisers run immediately, and the function runs with all privileges of
    /// this process.
    pub(crate) fn load(text: &str) -> Result<Self, OwnJobError> {
        let form = || OwnJobError::Form(text.to_owned());
        let (library, function) = text.rsplit_once(':').ok_or_else(form)?;
        if library.is_empty() || function.is_empty() || text.contains('\0') {
            return Err(form());
        }
        if rights::are_lent() {
            return Err(OwnJobError::LentRights(text.to_owned()));
        }
        // Without a slash the dynamic linker would look in the system's folders alone.
        let here = !library.contains('/') && Path::new(library).exists();
        let path = if here { format!("./{library}") } else { library.to_owned() };
        Self::find(&path, function)
    }

    #[cfg(target_feature = "crt-static")]
    fn find(_: &str, _: &str) -> Result<Self, OwnJobError> {
        let _ = CString::default();
        Err(OwnJobError::Static)
    }

    #[cfg(not(target_feature = "crt-static"))]
    fn find(path: &str, function: &str) -> Result<Self, OwnJobError> {
        // Neither holds a zero byte: the caller has looked.
        let (c_path, c_function) =
            (CString::new(path).unwrap_or_default(), CString::new(function).unwrap_or_default());
        // SAFETY: reads a C string. What the library does when it is loaded is the user's will.
        let library = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(OwnJobError::Library { library: path.to_owned(), why: last_error() });
        }
        // SAFETY: the library is loaded, and stays so; reads a C string.
        let address = unsafe { libc::dlsym(library, c_function.as_ptr()) };
        if address.is_null() {
            let (library, function) = (path.to_owned(), function.to_owned());
            return Err(OwnJobError::Function { library, function, why: last_error() });
        }
        // SAFETY: the user states that the symbol is a function of this type; nothing can check it.
        Ok(Self(unsafe { std::mem::transmute::<*mut libc::c_void, JobFunction>(address) }))
    }

    /// The address of the function.
    pub(super) fn address(self) -> u64 {
        self.0 as usize as u64
    }

    /// A job that calls a function of this program.
    #[cfg(test)]
    pub(super) const fn of(function: JobFunction) -> Self {
        Self(function)
    }
}

/// The dynamic linker's message about its last failure, without the library's name in front.
#[cfg(not(target_feature = "crt-static"))]
fn last_error() -> String {
    // SAFETY: takes nothing; the text is valid until the next call of this thread's.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: a C string, as the line above says; it is copied here.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_library_and_a_function_is_refused_with_the_form() {
        for text in ["", "job.so", "job.so:", ":touch", "job\0.so:touch"] {
            let error = OwnJob::load(text).unwrap_err();
            assert!(matches!(error, OwnJobError::Form(_)), "{error}");
        }
    }

    #[test]
    #[cfg(not(target_feature = "crt-static"))]
    fn a_library_or_function_that_is_not_there_is_named() {
        let error = OwnJob::load("/no/such/job.so:touch").unwrap_err().to_string();
        assert!(error.contains("/no/such/job.so") && error.contains("-shared"), "{error}");
        let error = OwnJob::load("libc.so.6:no_such_function").unwrap_err().to_string();
        assert!(error.contains("no_such_function") && error.contains("nm -D"), "{error}");
        assert!(OwnJob::load("libc.so.6:bzero").is_ok());
    }
}
