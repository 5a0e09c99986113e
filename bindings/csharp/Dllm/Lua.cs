using System;

namespace Dllm
{
    /// <summary>Runs scripts inside the library, with a state of its own. Values that scripts return are a JSON array.</summary>
    public sealed class Lua : Noun
    {
        /// <summary>Options of kind "lua": sandbox, roots, memory_limit (bytes), step_limit (instructions), path,
        /// seed.</summary>
        public Lua(Options settings = null)
        {
            using (var options = new NativeOptions("lua", settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_lua_new(options.Handle, out made, Failure.Here));
                Adopt(made, p => Library.Api.dllm_lua_release(p));
            }
        }

        /// <summary>Sets a global to an object of the library.</summary>
        public void Set(string name, Noun value) =>
            Failure.Check(Library.Api.dllm_lua_set_object(Handle, Text.Z(name), Text.Z(value.Kind), value.Handle,
                                                          Failure.Here));

        /// <summary>Sets a global to numbers, texts, lists and dictionaries.</summary>
        public void Set(string name, object value)
        {
            byte[] json = Text.Utf8(Json.Checked(value, name));
            Failure.Check(Library.Api.dllm_lua_set_json(Handle, Text.Z(name), json, json.Length, Failure.Here));
        }

        /// <summary>Runs a file; what it returns, as JSON. NotFound; ScriptFailed has file and line, and the hint the
        /// traceback.</summary>
        public string RunFile(string path, object[] arguments = null, Control control = default(Control))
        {
            byte[] json = Text.Utf8(Json.Checked(arguments ?? new object[0], "arguments"));
            using (var buffer = new TextBuffer())
            {
                control.Run(task => Library.Api.dllm_lua_run_file(Handle, Text.Z(path), json, json.Length, task,
                                                                  buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }

        /// <summary>Runs code; name is what its errors call it.</summary>
        public string RunText(string code, string name = "text", Control control = default(Control))
        {
            byte[] bytes = Text.Utf8(code);
            using (var buffer = new TextBuffer())
            {
                control.Run(task => Library.Api.dllm_lua_run_text(Handle, Text.Z(name), bytes, bytes.Length, task,
                                                                  buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }

        /// <summary>Calls a global function; dots reach into tables.</summary>
        public string Call(string function, object[] arguments = null, Control control = default(Control))
        {
            byte[] json = Text.Utf8(Json.Checked(arguments ?? new object[0], "arguments"));
            using (var buffer = new TextBuffer())
            {
                control.Run(task => Library.Api.dllm_lua_call(Handle, Text.Z(function), json, json.Length, task,
                                                              buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }
    }
}
