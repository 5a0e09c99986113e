using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

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
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        private delegate void LineFn(int level, IntPtr line, IntPtr userData);

        private static readonly LineFn function = Receive; // the library keeps its address
        private static volatile Action<LogLevel, string> receiver;

        public static void To(LogSink sink, LogLevel level = LogLevel.Info)
        {
            Library.Api.dllm_log_config((int)level, (int)sink);
            receiver = null;
        }

        /// <summary>Sends the lines to a function. Any thread of the library may call it, one line at a time; it must not
        /// call this package, and what it throws is dropped.</summary>
        public static void To(Action<LogLevel, string> lines, LogLevel level = LogLevel.Info)
        {
            if (lines == null) throw new ArgumentNullException(nameof(lines));
            receiver = lines;
            Library.Api.dllm_log_hook((int)level, Marshal.GetFunctionPointerForDelegate(function), IntPtr.Zero);
        }

        [MonoPInvokeCallback(typeof(LineFn))]
        private static void Receive(int level, IntPtr line, IntPtr userData)
        {
            try
            {
                receiver?.Invoke((LogLevel)level, Text.At(line));
            }
            catch (Exception)
            {
                // nothing may unwind into the library
            }
        }

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
