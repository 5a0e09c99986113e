package dllm

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newCounted(released *atomic.Int32) *Batch {
	b := &Batch{}
	b.adopt("batch", 1, func(handle) { released.Add(1) })
	return b
}

func TestTheCollectorReleasesWhatIsUnreachable(t *testing.T) {
	var released atomic.Int32
	newCounted(&released)
	for deadline := time.Now().Add(10 * time.Second); released.Load() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("an unreachable object was not released")
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	kept := newCounted(&released)
	runtime.GC()
	_ = kept.Close()
	_ = kept.Close()
	runtime.KeepAlive(kept)
	if released.Load() != 2 {
		t.Fatalf("%d releases of 2 objects", released.Load())
	}
}

func TestARunningCallDefersTheRelease(t *testing.T) {
	var released atomic.Int32
	b := newCounted(&released)
	if !b.enter() {
		t.Fatal("an open object cannot be entered")
	}
	_ = b.Close()
	if released.Load() != 0 || b.enter() || !errors.Is(b.closedError(), ErrClosed) {
		t.Fatal("released, or entered again, while a call uses it")
	}
	b.leave()
	if released.Load() != 1 {
		t.Fatal("the last call did not release it")
	}
}

func TestEveryCloseReleasesOnce(t *testing.T) {
	for range 200 {
		var released atomic.Int32
		var group sync.WaitGroup
		b := newCounted(&released)
		for range 4 {
			group.Go(func() {
				if b.enter() {
					b.leave()
				}
				_ = b.Close()
			})
		}
		group.Wait()
		if released.Load() != 1 {
			t.Fatalf("%d releases", released.Load())
		}
	}
}
