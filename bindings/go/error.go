package dllm

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"sync"
)

// Code is the kind of an error. It is an error itself, for errors.Is(err, dllm.NotFound).
type Code int32

// The codes of the C ABI.
const (
	Cancelled          Code = dllmCancelled
	Unknown            Code = dllmUnknown
	InvalidArgument    Code = dllmInvalidArgument
	DeadlineExceeded   Code = dllmDeadlineExceeded
	NotFound           Code = dllmNotFound
	AlreadyExists      Code = dllmAlreadyExists
	PermissionDenied   Code = dllmPermissionDenied
	ResourceExhausted  Code = dllmResourceExhausted
	FailedPrecondition Code = dllmFailedPrecondition
	Aborted            Code = dllmAborted
	OutOfRange         Code = dllmOutOfRange
	Unimplemented      Code = dllmUnimplemented
	Internal           Code = dllmInternal
	Unavailable        Code = dllmUnavailable
	DataLoss           Code = dllmDataLoss
	Unauthenticated    Code = dllmUnauthenticated
	CallbackFailed     Code = dllmCallbackFailed
	ScriptFailed       Code = dllmScriptFailed
)

// String returns the code's name in the library, "not_found".
func (c Code) String() string {
	if ready() != nil {
		return "unknown"
	}
	return textAt(dllm_status_name(int32(c)))
}

// Error makes a Code a target of errors.Is.
func (c Code) Error() string { return "dllm: " + c.String() }

// ErrClosed is returned by methods of an object that was closed.
var ErrClosed = errors.New("dllm: closed")

// Error is what a call of the library returned.
type Error struct {
	Code    Code   // the kind of the error
	Message string // one line that names the thing and the numbers
	Hint    string // what to try, may be empty
	causes  []error
}

// Error returns the message and, after a semicolon, the hint.
func (e *Error) Error() string {
	text := "dllm: " + e.Message
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Is reports whether target is the error's Code, or the like of it in io/fs.
func (e *Error) Is(target error) bool {
	switch target {
	case fs.ErrNotExist:
		return e.Code == NotFound
	case fs.ErrExist:
		return e.Code == AlreadyExists
	case fs.ErrPermission:
		return e.Code == PermissionDenied
	}
	return target == error(e.Code)
}

// Unwrap returns the error of the context that ended the call, and its cause.
func (e *Error) Unwrap() []error { return e.causes }

// cancelled is the error of a context that is done.
func cancelled(ctx context.Context) *Error {
	code, message := Cancelled, "the context was cancelled"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		code, message = DeadlineExceeded, "the deadline of the context has passed"
	}
	return &Error{Code: code, Message: message, causes: []error{ctx.Err(), context.Cause(ctx)}}
}

func invalid(message, hint string) *Error {
	return &Error{Code: InvalidArgument, Message: message, Hint: hint}
}

// problem is an error object of the library, which a failing call fills.
type problem struct{ pointer handle }

var problems = sync.Pool{New: func() any {
	p := &problem{dllm_error_new()}
	runtime.AddCleanup(p, dllm_error_release, p.pointer)
	return p
}}

func (p *problem) read(status int32) *Error {
	return &Error{Code: Code(status), Message: textAt(dllm_error_message(p.pointer)),
		Hint: textAt(dllm_error_hint(p.pointer))}
}

// Must returns value, and panics with err: for examples and for what is made once at the start of a program.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
