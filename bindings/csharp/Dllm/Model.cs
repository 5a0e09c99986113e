using System;
using System.Collections.Generic;

namespace Dllm
{
    /// <summary>A config and named parameters.</summary>
    public sealed class Model : Noun
    {
        internal Model(IntPtr pointer) { Adopt(pointer, p => Library.Api.dllm_model_release(p)); }

        /// <summary>Loads a model folder, a GGUF file, a run or a checkpoint folder.</summary>
        public static Model Load(string path, Engine engine = null, Options settings = null,
                                 Control control = default(Control))
        {
            using (var options = new NativeOptions("model", settings))
            {
                IntPtr made = IntPtr.Zero;
                Engine on = engine ?? Engine.Default;
                control.Run(task => Library.Api.dllm_model_load(on.Handle, Text.Z(path), options.Handle, task, out made,
                                                                Failure.Here));
                return new Model(made);
            }
        }

        /// <summary>Loads a model from files in memory.</summary>
        public static Model Load(Source source, Engine engine = null, Options settings = null,
                                 Control control = default(Control))
        {
            using (var options = new NativeOptions("model", settings))
            {
                IntPtr made = IntPtr.Zero;
                Engine on = engine ?? Engine.Default;
                control.Run(task => Library.Api.dllm_model_load_source(on.Handle, source.Handle, options.Handle, task,
                                                                       out made, Failure.Here));
                return new Model(made);
            }
        }

        /// <summary>A model with random weights; config is the content of a config.json.</summary>
        public static Model Create(string config, Engine engine = null, Options settings = null,
                                   Control control = default(Control))
        {
            byte[] text = Text.Utf8(config);
            using (var options = new NativeOptions("model", settings))
            {
                IntPtr made = IntPtr.Zero;
                Engine on = engine ?? Engine.Default;
                control.Run(task => Library.Api.dllm_model_new(on.Handle, text, text.Length, options.Handle, task, out made,
                                                               Failure.Here));
                return new Model(made);
            }
        }

        /// <summary>A model with random weights; config is the content of a config.json. InvalidArgument for a config
        /// that does not fit.</summary>
        public static Model Create(Options config, Engine engine = null, Options settings = null,
                                   Control control = default(Control)) =>
            Create(Json.Checked(config, ""), engine, settings, control);

        /// <summary>Writes a model in another weight format; the report as JSON.</summary>
        public static string Quantize(string path, string target, Options settings = null,
                                      Control control = default(Control))
        {
            using (var options = new NativeOptions("quantize", settings))
            using (var buffer = new TextBuffer())
            {
                control.Run(task => Library.Api.dllm_model_quantize(Text.Z(path), Text.Z(target), options.Handle, task,
                                                                    buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }

        /// <summary>Writes a folder with config.json and safetensors, complete or not at all; the progress counts
        /// bytes. AlreadyExists unless overwrite is true; ResourceExhausted for a full disk.</summary>
        public void Save(string path, Options settings = null, Control control = default(Control))
        {
            using (var options = new NativeOptions("save", settings))
                control.Run(task => Library.Api.dllm_model_save(Handle, Text.Z(path), options.Handle, task, Failure.Here));
        }

        /// <summary>The content of the config.json.</summary>
        public string Config() => Written((self, to, error) => Library.Api.dllm_model_config(self, to, error));

        /// <summary>family, attention, shift, runs, bytes, end_tokens, objective, generation and storage, as
        /// JSON.</summary>
        public string Describe() => Written((self, to, error) => Library.Api.dllm_model_describe(self, to, error));

        /// <summary>A number: vocab hidden layers max_length mask_id params bytes.</summary>
        public long this[string key]
        {
            get
            {
                long value;
                Failure.Check(Library.Api.dllm_model_i64(Handle, Text.Z(key), out value, Failure.Here));
                return value;
            }
        }

        /// <summary>Counts the changes of the weights.</summary>
        public long Version => Library.Api.dllm_model_version(Open);

        /// <summary>The names of all parameters.</summary>
        public IReadOnlyList<string> ParamNames
        {
            get
            {
                var names = new string[Library.Api.dllm_model_param_count(Open)];
                for (int i = 0; i < names.Length; i++) names[i] = Text.At(Library.Api.dllm_model_param_name(Open, i));
                return names;
            }
        }

        /// <summary>A copy of one parameter, in f32 or in the type that it is stored in. NotFound; the hint names the
        /// nearest.</summary>
        public Tensor Param(string name)
        {
            IntPtr made;
            Failure.Check(Library.Api.dllm_model_param(Handle, Text.Z(name), out made, Failure.Here));
            return new Tensor(made);
        }

        /// <summary>Replaces one parameter. NotFound; InvalidArgument for another shape.</summary>
        public void SetParam(string name, Tensor value) =>
            Failure.Check(Library.Api.dllm_model_set_param(Handle, Text.Z(name), value.Handle, Failure.Here));

        /// <summary>Attaches a tokenizer: every save and checkpoint of the model writes it too.</summary>
        public void SetTokenizer(Tokenizer tokenizer) =>
            Failure.Check(Library.Api.dllm_model_set_tokenizer(Handle, tokenizer.Handle, Failure.Here));

        /// <summary>Runs the model once; the result holds logits (batch, seq, vocab).</summary>
        public Batch Forward(Batch rows, Options settings = null, Control control = default(Control))
        {
            using (var options = new NativeOptions("forward", settings))
            {
                IntPtr made = IntPtr.Zero;
                control.Run(task => Library.Api.dllm_model_forward(Handle, rows.Handle, options.Handle, task, out made,
                                                                   Failure.Here));
                return new Batch(made);
            }
        }
    }

    /// <summary>Files in memory, in the place of a model folder.</summary>
    public sealed class Source : Noun
    {
        /// <summary>No files yet, for Add.</summary>
        public Source()
        {
            IntPtr made;
            Failure.Check(Library.Api.dllm_source_new(out made, Failure.Here));
            Adopt(made, p => Library.Api.dllm_source_release(p));
        }

        /// <summary>Copies a file in, under its name in the folder.</summary>
        public void Add(string name, byte[] data) =>
            Failure.Check(Library.Api.dllm_source_add(Handle, Text.Z(name), data, data.Length, 0, Failure.Here));
    }
}
