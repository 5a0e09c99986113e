//! Finds the library, opens it, and has its functions.

use crate::{ABI, Api, LoadError};
use std::env;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

#[cfg(not(unix))]
compile_error!(
    "dllm-sys opens the library with dlopen; on this system use the feature `link` without default features"
);

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *mut c_char;
    fn dlclose(library: *mut c_void) -> c_int;
}

const RTLD_NOW: c_int = 2;
const NAMES: &[&str] =
    if cfg!(target_vendor = "apple") { &["libdllm.1.dylib", "libdllm.dylib"] } else { &["libdllm.so.1", "libdllm.so"] };

static API: OnceLock<Result<Api, LoadError>> = OnceLock::new();

/// Opens the library, once per process: `DLLM_LIBRARY` alone when it is set, else the folder of the program, the
/// package (where `scripts/package crate` puts it), a build of this checkout, the system.
///
/// # Errors
/// [`LoadError`] names what was tried. A failure is final.
pub fn load() -> Result<(), LoadError> {
    state(|| open_first(&candidates()))
}

/// Opens the library at a path, instead of [`load`]. It has to be the first call of this crate.
///
/// # Errors
/// [`LoadError`], also when the library was loaded before.
pub fn load_from(path: &Path) -> Result<(), LoadError> {
    let mut opened = false;
    state(|| {
        opened = true;
        open_first(&[path.to_path_buf()])
    })?;
    if opened { Ok(()) } else { Err(LoadError::new(format!("libdllm was loaded before {} was named", path.display()))) }
}

fn state(open: impl FnOnce() -> Result<Api, LoadError>) -> Result<(), LoadError> {
    API.get_or_init(open).as_ref().map(|_| ()).map_err(Clone::clone)
}

/// The open library; opens it when this is the first call.
#[inline]
pub(crate) fn api() -> &'static Api {
    match API.get() {
        Some(Ok(api)) => api,
        _ => load_or_panic(),
    }
}

#[cold]
fn load_or_panic() -> &'static Api {
    match API.get_or_init(|| open_first(&candidates())) {
        Ok(api) => api,
        Err(problem) => panic!("{problem}"),
    }
}

fn candidates() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("DLLM_LIBRARY").filter(|name| !name.is_empty()) {
        return vec![named.into()];
    }
    let mut folders = Vec::new();
    if let Some(folder) = env::current_exe().ok().as_deref().and_then(Path::parent) {
        folders.push(folder.to_path_buf());
        folders.push(folder.join("../lib"));
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    folders.push(package.join(concat!("native/", env!("DLLM_TARGET"))));
    folders.push(package.join("../../../build/release/lib"));
    let nearby = folders.iter().flat_map(|folder| NAMES.iter().map(|name| folder.join(name)));
    nearby.filter(|path| path.exists()).chain(NAMES.iter().map(PathBuf::from)).collect()
}

fn open_first(paths: &[PathBuf]) -> Result<Api, LoadError> {
    let mut tried = String::new();
    for path in paths {
        match open(path.as_os_str()) {
            Ok(library) => return bind(library, path),
            Err(reason) => tried += &format!("\n  {}: {reason}", path.display()),
        }
    }
    Err(LoadError::new(format!(
        "cannot load libdllm; tried{tried}\nset DLLM_LIBRARY to the path of libdllm.so, or put it next to the program"
    )))
}

fn open(path: &OsStr) -> Result<*mut c_void, String> {
    let path = CString::new(path.as_bytes()).map_err(|_| "the path has a byte 0".to_string())?;
    // SAFETY: the path ends with a byte 0; the constructors of the library that is opened are those of libdllm.
    let library = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: dlopen failed on this thread, so dlerror has a text, valid until the next call of dlopen's family.
    let reason = unsafe { dlerror() };
    if reason.is_null() {
        return Err("dlopen fails without a reason".to_string());
    }
    // SAFETY: not null, ends with a byte 0.
    Err(unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned())
}

fn bind(library: *mut c_void, path: &Path) -> Result<Api, LoadError> {
    // SAFETY: `library` is open, the name ends with a byte 0.
    let symbol = |name: &CStr| unsafe { dlsym(library, name.as_ptr()) };
    let checked = check(&symbol, path);
    if checked.is_err() {
        // SAFETY: nothing of it is used.
        unsafe { dlclose(library) };
    }
    checked
}

fn check(symbol: &dyn Fn(&CStr) -> *mut c_void, path: &Path) -> Result<Api, LoadError> {
    let name = path.display();
    let version = symbol(c"dllm_abi_version");
    if version.is_null() {
        return Err(LoadError::new(format!("{name} is not a libdllm: it has no dllm_abi_version")));
    }
    // SAFETY: in every ABI version this function takes nothing and returns an int32_t.
    let found = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> i32>(version)() };
    if found != ABI {
        return Err(LoadError::abi(&name.to_string(), found));
    }
    Api::find(symbol)
        .map_err(|missing| LoadError::new(format!("{name} is older than this crate, it lacks: {}", missing.join(", "))))
}
