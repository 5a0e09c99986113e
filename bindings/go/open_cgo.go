//go:build cgo && !dllm_purego

package dllm

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

extern int32_t dllmGoEvent(uintptr_t event, uintptr_t number);
*/
import "C"

import (
	"errors"
	"unsafe"
)

func openLibrary(path string) (uintptr, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	opened := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if opened == nil {
		return 0, errors.New(C.GoString(C.dlerror()))
	}
	return uintptr(opened), nil
}

func findSymbol(opened uintptr, name string) uintptr {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	return uintptr(C.dlsym(pointerTo(opened), text))
}

func eventFunction() uintptr { return uintptr(C.dllmGoEvent) }

//export dllmGoEvent
func dllmGoEvent(event, number C.uintptr_t) C.int32_t {
	return C.int32_t(dispatch(handle(event), uintptr(number)))
}
