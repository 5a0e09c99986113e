package dllm

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// LogSink is where the library's log lines go.
type LogSink int32

// The sinks of the log.
const (
	LogNone   LogSink = dllmSinkNone
	LogStderr LogSink = dllmSinkStderr
	LogQueue  LogSink = dllmSinkQueue // LogLines reads them
)

// LogTo sends the log lines of the process, from a level on, to a sink. It ends LogToLogger.
func LogTo(sink LogSink, level slog.Level) error {
	if err := ready(); err != nil {
		return err
	}
	logging.Lock()
	defer logging.Unlock()
	logging.end()
	dllm_log_config(lowest(level), int32(sink))
	return nil
}

// LogToLogger sends the log lines of the process, from a level on, to a logger: a goroutine reads the library's queue fifty
// times a second, and a last time when LogTo or LogToLogger is called. LogLines finds nothing meanwhile.
func LogToLogger(to *slog.Logger, level slog.Level) error {
	if err := LogTo(LogQueue, level); err != nil {
		return err
	}
	logging.Lock()
	defer logging.Unlock()
	logging.begin(to)
	return nil
}

// logReader is the goroutine of LogToLogger.
type logReader struct {
	sync.Mutex
	stop, stopped chan struct{} // nil: there is none
}

var logging logReader

func (r *logReader) begin(to *slog.Logger) {
	r.end()
	stop, stopped := make(chan struct{}), make(chan struct{})
	r.stop, r.stopped = stop, stopped
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				sendLines(to)
				return
			case <-ticker.C:
				sendLines(to)
			}
		}
	}()
}

// end waits until the last lines were sent.
func (r *logReader) end() {
	if r.stop == nil {
		return
	}
	close(r.stop)
	<-r.stopped
	r.stop = nil
}

func sendLines(to *slog.Logger) {
	lines, _ := LogLines()
	for _, line := range lines {
		to.Log(context.Background(), line.Level, line.Text)
	}
}

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

// LogLine is one line of the log.
type LogLine struct {
	Level slog.Level // how much it matters
	Text  string     // without a line break
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
