using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;

namespace Dllm
{
    /// <summary>Loads a model with its tokenizer, for a noun that has both. Settings are those of the noun and of kind "model"
    /// at one level, and "engine": an Engine, or options for one of its own.</summary>
    internal static class Loading
    {
        internal delegate int Function(SafeHandle engine, SafeHandle model, SafeHandle own, SafeHandle task, out IntPtr made);

        internal static IntPtr Load(string noun, Options settings, Control control, Function load)
        {
            Options forNoun, forModel;
            Split(noun, settings, out forNoun, out forModel);
            object given;
            forModel.TryGetValue("engine", out given);
            forModel.Remove("engine");
            if (given != null && !(given is Engine) && !(given is Options))
                throw new ArgumentException("setting engine is a " + given.GetType().Name + "; use an Engine or Options");
            using (Engine own = given is Options ? new Engine((Options)given) : null)
            using (var options = new NativeOptions(noun, forNoun))
            using (var modelOptions = new NativeOptions("model", forModel))
            {
                IntPtr made = IntPtr.Zero;
                Engine on = own ?? (Engine)given ?? Engine.Default;
                control.Run(task => load(on.Handle, modelOptions.Handle, options.Handle, task, out made));
                return made;
            }
        }

        private static void Split(string noun, Options settings, out Options forNoun, out Options forModel)
        {
            forNoun = new Options();
            forModel = new Options();
            if (settings == null) return;
            List<string> own = KeysOf(noun), others = KeysOf("model");
            others.Add("engine");
            foreach (KeyValuePair<string, object> pair in settings)
            {
                if (own.Contains(pair.Key)) forNoun[pair.Key] = pair.Value;
                else if (others.Contains(pair.Key)) forModel[pair.Key] = pair.Value;
                else throw Unknown(noun, pair.Key, own.Concat(others));
            }
        }

        /// <summary>The names of the settings of a kind.</summary>
        internal static List<string> KeysOf(string kind)
        {
            var schema = (Dictionary<string, object>)JsonReader.Read(Library.Schema(kind));
            return ((List<object>)schema["keys"]).Select(key => (string)((Dictionary<string, object>)key)["name"]).ToList();
        }

        /// <summary>The error of a setting that a load does not have: it has the nearest name of one of its kinds, or all
        /// its names.</summary>
        private static DllmException Unknown(string noun, string key, IEnumerable<string> names)
        {
            string near = new[] {noun, "model"}.Select(kind => HintFor(kind, key))
                              .FirstOrDefault(hint => hint.StartsWith("did you mean", StringComparison.Ordinal));
            return new DllmException(
                Code.NotFound, "there is no option named \"" + key + "\" of kind model or " + noun,
                near ?? "the names are " + string.Join(", ", names.OrderBy(name => name, StringComparer.Ordinal)));
        }

        /// <summary>The hint of the library for an unknown setting of a kind.</summary>
        private static string HintFor(string kind, string key)
        {
            try
            {
                new NativeOptions(kind, new Options {[key] = 0}).Dispose();
                return "";
            }
            catch (DllmException problem)
            {
                return problem.Hint;
            }
        }
    }
}
