package dllm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

var library struct {
	sync.Mutex
	loaded atomic.Bool
	path   string
}

// Load opens libdllm: the file at path, or with "" the first of DLLM_LIBRARY, the folder of the executable, its neighbour
// lib, the module's own folder (where a package has the library), build/release/lib of the checkout that the module lies in
// and the system's folders. The first constructor does the same; a second Load of another path is an error.
func Load(path string) error {
	library.Lock()
	defer library.Unlock()
	if library.loaded.Load() {
		if path == "" || path == library.path {
			return nil
		}
		return &Error{Code: FailedPrecondition, Message: library.path + " is loaded, " + path + " cannot be"}
	}
	var tried []string
	for _, candidate := range candidates(path) {
		opened, err := openLibrary(candidate)
		if err != nil {
			tried = append(tried, err.Error())
			continue
		}
		if err := bind(opened, candidate); err != nil {
			return err
		}
		library.path = candidate
		library.loaded.Store(true)
		return nil
	}
	return &Error{Code: Unavailable, Message: "cannot load libdllm: " + strings.Join(tried, "; "),
		Hint: "set DLLM_LIBRARY to the path of libdllm.so"}
}

func ready() error {
	if library.loaded.Load() {
		return nil
	}
	return Load("")
}

func candidates(path string) []string {
	if path != "" {
		return []string{path}
	}
	if named := os.Getenv("DLLM_LIBRARY"); named != "" {
		return []string{named}
	}
	names := []string{"libdllm.so.1", "libdllm.so"}
	if runtime.GOOS == "darwin" {
		names = []string{"libdllm.1.dylib", "libdllm.dylib"}
	}
	var found []string
	if executable, err := os.Executable(); err == nil {
		for _, folder := range []string{".", "../lib"} {
			found = append(found, present(filepath.Join(filepath.Dir(executable), folder), names)...)
		}
	}
	// The module of scripts/package go has it, or the checkout around the module after scripts/build. A program built with
	// -trimpath, or moved to another machine, has no such path.
	if _, source, _, known := runtime.Caller(0); known {
		module := filepath.Dir(source)
		found = append(found, present(filepath.Join(module, "native", runtime.GOOS+"_"+runtime.GOARCH), names)...)
		found = append(found, present(filepath.Join(module, "../../build/release/lib"), names)...)
	}
	return append(found, names...)
}

func present(folder string, names []string) []string {
	var found []string
	for _, name := range names {
		near := filepath.Join(folder, name)
		if _, err := os.Stat(near); err == nil {
			found = append(found, near)
		}
	}
	return found
}

// bind finds every symbol, after the ABI version was compared.
func bind(opened uintptr, path string) error {
	var missing []string
	version := -1
	for index, name := range symbolNames {
		address := findSymbol(opened, name)
		if address == 0 {
			missing = append(missing, name)
			continue
		}
		setSymbol(index, address)
		if name == "dllm_abi_version" {
			version = int(dllm_abi_version())
		}
	}
	switch {
	case version < 0:
		return &Error{Code: Unavailable, Message: path + " is not a libdllm: it has no dllm_abi_version"}
	case version != abiVersion:
		return &Error{Code: Unavailable, Hint: "install versions that belong together",
			Message: fmt.Sprintf("%s has ABI %d, this package ABI %d", path, version, abiVersion)}
	case len(missing) > 0:
		return &Error{Code: Unavailable, Hint: "install a newer library",
			Message: path + " is older than this package, it lacks " + strings.Join(missing, ", ")}
	}
	return nil
}

// ABIVersion returns the version of the C ABI that the library has.
func ABIVersion() (int, error) {
	if err := ready(); err != nil {
		return 0, err
	}
	return int(dllm_abi_version()), nil
}

// Version returns the version of the library, "0.2.0".
func Version() (string, error) {
	if err := ready(); err != nil {
		return "", err
	}
	return textAt(dllm_version()), nil
}

// BuildInfo describes how the library was built, as JSON: compiler, simd, lua, pjrt, git.
func BuildInfo() (json.RawMessage, error) {
	if err := ready(); err != nil {
		return nil, err
	}
	return json.RawMessage(textAt(dllm_build_info())), nil
}

// HasFeature reports whether the library was built with a part: "lua", "pjrt", ...
func HasFeature(name string) bool {
	return ready() == nil && dllm_has_feature(keyOf(name)) != 0
}

// Names lists a registry: engine family objective options policy schedule sink ...
func Names(kind string) ([]string, error) {
	if err := ready(); err != nil {
		return nil, err
	}
	var names []string
	for {
		name := dllm_registry_name(keyOf(kind), int64(len(names)))
		if name == 0 {
			return names, nil
		}
		names = append(names, textAt(name))
	}
}
