using System;

namespace Dllm
{
    /// <summary>Text to ids and back.</summary>
    public sealed class Tokenizer : Noun
    {
        internal Tokenizer(IntPtr pointer) { Adopt(pointer, p => Library.Api.dllm_tokenizer_release(p)); }

        /// <summary>Loads tokenizer.json, a folder that holds one, a run or a GGUF file.</summary>
        public static Tokenizer Load(string path, Options settings = null, Control control = default(Control))
        {
            using (var options = new NativeOptions("tokenizer", settings))
            {
                IntPtr made = IntPtr.Zero;
                control.Run(task => Library.Api.dllm_tokenizer_load_task(Text.Z(path), options.Handle, task, out made,
                                                                         Failure.Here));
                return new Tokenizer(made);
            }
        }

        /// <summary>Loads a tokenizer from files in memory.</summary>
        public static Tokenizer Load(Source source, Options settings = null)
        {
            using (var options = new NativeOptions("tokenizer", settings))
            {
                IntPtr made;
                Failure.Check(Library.Api.dllm_tokenizer_load_source(source.Handle, options.Handle, out made, Failure.Here));
                return new Tokenizer(made);
            }
        }

        /// <summary>A byte-level BPE tokenizer of a dataset that was opened without one.</summary>
        public static Tokenizer Train(Dataset text, Options settings = null, Control control = default(Control))
        {
            using (var options = new NativeOptions("tokenizer_train", settings))
            {
                IntPtr made = IntPtr.Zero;
                control.Run(task => Library.Api.dllm_tokenizer_train(text.Handle, options.Handle, task, out made,
                                                                     Failure.Here));
                return new Tokenizer(made);
            }
        }

        /// <summary>Writes tokenizer.json into a folder, or to this file. AlreadyExists for a file of another
        /// program.</summary>
        public void Save(string path) =>
            Failure.Check(Library.Api.dllm_tokenizer_save(Handle, Text.Z(path), Failure.Here));

        /// <summary>How many tokens there are.</summary>
        public int Count => checked((int)Library.Api.dllm_tokenizer_size(Open));

        /// <summary>The id of one token by its text, or of "mask", "bos", "eos", "pad".</summary>
        public int Id(string name)
        {
            int id;
            Failure.Check(Library.Api.dllm_tokenizer_id(Handle, Text.Z(name), out id, Failure.Here));
            return id;
        }

        /// <summary>The ids of a text.</summary>
        public int[] Encode(string text, Control control = default(Control))
        {
            byte[] bytes = Text.Utf8(text);
            IntPtr made = IntPtr.Zero;
            control.Run(task => Library.Api.dllm_tokenizer_encode_task(Handle, bytes, bytes.Length, task, out made,
                                                                       Failure.Here));
            using (var row = new Batch(made)) return row.Read<int>("ids");
        }

        /// <summary>The ids of a conversation, JSON as [{"role": ..., "content": ...}]; keep is 0 for text of the
        /// assistant.</summary>
        public int[] Chat(string messages, out byte[] keep, Options settings = null, Control control = default(Control))
        {
            byte[] bytes = Text.Utf8(messages);
            IntPtr made = IntPtr.Zero;
            using (var options = new NativeOptions("chat", settings))
                control.Run(task => Library.Api.dllm_tokenizer_chat_task(Handle, bytes, bytes.Length, options.Handle, task,
                                                                         out made, Failure.Here));
            using (var row = new Batch(made))
            {
                keep = row.Read<byte>("keep");
                return row.Read<int>("ids");
            }
        }

        /// <summary>The text of ids. InvalidArgument for an id that is not in the vocabulary.</summary>
        public string Decode(int[] ids)
        {
            using (var buffer = new TextBuffer())
            {
                Failure.Check(Library.Api.dllm_tokenizer_decode(Handle, ids, ids.Length, buffer.Handle, Failure.Here));
                return buffer.Read();
            }
        }

        /// <summary>Whole characters only; the ids from `used` on belong to the next call.</summary>
        public string DecodeStream(int[] ids, out int used)
        {
            using (var buffer = new TextBuffer())
            {
                long count;
                Failure.Check(Library.Api.dllm_tokenizer_decode_stream(Handle, ids, ids.Length, buffer.Handle, out count,
                                                                       Failure.Here));
                used = checked((int)count);
                return buffer.Read();
            }
        }
    }
}
