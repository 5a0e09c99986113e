package dllm

import (
	"encoding/json"
	"unsafe"
)

// pointerTo makes an address of the library's memory a pointer. The collector does not own what is there.
func pointerTo(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// textAt copies a text of the library that ends with a 0 byte; "" for NULL.
func textAt(address uintptr) string {
	if address == 0 {
		return ""
	}
	start, size := pointerTo(address), 0
	for *(*byte)(unsafe.Add(start, size)) != 0 {
		size++
	}
	return string(unsafe.Slice((*byte)(start), size))
}

// bytesAt copies memory of the library.
func bytesAt(address uintptr, size int) []byte {
	return arrayAt[byte](address, size)
}

func arrayAt[T any](address uintptr, count int) []T {
	out := make([]T, count)
	if address != 0 {
		copy(out, unsafe.Slice((*T)(pointerTo(address)), count))
	}
	return out
}

// address is where the elements of a slice begin; NULL for an empty one.
func address[T any](values []T) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(values))
}

func textAddress(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

// raw is JSON that the library wrote, for the caller to unmarshal.
func (c *call) raw() json.RawMessage {
	if c.err != nil {
		return nil
	}
	return c.content()
}
