//! With feature `link`: the flags of pkg-config's package "dllm". `DLLM_LIB_DIR` names the folder of libdllm instead.
//! Without it: the name of the folder in which a package has the library.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=DLLM_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rustc-env=DLLM_TARGET={}", target());
    if env::var_os("CARGO_FEATURE_LINK").is_none() {
        return;
    }
    if let Ok(folder) = env::var("DLLM_LIB_DIR") {
        println!("cargo:rustc-link-search=native={folder}");
        println!("cargo:rustc-link-lib=dylib=dllm");
        return;
    }
    let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    match Command::new(&program).args(["--libs", "dllm"]).output() {
        Ok(output) if output.status.success() => {
            pass_on(&String::from_utf8_lossy(&output.stdout));
        }
        Ok(output) => fail(&String::from_utf8_lossy(&output.stderr)),
        Err(problem) => fail(&format!("{program}: {problem}")),
    }
}

/// The folder of a package below `native`, such as linux-x86_64.
fn target() -> String {
    let part = |name: &str| env::var(name).unwrap_or_default();
    format!("{}-{}", part("CARGO_CFG_TARGET_OS"), part("CARGO_CFG_TARGET_ARCH"))
}

fn pass_on(flags: &str) {
    for flag in flags.split_whitespace() {
        if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={folder}");
        } else if let Some(name) = flag.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={name}");
        }
    }
}

fn fail(reason: &str) -> ! {
    eprintln!("dllm-sys, feature link: pkg-config finds no package dllm: {}", reason.trim());
    eprintln!("install dllm and set PKG_CONFIG_PATH to PREFIX/lib/pkgconfig, or DLLM_LIB_DIR to the folder of libdllm");
    std::process::exit(1);
}
