using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

namespace Dllm
{
    /// <summary>How much a line matters.</summary>
    public enum LogLevel
    {
        /// <summary>For those who work on the library.</summary>
        Debug = Raw.LOG_DEBUG,
        /// <summary>What happens.</summary>
        Info = Raw.LOG_INFO,
        /// <summary>What may be wrong.</summary>
        Warn = Raw.LOG_WARN,
        /// <summary>What is wrong.</summary>
        Error = Raw.LOG_ERROR,
    }

    /// <summary>Where lines go.</summary>
    public enum LogSink
    {
        /// <summary>Nowhere.</summary>
        None = Raw.SINK_NONE,
        /// <summary>To the standard error output.</summary>
        Stderr = Raw.SINK_STDERR,
        /// <summary>To a queue, which Lines reads.</summary>
        Queue = Raw.SINK_QUEUE,
    }

    /// <summary>The log lines of the process.</summary>
    public static class Log
    {
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        private delegate void LineFn(int level, IntPtr line, IntPtr userData);

        private static readonly LineFn function = Receive; // the library keeps its address
        private static volatile Action<LogLevel, string> receiver;

        /// <summary>Sends the lines from a level on to a place.</summary>
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
