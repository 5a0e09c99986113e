package dllm

import "log/slog"

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
	lowest := int32(dllmLogDebug)
	switch {
	case level >= slog.LevelError:
		lowest = dllmLogError
	case level >= slog.LevelWarn:
		lowest = dllmLogWarn
	case level >= slog.LevelInfo:
		lowest = dllmLogInfo
	}
	dllm_log_config(lowest, int32(sink))
	return nil
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
	levels := map[int32]slog.Level{dllmLogDebug: slog.LevelDebug, dllmLogInfo: slog.LevelInfo,
		dllmLogWarn: slog.LevelWarn, dllmLogError: slog.LevelError}
	var lines []LogLine
	var level int32
	out := c.room()
	for c.ok() && dllm_log_next(out, &level) != 0 {
		lines = append(lines, LogLine{levels[level], string(c.content())})
	}
	return lines, c.err
}
