using System.Collections.Generic;

namespace Dllm
{
    public enum LogLevel
    {
        Debug = Raw.LOG_DEBUG,
        Info = Raw.LOG_INFO,
        Warn = Raw.LOG_WARN,
        Error = Raw.LOG_ERROR,
    }

    public enum LogSink
    {
        None = Raw.SINK_NONE,
        Stderr = Raw.SINK_STDERR,
        Queue = Raw.SINK_QUEUE,
    }

    /// <summary>The log lines of the process.</summary>
    public static class Log
    {
        public static void To(LogSink sink, LogLevel level = LogLevel.Info) =>
            Library.Api.dllm_log_config((int)level, (int)sink);

        /// <summary>Removes all lines from the queue, oldest first.</summary>
        public static IReadOnlyList<KeyValuePair<LogLevel, string>> Lines()
        {
            var lines = new List<KeyValuePair<LogLevel, string>>();
            using (var buffer = new TextBuffer())
            {
                int level;
                while (Library.Api.dllm_log_next(buffer.Handle, out level) != 0)
                    lines.Add(new KeyValuePair<LogLevel, string>((LogLevel)level, buffer.Read()));
                return lines;
            }
        }
    }
}
