"""Train and decode diffusion language models. Over libdllm by ctypes; numpy is optional."""
from . import errors, hub
from ._base import Managed, Options, schema
from ._lib import abi_version, build_info, has_feature, log_lines, log_to, names, version
from ._raw import FINAL, FIXED, MASKED, PROVISIONAL
from ._settings import (AdapterSettings, AddSettings, DecoderSettings, EngineSettings,
                        GeneratorSettings, HubSettings, LoadSettings, ModelSettings,
                        QueueLoadSettings, QueueSettings, RequestSettings, SlotSettings,
                        SubmissionSettings, TrainerSettings)
from .answer import Answer
from .asynchronous import run_async
from .batch import Batch
from .checkpoint import Checkpoint, latest_checkpoint, restore_checkpoint, save_checkpoint
from .dataset import Dataset
from .decoder import Decoder
from .engine import Engine, default_engine
from .errors import ClosedError, Error
from .event import CONTINUE, STOP, Event
from .generation import Generation
from .generator import Generator, load
from .hub import pull
from .loader import Loader
from .lua import Lua
from .model import Model
from .objective import Objective
from .plugin import describe_plugin, plugins
from .queue import Queue
from .schedule import Schedule
from .source import Source
from .stream import Piece, Stream
from .task import Task
from .tensor import Tensor
from .ticket import Ticket
from .tokenizer import Tokenizer
from .trainer import Trainer

__version__ = version()

__all__ = [
    "AdapterSettings", "AddSettings", "Answer", "Batch", "CONTINUE", "Checkpoint", "ClosedError",
    "Dataset", "Decoder", "DecoderSettings", "Engine", "EngineSettings", "Error", "Event", "FINAL",
    "FIXED", "Generation", "Generator", "GeneratorSettings", "HubSettings", "LoadSettings",
    "Loader", "Lua", "MASKED", "Managed", "Model", "ModelSettings", "Objective", "Options",
    "PROVISIONAL", "Piece", "Queue", "QueueLoadSettings", "QueueSettings", "RequestSettings",
    "STOP", "Schedule", "SlotSettings", "Source", "Stream", "SubmissionSettings", "Task", "Tensor",
    "Ticket", "Tokenizer", "Trainer", "TrainerSettings", "abi_version", "build_info",
    "default_engine", "describe_plugin", "errors", "has_feature", "hub", "latest_checkpoint",
    "load", "log_lines", "log_to", "names", "plugins", "pull", "restore_checkpoint", "run_async",
    "save_checkpoint", "schema", "version",
]
