package dllm

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
)

// EventKind is what an event reports.
type EventKind int32

// The kinds of events; later versions of the library may add others.
const (
	EventProgress   EventKind = dllmEventProgress
	EventTrainStep  EventKind = dllmEventTrainStep
	EventEval       EventKind = dllmEventEval
	EventDecodeStep EventKind = dllmEventDecodeStep
	EventBlock      EventKind = dllmEventBlock
	EventCheckpoint EventKind = dllmEventCheckpoint
	EventText       EventKind = dllmEventText
	EventAnswer     EventKind = dllmEventAnswer
)

// Stop is returned by a callback to end the call without an error.
var Stop = errors.New("dllm: stop")

// Callback gets the events of a call, on the goroutine of the call.
type Callback func(*Event) error

// Event is the argument of a callback, valid until it returns: later reads return nothing. Its values are read by key; the
// keys of each kind are in include/dllm/event.h.
type Event struct {
	pointer handle
	kind    EventKind
}

// Kind is what the event reports.
func (e *Event) Kind() EventKind { return e.kind }

// Int returns a whole number; false when the event has none of this name.
func (e *Event) Int(key string) (int64, bool) {
	var out int64
	if e.pointer == 0 {
		return 0, false
	}
	status := dllm_event_i64(e.pointer, keyOf(key), &out, 0)
	return out, status == dllmOk
}

// Float returns a number; false when the event has none of this name.
func (e *Event) Float(key string) (float64, bool) {
	var out float64
	if e.pointer == 0 {
		return 0, false
	}
	status := dllm_event_f64(e.pointer, keyOf(key), &out, 0)
	return out, status == dllmOk
}

// Text returns a text; false when the event has none of this name.
func (e *Event) Text(key string) (string, bool) {
	if e.pointer == 0 {
		return "", false
	}
	found := dllm_event_str(e.pointer, keyOf(key))
	return textAt(found), found != 0
}

// Int32s copies an array of whole numbers: ids, states, changed.
func (e *Event) Int32s(key string) ([]int32, bool) {
	var count int64
	if e.pointer == 0 {
		return nil, false
	}
	found := dllm_event_i32s(e.pointer, keyOf(key), &count)
	return arrayAt[int32](found, int(count)), found != 0
}

// Float32s copies an array of real numbers: confidence.
func (e *Event) Float32s(key string) ([]float32, bool) {
	var count int64
	if e.pointer == 0 {
		return nil, false
	}
	found := dllm_event_f32s(e.pointer, keyOf(key), &count)
	return arrayAt[float32](found, int(count)), found != 0
}

// Describe returns all keys and values as JSON.
func (e *Event) Describe() (json.RawMessage, error) {
	if e.pointer == 0 {
		return nil, ErrClosed
	}
	c := begin()
	defer c.end()
	out := c.room()
	if c.ok() {
		c.status(dllm_event_describe(e.pointer, out, c.errp))
	}
	return c.raw(), c.err
}

func keyOf(key string) *byte { return &append([]byte(key), 0)[0] }

// session is one call with a callback. The library gets its number; no Go pointer enters it.
type session struct {
	callback Callback
	err      error
	panicked any
}

var (
	sessions    sync.Map // number -> *session
	lastSession atomic.Uintptr
)

// withCallback runs a call with the address and the number of a callback, both 0 without one.
func (c *call) withCallback(callback Callback, run func(fn, number uintptr) int32) {
	if c.err != nil {
		return
	}
	if callback == nil {
		c.status(run(0, 0))
		return
	}
	s := &session{callback: callback}
	number := lastSession.Add(1)
	sessions.Store(number, s)
	defer sessions.Delete(number)
	status := run(eventFunction(), number)
	if s.panicked != nil {
		panic(s.panicked)
	}
	if s.err != nil {
		c.err = s.err
		return
	}
	c.status(status)
}

// dispatch is where the library calls: nothing may unwind out of it.
func dispatch(event handle, number uintptr) (answer int32) {
	found, _ := sessions.Load(number)
	s := found.(*session)
	e := &Event{event, EventKind(dllm_event_kind(event))}
	defer func() {
		e.pointer = 0
		if value := recover(); value != nil {
			s.panicked, answer = value, dllmFail
		}
	}()
	switch err := s.callback(e); {
	case err == nil:
		return dllmContinue
	case errors.Is(err, Stop):
		return dllmStop
	default:
		s.err = err
		return dllmFail
	}
}
