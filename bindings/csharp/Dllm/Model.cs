using System;
using System.Collections.Generic;
using System.Linq;

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

        /// <summary>Adds a LoRA adapter, which changes no result until it is trained; AdapterOptions has the settings.
        /// A trainer that is made afterwards trains the adapters alone; make an older one again. A name has letters,
        /// digits, _ and -. A call that fails changes nothing. AlreadyExists for a name that the model has; NotFound for
        /// targets that name no matrix; Unimplemented for targets like the head; InvalidArgument for layers that the
        /// model lacks and for other characters in a name; ResourceExhausted without memory.</summary>
        public void AddAdapter(string name = Adapter.Default, Options settings = null,
                               Control control = default(Control))
        {
            using (var options = new NativeOptions("adapter", settings))
                control.Run(task => Library.Api.dllm_model_add_adapter(Handle, Text.Z(name), options.Handle, task,
                                                                       Failure.Here));
        }

        /// <summary>Adds an adapter from a folder that PEFT or SaveAdapter wrote; the progress counts bytes. A call that
        /// fails changes nothing. AlreadyExists for a name that the model has; NotFound for a missing file or matrix;
        /// InvalidArgument for other shapes; Unimplemented for an adapter that is not LoRA; DataLoss for a damaged
        /// file.</summary>
        public void LoadAdapter(string path, string name = Adapter.Default, Control control = default(Control)) =>
            control.Run(task => Library.Api.dllm_model_load_adapter(Handle, Text.Z(path), Text.Z(name), task,
                                                                    Failure.Here));

        /// <summary>Writes an adapter as a folder that PEFT and LoadAdapter read, complete or not at all; the progress
        /// counts bytes. NotFound for an unknown name; AlreadyExists when something is at the path; PermissionDenied;
        /// ResourceExhausted for a full disk.</summary>
        public void SaveAdapter(string path, string name = Adapter.Default, Control control = default(Control)) =>
            control.Run(task => Library.Api.dllm_model_save_adapter(Handle, Text.Z(path), Text.Z(name), task,
                                                                    Failure.Here));

        /// <summary>Adds the product of an adapter to the weights, which keep their format, and removes the adapter;
        /// null: of every adapter, in the order in which they were added. NotFound for an unknown name; InvalidArgument
        /// for a sum that is not finite; OutOfRange for a sum that the format of the weight makes infinite;
        /// ResourceExhausted without memory. The adapter at which the call failed is unchanged.</summary>
        public void MergeAdapter(string name = null, Control control = default(Control)) =>
            control.Run(task => Library.Api.dllm_model_merge_adapter(Handle, Text.Z(name), task, Failure.Here));

        /// <summary>Removes an adapter and frees its memory. NotFound; the hint has the names.</summary>
        public void RemoveAdapter(string name = Adapter.Default) =>
            Failure.Check(Library.Api.dllm_model_remove_adapter(Handle, Text.Z(name), Failure.Here));

        /// <summary>Adds the network of another model of the engine as a part that losses can read, such as a teacher.
        /// Its arrays are shared, and no trainer of this model trains it. AlreadyExists for a name that is taken;
        /// InvalidArgument for a model of another engine.</summary>
        public void AddNetwork(Model other, string name = "teacher")
        {
            if (other == null) throw new ArgumentNullException(nameof(other));
            Failure.Check(Library.Api.dllm_model_add_network(Handle, other.Handle, Text.Z(name), Failure.Here));
        }

        /// <summary>Removes such a part. NotFound; the hint has the names.</summary>
        public void RemoveNetwork(string name = "teacher") =>
            Failure.Check(Library.Api.dllm_model_remove_network(Handle, Text.Z(name), Failure.Here));

        /// <summary>Multiplies the product of an adapter by a scale from now on, which is -1e9 to 1e9; 0: the adapter
        /// is off, 1: as it was trained. NotFound; InvalidArgument for another number.</summary>
        public void SetAdapterScale(double scale, string name = Adapter.Default) =>
            Failure.Check(Library.Api.dllm_model_set_adapter_scale(Handle, Text.Z(name), scale, Failure.Here));

        /// <summary>The adapters in the order in which they were added.</summary>
        public IReadOnlyList<Adapter> Adapters()
        {
            string written = Written((self, to, error) => Library.Api.dllm_model_adapters(self, to, error));
            return JsonObject.List(JsonReader.Read(written)).Select(each => new Adapter(each)).ToArray();
        }

        /// <summary>Runs the model once; the result holds logits (batch, seq, vocab). logits[i] predicts token i, also with
        /// shift 1, where the state of token i - 1 makes it. Option shift 0 gives the logits of each token's own state.</summary>
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
