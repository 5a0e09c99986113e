package dllm

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// handle is the address of an object of the library. It is no Go pointer: the collector ignores it.
type handle uintptr

// The raw layer passes int64 and handles in one register.
const _ = uint(^uintptr(0)>>63) - 1

const closedBit = 1 << 62

// object owns one handle. Calls enter and leave it, so that a Close meanwhile releases it when the last call has left.
type object struct {
	noun    string
	pointer handle
	release func(handle)
	uses    atomic.Int64 // calls that use it, and closedBit
}

func (o *object) enter() bool {
	for o != nil {
		now := o.uses.Load()
		if now&closedBit != 0 {
			return false
		}
		if o.uses.CompareAndSwap(now, now+1) {
			return true
		}
	}
	return false
}

func (o *object) leave() {
	if o.uses.Add(-1) == closedBit {
		o.release(o.pointer)
	}
}

func (o *object) close() {
	for {
		now := o.uses.Load()
		if now&closedBit != 0 {
			return
		}
		if o.uses.CompareAndSwap(now, now|closedBit) {
			if now == 0 {
				o.release(o.pointer)
			}
			return
		}
	}
}

// noCopy has go vet refuse a copy of what holds it. A copy would be closed when the collector takes the first value.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// resource is embedded in every noun. The collector closes the object when the noun is unreachable.
type resource struct {
	_ noCopy
	*object
	cleanup runtime.Cleanup
}

func (r *resource) adopt(noun string, pointer handle, release func(handle)) {
	r.object = &object{noun: noun, pointer: pointer, release: release}
	r.cleanup = runtime.AddCleanup(r, (*object).close, r.object)
}

// Close releases the object. Closing twice is allowed; methods of a closed object return [ErrClosed].
func (r *resource) Close() error {
	if r.object != nil {
		r.close()
		r.cleanup.Stop()
	}
	return nil
}

// Closed reports whether Close was called.
func (r *resource) Closed() bool {
	return r.object == nil || r.uses.Load()&closedBit != 0
}

func (o *object) closedError() error {
	if o == nil {
		return fmt.Errorf("%w: it was not made by a function of this package", ErrClosed)
	}
	return fmt.Errorf("%w: this %s", ErrClosed, o.noun)
}
