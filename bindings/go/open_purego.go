//go:build !cgo || dllm_purego

package dllm

import (
	"sync"

	"github.com/ebitengine/purego"
)

func openLibrary(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func findSymbol(opened uintptr, name string) uintptr {
	address, err := purego.Dlsym(opened, name)
	if err != nil {
		return 0
	}
	return address
}

// purego never frees a callback, so there is one for all calls.
var eventFunction = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(event handle, number uintptr) uintptr {
		return uintptr(dispatch(event, number))
	})
})
