package dllm

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// LogSink is where the library's log lines go.
type LogSink int32

// The sinks of the log.
const (
	LogNone   LogSink = dllmSinkNone
	LogStderr LogSink = dllmSinkStderr
	LogQueue  LogSink = dllmSinkQueue // LogLines reads them
)

// LogTo sends the log lines of the process, from a level on, to a sink.
func LogTo(sink LogSink, level slog.Level) error {
	if err := ready(); err != nil {
		return err
	}
	dllm_log_config(lowest(level), int32(sink))
	logger.Store(nil)
	return nil
}

// LogToLogger sends the log lines of the process, from a level on, to a logger. Any thread of the library may call its
// handler, one line at a time; the handler must not call this package. A panic in it is dropped.
func LogToLogger(to *slog.Logger, level slog.Level) error {
	if err := ready(); err != nil {
		return err
	}
	logger.Store(to)
	dllm_log_hook(lowest(level), logFunction(), 0)
	return nil
}

var logger atomic.Pointer[slog.Logger]

func lowest(level slog.Level) int32 {
	switch {
	case level >= slog.LevelError:
		return dllmLogError
	case level >= slog.LevelWarn:
		return dllmLogWarn
	case level >= slog.LevelInfo:
		return dllmLogInfo
	}
	return dllmLogDebug
}

var levels = map[int32]slog.Level{dllmLogDebug: slog.LevelDebug, dllmLogInfo: slog.LevelInfo,
	dllmLogWarn: slog.LevelWarn, dllmLogError: slog.LevelError}

// logLine is where the library calls: nothing may unwind out of it.
func logLine(level int32, text string) {
	defer func() { _ = recover() }()
	if to := logger.Load(); to != nil {
		to.Log(context.Background(), levels[level], text)
	}
}

// LogLine is one line of the log.
type LogLine struct {
	Level slog.Level
	Text  string
}

// LogLines removes all lines from the queue, oldest first.
func LogLines() ([]LogLine, error) {
	c := begin()
	defer c.end()
	var lines []LogLine
	var level int32
	out := c.room()
	for c.ok() && dllm_log_next(out, &level) != 0 {
		lines = append(lines, LogLine{levels[level], string(c.content())})
	}
	return lines, c.err
}
